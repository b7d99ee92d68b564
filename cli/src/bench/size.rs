//! The size of this binary, and the coordinator's memory with 10,000 registered agents.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use anyhow::Context;
use meanfield_coordinator::token;
use meanfield_loadgen::swarm::Swarm;

use super::Row;

const AGENTS: usize = 10_000;

pub(super) fn run() -> anyhow::Result<Vec<Row>> {
    let binary = fs::metadata(std::env::current_exe()?)?.len();
    Ok(vec![
        Row::alone("binary", binary as f64 / 1e6, "MB"),
        Row::alone("coordinator's memory, 10,000 agents that have reported", memory()? / 1e6, "MB"),
    ])
}

/// A child that does not outlive the measurement.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Resident bytes of a coordinator in a process of its own.
fn memory() -> anyhow::Result<f64> {
    let data = tempfile::tempdir()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["coordinator", "--listen", "127.0.0.1:0", "--log", "warn", "--data-dir"]).arg(data.path());
    let mut child = Running(command.stdout(Stdio::piped()).spawn()?);
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().context("no output")?).read_line(&mut line)?;
    let address = line.trim().strip_prefix("http://").context("the coordinator did not start")?.parse()?;
    let token = token::read(data.path())?;
    let swarm = Swarm { address, token: token.into(), pool: "default".parse()?, connections: 32 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let agents = swarm.register(AGENTS).await?;
        let heartbeats = agents.iter().map(|one| swarm.heartbeat(one.agent, one.epoch, 1));
        let taken = swarm.drive(heartbeats.collect::<Result<_, _>>()?).await?;
        anyhow::ensure!(taken == AGENTS as u64, "only {taken} heartbeats were taken");
        anyhow::Ok(())
    })?;
    let status = fs::read_to_string(format!("/proc/{}/status", child.0.id()))
        .context("no /proc: memory is read on Linux only")?;
    let kilobytes =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).and_then(|rest| rest.split_whitespace().next());
    let kilobytes: f64 = kilobytes.context("no VmRSS")?.parse()?;
    Ok(kilobytes * 1024.0)
}
