//! Whether a learnt correction of the plan pays: plan with forecast, and the same with a residual, gated and not, on
//! held-out days. Prints one line a seed, load and policy.
//!
//! `cargo run --release -p meanfield-agent --example residual -- [first seed] [last seed] [iterations] [events|fluid]`

#![allow(clippy::print_stdout)] // that is what it is for

use std::{env, sync::Arc, time::Instant};

use meanfield_agent::{
    Error,
    agent::Agent,
    environment::Tenant,
    fleet::Fleet,
    link::Nobody,
    policy::{
        Policy,
        forecast::{Care, Forecast},
        plan::{Options, Plan},
        ppo::Ppo,
        residual::{Base, Residual},
    },
    pretraining::Recipe,
    training::{Bases, Trainer, mix, streams::HELD_OUT_DAYS},
};
use meanfield_learner::{ActorCritic, Config, forecast::Network};
use meanfield_simulator::{
    cluster::Model,
    scenario::{DAY_STEPS, Scenario, Start},
};
use meanfield_traces::synth::Preset;

const TENANTS: usize = 12;
/// Held-out loads, with how many times the usual arrivals come: the usual ones of Azure's functions are, for minutes,
/// several times what the cluster can do, and less than that is a question of who yields, not of sizes.
const LOADS: [(Preset, f64); 2] = [(Preset::Diurnal, 1.0), (Preset::AzureFunctions, 0.3)];
const DEMANDS: [f64; 4] = [0.6, 0.8, 1.0, 1.2];

fn plan(network: &Arc<Network>, price: f64, tune: bool) -> Result<Box<dyn Base>, Error> {
    let care = Care { tune, ..Care::default() };
    Ok(Box::new(Plan::new(Options { price }, Forecast::new(network.clone(), care))?))
}

fn trained(network: &Arc<Network>, config: &Config, seed: u64, iterations: u64) -> Result<ActorCritic, Error> {
    let pools: Result<Vec<_>, _> = (0..config.environments).map(|pool| format!("pool-{pool}").parse()).collect();
    let network = network.clone();
    let bases: Bases = Arc::new(move |_| plan(&network, Options::default().price, false));
    let scenario = Scenario::new(TENANTS, 1)?;
    let trainer = Trainer::on(bases, config.clone(), &scenario, seed, &pools?, |_| Nobody)?;
    let mut trainer = trainer.with_loads(Preset::ALL.to_vec()).with_demands(DEMANDS.to_vec())?;
    let mut window = [0.0; 3];
    for iteration in 0..iterations {
        let progress = trainer.iterate(iteration as f32 / iterations as f32)?;
        for (sum, value) in window.iter_mut().zip([progress.reward, 100.0 * progress.violations, progress.cores]) {
            *sum += value / 24.0;
        }
        // All loads with all demands come round in so many.
        if (iteration + 1).is_multiple_of(24) {
            println!("  {iteration}: reward {:.4}, {:.2} % missed, {:.2} cores", window[0], window[1], window[2]);
            window = [0.0; 3];
        }
    }
    Ok(trainer.network(0).clone())
}

/// A day to get to know the workloads, and one that counts: windows and requests that missed, cores, GiB; and the
/// policies.
fn played<P: Policy>(
    scenario: &Scenario,
    seed: u64,
    policy: impl Fn() -> Result<P, Error>,
) -> Result<([f64; 4], Fleet<Nobody, P>), Error> {
    let pool = "held-out".parse()?;
    let shape = Config::default().reward;
    let mut fleet = Fleet::new(scenario, seed, Start::Sized, pool, shape, |_, _| Ok((Nobody, policy()?)))?;
    let (mut windows, mut missed, mut requests, mut late, mut cores, mut memory) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    futures_executor::block_on(async {
        for step in 0..2 * DAY_STEPS {
            for one in fleet.round_in_turn().await?.iter().filter(|_| step >= DAY_STEPS) {
                windows += 1.0;
                missed += f64::from(u8::from(one.outcome.violated));
                requests += one.outcome.requests;
                late += one.outcome.violating;
                cores += one.outcome.cores / DAY_STEPS as f64;
                memory += one.outcome.memory / DAY_STEPS as f64 / f64::from(1 << 30);
            }
        }
        Ok::<_, Error>(())
    })?;
    Ok(([100.0 * missed / windows, 100.0 * late / requests, cores, memory], fleet))
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize, usual: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (first, last, iterations) = (number(0, 1), number(1, 5), number(2, 48));
    let model = if arguments.get(3).is_some_and(|text| text == "fluid") { Model::Fluid } else { Model::Events };
    let network = Arc::new(Recipe::default().train(|_, _| ())?);
    println!("seed load policy windows% requests% cores GiB");
    for seed in first..=last {
        let begun = Instant::now();
        let corrections = Arc::new(trained(&network, &Config::residual(), seed, iterations)?);
        println!("  seed {seed}: trained in {:.0} s", begun.elapsed().as_secs_f64());
        for (load, demand) in LOADS {
            let scenario = Scenario::new(TENANTS, 2 * DAY_STEPS)?.with_load(load).with_model(model);
            let scenario = scenario.with_demand(demand)?;
            let day = mix(seed, HELD_OUT_DAYS);
            let (highest, mean) = scenario.pressure(day)?;
            println!("  {}: demand {mean:.2} of the cores, at most {highest:.2}", load.name());
            let say = |name: &str, [windows, requests, cores, gib]: [f64; 4]| {
                println!("{seed} {} {name} {windows:.3} {requests:.3} {cores:.2} {gib:.2}", load.name());
            };
            let base = || plan(&network, Options::default().price, true);
            say("plan", played(&scenario, day, base)?.0);
            let ungated = || Ok(Ppo::serving(corrections.clone()).on(base()?));
            say("ungated", played(&scenario, day, ungated)?.0);
            let gated = || Ok(Residual::new(corrections.clone(), base()?)?);
            let (figures, mut fleet) = played(&scenario, day, gated)?;
            say("gated", figures);
            let shadow =
                |(_, agent): (usize, &mut Agent<Tenant, Nobody, Residual>)| agent.policy_mut().shadow().clone();
            let shadows: Vec<_> = fleet.agents_mut().map(shadow).collect();
            let acting = shadows.iter().filter(|shadow| shadow.acts()).count();
            let scores = [0, 1].map(|of| shadows.iter().map(|shadow| shadow.scores()[of]).sum::<f64>());
            println!("  {acting} of {TENANTS} act at the end; scores {:.2} and {:.2}", scores[0], scores[1]);
        }
    }
    Ok(())
}
