//! Many members at once.

use meanfield_common::{
    identity::Category,
    mean_field::Aspects,
    wire::{Register, Registered},
};
use meanfield_coordinator::Coordinator;
use tokio::task::JoinSet;

/// Registers in process, many at a time, so that one flush serves them all.
pub(super) async fn register(coordinator: &Coordinator, count: usize) -> anyhow::Result<Vec<Registered>> {
    const AT_ONCE: usize = 8192;
    let mut agents = Vec::with_capacity(count);
    for begin in (0..count).step_by(AT_ONCE) {
        let mut tasks = JoinSet::new();
        for number in begin..(begin + AT_ONCE).min(count) {
            let name = format!("namespace-{}/workload-{number}", number % 100).parse()?;
            let category = Category::ALL[number % Category::ALL.len()];
            let (coordinator, pool) = (coordinator.clone(), "default".parse()?);
            tasks.spawn(
                async move { coordinator.register(Register { name, pool, category, wants: Aspects::NONE }).await },
            );
        }
        while let Some(registered) = tasks.join_next().await {
            agents.push(registered??);
        }
    }
    Ok(agents)
}
