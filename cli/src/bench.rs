//! x
use crate::args::BenchArgs;
pub fn run(_: &BenchArgs) -> anyhow::Result<()> {
    anyhow::bail!("being written")
}
