//! Simulated steps and requests per second on one core.

use std::time::Instant;

use meanfield_simulator::scenario::{Scenario, Start};

use super::{Row, median};

/// Runs of each figure; the median counts.
const RUNS: usize = 5;
/// Agent-steps of one run of the fluid model.
const AGENT_STEPS: usize = 600_000;

pub fn run() -> anyhow::Result<Vec<Row>> {
    // Small and large alternate, so that noise falls on both.
    let mut speeds = [Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        for (speeds, tenants) in speeds.iter_mut().zip([12, 1000]) {
            speeds.push(fluid(tenants)?);
        }
    }
    let [few, many] = speeds.map(median);
    let ratio = Row {
        peer: Some(few),
        ratio: Some(many / few),
        ..Row::alone("fluid, 1000 workloads (peer: 12)", many, "M agent-steps/s")
    };
    Ok(vec![Row::alone("fluid, 12 workloads", few, "M agent-steps/s"), ratio])
}

/// Million agent-steps per second of the fluid model.
fn fluid(tenants: usize) -> anyhow::Result<f64> {
    let (mut cluster, _) = Scenario::new(tenants, 480)?.build(1, Start::Sized)?;
    let steps = AGENT_STEPS / tenants;
    let started = Instant::now();
    for _ in 0..steps {
        cluster.advance();
    }
    Ok((steps * tenants) as f64 / started.elapsed().as_secs_f64() / 1e6)
}
