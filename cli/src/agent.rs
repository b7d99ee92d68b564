//! `meanfield agent`: one agent in real time.

use std::{fs, path::Path, sync::Arc};

use anyhow::Context;
use clap::ValueEnum;
use meanfield_agent::{
    agent::Agent,
    daemon,
    environment::Alone,
    http::Http,
    policy::{
        Policy, aimd::Aimd, ensure::Ensure, hpa::Follow, kpa::Kpa, learning::Learning, ppo, ppo::Ppo,
        reactive::Reactive, rules::Rules,
    },
};
use meanfield_common::{invalid::Invalid, reward::Shape};
use meanfield_coordinator::token;
use meanfield_learner::{ActorCritic, Learner};
use meanfield_simulator::{scenario::DAY_STEPS, workload::functions};

use crate::{
    args::{AgentArgs, PolicyName},
    signals,
};

pub fn run(args: &AgentArgs) -> anyhow::Result<()> {
    signals::start_log(&args.log)?;
    if args.learn && args.policy != PolicyName::Ppo {
        let name = args.policy.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        Err(Invalid::new("policy", name, "ppo, the only one that learns"))?;
    }
    let place = functions().iter().position(|function| function.name == args.function).ok_or_else(|| {
        let names = functions().iter().map(|function| function.name.as_str()).collect::<Vec<_>>().join(", ");
        Invalid::new("function", &args.function, format!("one of {names}"))
    })?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => args.function.parse()?,
    };
    let token = match &args.token {
        Some(token) => token.clone(),
        None => token::read(&args.data_dir).context("no --token is given, and none is found in --data-dir")?,
    };
    let link = Http::new(&args.coordinator, token)?;
    let (environment, mut target) = Alone::new(name, place, DAY_STEPS, args.seed)?;
    target.weight = args.weight;
    let (pool, every, steps) = (args.pool.clone(), args.interval, args.steps);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let shutdown = signals::shutdown()?;
        if args.learn {
            let path = args.model.as_deref().ok_or_else(missing_model)?;
            let learning = Learning::new(learner(path, args.seed)?, args.seed)?;
            let shape = learning.config().reward;
            let mut agent = Agent::new(target, environment, link, pool, learning, shape);
            let ended = daemon::run(&mut agent, every, steps, shutdown).await;
            // What was learnt is kept however the run ended.
            write(path, &agent.policy_mut().learner().save()?)?;
            tracing::info!(model = %path.display(), "wrote the checkpoint");
            Ok(ended?)
        } else {
            let mut agent = Agent::new(target, environment, link, pool, policy(args)?, Shape::BALANCED);
            Ok(daemon::run(&mut agent, every, steps, shutdown).await?)
        }
    })
}

fn missing_model() -> Invalid {
    Invalid::new("model", "no file", "a checkpoint, which the ppo policy and --learn need")
}

fn policy(args: &AgentArgs) -> anyhow::Result<Box<dyn Policy>> {
    Ok(match (args.policy, &args.model) {
        (PolicyName::Reactive, _) => Box::new(Reactive::default()),
        (PolicyName::HpaVpa, _) => Box::new(Rules::hpa_vpa(Follow::Cpu(args.hpa_target))?),
        (PolicyName::HpaConcurrency, _) => Box::new(Rules::hpa_vpa(Follow::Concurrency(args.concurrency))?),
        (PolicyName::Vpa, _) => Box::new(Rules::vpa()?),
        (PolicyName::Kpa, _) => Box::new(Kpa::new(args.concurrency)?),
        (PolicyName::Aimd, _) => Box::new(Aimd::default()),
        (PolicyName::Ensure, _) => Box::new(Ensure::new()?),
        (PolicyName::Ppo, Some(path)) => {
            let network = ActorCritic::load(&read(path)?).with_context(|| path.display().to_string())?;
            ppo::check(network.config())?;
            Box::new(Ppo::serving(Arc::new(network)))
        }
        (PolicyName::Ppo, None) => Err(missing_model())?,
    })
}

/// A learner to go on with: with its optimiser if the file has that, else from its networks.
fn learner(path: &Path, seed: u64) -> anyhow::Result<Learner> {
    let bytes = read(path)?;
    let learner = Learner::load(&bytes)
        .or_else(|_| ActorCritic::load(&bytes).map(|network| Learner::from_network(network, seed)));
    learner.with_context(|| path.display().to_string())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

/// Written aside and moved into place, so that a crash leaves the old file or the new one.
fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let aside = Path::new(&aside);
    fs::write(aside, bytes).with_context(|| aside.display().to_string())?;
    fs::rename(aside, path).with_context(|| path.display().to_string())
}
