//! Work on several threads, with results in a fixed order.

use std::thread;

/// One thread for each item, this one for the first; results in their order. On a busy machine a thread that lives for one
/// episode would wait for its turn anew each time.
pub(super) fn on_threads<I: Send, T: Send, E: Send>(
    mut items: impl Iterator<Item = I>,
    work: impl Fn(I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    thread::scope(|scope| {
        let (first, work) = (items.next(), &work);
        let workers: Vec<_> = items.map(|item| scope.spawn(move || work(item))).collect();
        let own = first.map(work);
        let joined =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        own.into_iter().chain(joined).collect()
    })
}
