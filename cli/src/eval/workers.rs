//! Cells on several threads, kept on disk: whatever was computed with the same settings is not computed again.

use std::{
    fs,
    num::NonZero,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Serialize, de::DeserializeOwned};

/// A folder of results, each with the settings that it belongs to and the program that it came from.
pub struct Store {
    folder: PathBuf,
    /// Another program may come to other results with the same settings.
    program: String,
}

impl Store {
    pub fn new(folder: &Path) -> anyhow::Result<Self> {
        let folder = folder.join("cells");
        fs::create_dir_all(&folder).with_context(|| format!("cannot write to {}", folder.display()))?;
        let program = std::env::current_exe().and_then(fs::read).context("cannot read the running program")?;
        Ok(Self { folder, program: format!("{:016x}", fnv(&program)) })
    }

    /// The result for a key, if this program has come to one.
    fn get<V: DeserializeOwned>(&self, key: &str) -> Option<V> {
        let text = fs::read_to_string(self.path(key)).ok()?;
        let mut stored: serde_json::Value = serde_json::from_str(&text).ok()?;
        // Another key may share the file's name.
        (stored["key"] == key && stored["program"] == self.program)
            .then(|| stored["value"].take())
            .and_then(|value| serde_json::from_value(value).ok())
    }

    fn put<V: Serialize>(&self, key: &str, value: &V) -> anyhow::Result<()> {
        let path = self.path(key);
        let text = serde_json::to_string(&serde_json::json!({
            "program": self.program, "key": key, "value": value,
        }))?;
        // Whole or not at all, also when this is the moment at which somebody stops it.
        let unfinished = path.with_extension("unfinished");
        fs::write(&unfinished, text)
            .and_then(|()| fs::rename(&unfinished, &path))
            .with_context(|| path.display().to_string())
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{:016x}.json", fnv(key.as_bytes())))
    }
}

/// FNV-1a: short, and the same on every machine.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Computes what is not there yet. Results come in the order of the jobs, whoever computed them.
pub fn compute<J, V>(
    name: &'static str,
    threads: Option<NonZero<usize>>,
    store: &Store,
    jobs: &[J],
    run: impl Fn(&J) -> anyhow::Result<V> + Sync,
) -> anyhow::Result<Vec<V>>
where
    J: Serialize + Sync,
    V: Serialize + DeserializeOwned + Send,
{
    let threads =
        threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get).min(jobs.len().max(1));
    let bar = ProgressBar::new(jobs.len() as u64).with_prefix(name);
    if let Ok(style) =
        ProgressStyle::with_template("{prefix:>10} {bar:32.cyan/blue} {pos:>4}/{len} {elapsed:>4} {eta:>4} left")
    {
        bar.set_style(style);
    }
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(jobs.len()));
    let work = || -> anyhow::Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { return Ok(()) };
            let key = format!("{name} {}", serde_json::to_string(job)?);
            let value = match store.get(&key) {
                Some(value) => value,
                None => {
                    let value = run(job).with_context(|| key.clone())?;
                    store.put(&key, &value)?;
                    value
                }
            };
            let mut results = results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            results.push((index, value));
            bar.inc(1);
            // Ten lines in all where no bar can be drawn.
            let (done, all) = (results.len(), jobs.len());
            if bar.is_hidden() && done * 10 / all != (done - 1) * 10 / all {
                eprintln!("{name:>10} {done:>4}/{all}");
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.collect::<anyhow::Result<Vec<()>>>()
    })?;
    bar.finish_and_clear();
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_unstable_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, value)| value).collect())
}
