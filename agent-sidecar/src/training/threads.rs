//! Work on several threads, with results in a fixed order.

use std::thread;

/// One thread for each item; results in their order.
pub(super) fn on_threads<I: Send, T: Send, E: Send>(
    items: impl Iterator<Item = I>,
    work: impl Fn(I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = items.map(|item| scope.spawn(move || work(item))).collect();
        let joined =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.collect()
    })
}
