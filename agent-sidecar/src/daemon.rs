//! One agent in real time: a step each interval until told to stop, then a goodbye.

use std::{future::Future, time::Duration};

use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, info};

use crate::{Error, agent::Agent, environment::Environment, link::Link, policy::Policy};

/// Runs an agent until `shutdown`, at most `steps` steps if given.
pub async fn run<E: Environment, L: Link, P: Policy>(
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
            _ = ticks.tick() => {}
            () = &mut shutdown => break,
        }
        let report = agent.step(None).await?;
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
    agent.leave().await?;
    info!(steps = done, "left");
    Ok(())
}
