//! One agent in real time: a step each interval until told to stop, then a goodbye.

use std::{future::Future, time::Duration};

use meanfield_common::invalid::Invalid;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, info, warn};

use crate::{Error, agent::Agent, environment::Environment, link::Link, policy::Policy};

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
        let report = agent.step(None).await?;
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
        debug!(
            step = done,
            reward = report.reward,
            replicas = report.seen.scale.replicas,
            cpu = %report.seen.scale.limit.cpu,
            memory = %report.seen.scale.limit.memory,
            latency_p99 = report.seen.latency_p99,
            violated = report.violated,
            connected = report.connected,
            "step"
        );
    }
    Ok(())
}
