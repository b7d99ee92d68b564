//! One forecast and one plan, as an agent makes them each step.

use std::{hint::black_box, sync::Arc};

use meanfield_agent::{
    environment::Target,
    policy::{
        Policy, View,
        forecast::{Care, Forecast, shipped},
        outlook::{Foresee, LEVELS, Outlook, Spread},
        plan::{Options, Plan},
    },
};
use meanfield_common::{
    action::Action, mean_field::AuxiliaryState, observation::Observation, scarcity::Weight, state::LocalState,
};
use meanfield_simulator::scenario::{Scenario, Start};

use super::{cpu_seconds, median};

/// Steps before it counts, so that windows are full.
const BEFORE: usize = 3000;
const STEPS: usize = 2000;
const GROUP: usize = 20;

/// Seconds of a forecast, its corrections and rolling losses included, without tuning.
pub(super) fn forecast() -> anyhow::Result<f64> {
    let mut who = Forecast::new(shipped()?, Care { tune: false, ..Care::default() });
    timed(|step| {
        black_box(who.outlook(rate(step), 15.0));
        Ok(())
    })
}

/// Expects everything up to twice the rate of now, so that each level counts.
struct Wide;

impl Foresee for Wide {
    fn name(&self) -> &'static str {
        "wide"
    }

    fn outlook(&mut self, rate: f64, _: f64) -> Outlook {
        let spread = Spread(LEVELS.map(|level| rate * (0.5 + 1.5 * level)));
        Outlook { next: spread, ahead: spread }
    }

    fn reset(&mut self) {}
}

/// Seconds of a decision of the queue model, without the forecast.
pub(super) fn plan() -> anyhow::Result<f64> {
    let tenant = Scenario::new(1, 1)?.tenant(0, 1, Start::Sized)?;
    let target = Target {
        name: "bench".parse()?,
        category: tenant.workload.category,
        slo: tenant.slo,
        bounds: tenant.bounds.clone(),
        weight: Weight::clamped(1.0),
    };
    let mut plan = Plan::new(Options::default(), Wide)?;
    let (state, auxiliary) = (LocalState::default(), Arc::new(AuxiliaryState::default()));
    let cpu = tenant.workload.cpu_seconds();
    timed(|step| {
        let rate = rate(step) / cpu / 60.0;
        let seen = Observation {
            arrival_rate: rate,
            throughput: rate,
            latency_p50: Some(1500.0 * cpu),
            latency_p99: Some(4000.0 * cpu),
            cpu_used: meanfield_common::resources::MilliCores((1000.0 * rate * cpu) as u64),
            scale: tenant.scale,
            ready: tenant.scale.replicas,
            ..Observation::default()
        };
        let view = View {
            target: &target,
            seen: &seen,
            state: &state,
            auxiliary: &auxiliary,
            scarcity: None,
            uncut: seen.scale,
            previous: Action::HOLD,
            paused: false,
        };
        black_box(plan.decide(&view)?);
        Ok(())
    })
}

/// A load that moves.
fn rate(step: usize) -> f64 {
    60.0 + 30.0 * (step as f64 / 70.0).sin() + ((step * 7919) % 13) as f64
}

fn timed(mut once: impl FnMut(usize) -> anyhow::Result<()>) -> anyhow::Result<f64> {
    (0..BEFORE).try_for_each(&mut once)?;
    let mut times = Vec::with_capacity(STEPS / GROUP);
    for group in 0..STEPS / GROUP {
        let started = cpu_seconds();
        for step in 0..GROUP {
            once(BEFORE + group * GROUP + step)?;
        }
        times.push((cpu_seconds() - started) / GROUP as f64);
    }
    Ok(median(times))
}
