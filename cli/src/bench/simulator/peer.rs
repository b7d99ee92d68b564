//! SimFaaS, a simulator of serverless platforms in Python, in a process of its own.

use std::{io::ErrorKind, path::Path, process::Command};

use anyhow::{Context, ensure};

use super::Function;

/// What the script ends with where SimFaaS is not installed; Python's own errors are 1.
const MISSING: i32 = 3;

/// Starting Python and importing do not count: the script takes the time itself.
const SCRIPT: &str = "
import sys, time
try:
    from simfaas.ServerlessSimulator import ServerlessSimulator
except ImportError:
    sys.exit(3)
rate, service, seconds = map(float, sys.argv[1:])
simulator = ServerlessSimulator(
    arrival_rate=rate, warm_service_rate=1 / service, cold_service_rate=1 / service, max_time=seconds)
started = time.perf_counter()
simulator.generate_trace()
print(simulator.total_req_count / (time.perf_counter() - started) / 1e3)
";

/// Thousand requests per second; `None` where there is no Python or no SimFaaS.
pub(super) fn run(python: &Path, function: &Function) -> anyhow::Result<Option<f64>> {
    let numbers = [function.rate, function.service, function.seconds].map(|number| number.to_string());
    let output = match Command::new(python).args(["-c", SCRIPT]).args(numbers).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        output => output.with_context(|| python.display().to_string())?,
    };
    if output.status.code() == Some(MISSING) {
        return Ok(None);
    }
    ensure!(output.status.success(), "simfaas failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(Some(text.trim().parse().with_context(|| format!("simfaas printed {:?}", text.trim()))?))
}
