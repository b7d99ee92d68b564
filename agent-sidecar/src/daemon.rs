//! One agent in real time: a step each interval until told to stop, then the last recorded steps and a goodbye.
//!
//! Each step has a trace of its own: its id is in the log, and goes to the coordinator with every request of the step.

use std::{future::Future, time::Duration};

use meanfield_common::{invalid::Invalid, trace::Context};
use tokio::time::{MissedTickBehavior, interval};
use tracing::{Instrument, debug, info, info_span, warn};

use crate::{Error, agent::Agent, environment::Environment, http::random, link::Link, policy::Policy};

/// Runs an agent until `shutdown`, at most `steps` steps if given.
pub async fn run<E: Environment, L: Link, P: Policy>(
    agent: &mut Agent<E, L, P>,
    every: Duration,
    steps: Option<u64>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    if every.is_zero() {
        return Err(Invalid::new("interval", "0s", "above 0").into());
    }
    let outcome = tick(agent, every, steps, shutdown).await;
    // Before the goodbye: the coordinator takes steps of members only.
    agent.finish().await;
    // Who was replaced or refused has no membership to end. Anybody else says goodbye, also after a failure, so that
    // what it reported last does not count any longer.
    if let Err(Error::Link(_)) = outcome {
        return outcome;
    }
    let left = agent.leave().await;
    outcome.and(left)?;
    info!("left");
    Ok(())
}

async fn tick<E: Environment, L: Link, P: Policy>(
    agent: &mut Agent<E, L, P>,
    every: Duration,
    steps: Option<u64>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let mut ticks = interval(every);
    // A step that took too long delays the next one; catching up would only hurry decisions.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut done = 0;
    tokio::pin!(shutdown);
    while steps.is_none_or(|most| done < most) {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            _ = ticks.tick() => {}
        }
        let context = Context::new(random(), agent.exports());
        agent.follow(Some(context));
        let Context { trace, span, sampled } = context;
        let span = info_span!("step", trace_id = %trace, span_id = %span, sampled, agent = %agent.target().name);
        step(agent, done + 1).instrument(span).await?;
        if done == 0
            && let Some(within) = agent.membership().heartbeat_within().filter(|within| every > *within)
        {
            warn!(
                ?every,
                ?within,
                "steps are further apart than the coordinator waits: it will think this agent silent"
            );
        }
        done += 1;
    }
    agent.follow(None);
    Ok(())
}

async fn step<E: Environment, L: Link, P: Policy>(agent: &mut Agent<E, L, P>, number: u64) -> Result<(), Error> {
    let report = agent.step(None).await?;
    debug!(
        step = number,
        reward = report.reward,
        replicas = report.seen.scale.replicas,
        cpu = %report.seen.scale.limit.cpu,
        memory = %report.seen.scale.limit.memory,
        latency_p99 = report.seen.latency_p99,
        violated = report.violated,
        connected = report.connected,
        "step"
    );
    Ok(())
}
