//! A coordinator in a process of its own, to measure from outside.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::Context;
use meanfield_coordinator::token;
use meanfield_loadgen::swarm::Swarm;

/// A process that does not outlive the measurement.
pub(super) struct Running {
    child: Child,
    address: SocketAddr,
    token: String,
}

impl Running {
    /// Starts one on a free port, and returns when it serves. Nobody is found silent while it is measured.
    pub(super) fn start(data: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["coordinator", "--listen", "127.0.0.1:0", "--log", "warn"]);
        command.args(["--suspect-after", "1h", "--gone-after", "2h", "--data-dir"]).arg(data);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let read =
            child.stdout.take().context("no output").and_then(|out| Ok(BufReader::new(out).read_line(&mut line)?));
        let found = read.and_then(|_| {
            let address = line.trim().strip_prefix("http://").context("the coordinator did not start")?.parse()?;
            Ok((address, token::read(data)?))
        });
        match found {
            Ok((address, token)) => Ok(Self { child, address, token }),
            Err(error) => {
                // It may have ended already.
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    pub(super) fn swarm(&self, connections: usize) -> anyhow::Result<Swarm> {
        let (address, token) = (self.address, self.token.as_str().into());
        Ok(Swarm { address, tls: None, token, pool: "default".parse()?, connections })
    }

    /// Its resident bytes.
    pub(super) fn memory(&self) -> anyhow::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .context("no /proc: memory is read on Linux only")?;
        let kilobytes =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")).and_then(|rest| rest.split_whitespace().next());
        Ok(kilobytes.context("no VmRSS")?.parse::<f64>()? * 1024.0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
