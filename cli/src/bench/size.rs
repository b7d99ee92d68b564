//! The size of this binary, and the coordinator's memory with 10,000 registered agents.

use std::fs;

use super::{Row, child::Running};

const AGENTS: usize = 10_000;

pub(super) fn run() -> anyhow::Result<Vec<Row>> {
    let binary = fs::metadata(std::env::current_exe()?)?.len();
    Ok(vec![
        Row::alone("binary", binary as f64 / 1e6, "MB"),
        Row::alone("coordinator's memory, 10,000 agents that have reported", memory()? / 1e6, "MB"),
    ])
}

/// Resident bytes of a coordinator in a process of its own.
fn memory() -> anyhow::Result<f64> {
    let data = tempfile::tempdir()?;
    let coordinator = Running::start(data.path())?;
    let swarm = coordinator.swarm(32)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let agents = swarm.register(AGENTS).await?;
        let heartbeats = agents.iter().map(|one| swarm.heartbeat(one.agent, one.epoch, 1));
        let taken = swarm.drive(heartbeats.collect::<Result<_, _>>()?).await?;
        anyhow::ensure!(taken == AGENTS as u64, "only {taken} heartbeats were taken");
        anyhow::Ok(())
    })?;
    coordinator.memory()
}
