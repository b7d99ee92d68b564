//! Damaged trajectories are refused with their path, or all there: never less without a word.

use std::{
    fs,
    os::unix::fs::FileExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use meanfield_coordinator::{Coordinator, Error};

use crate::{
    durability::{image, used},
    support::*,
    trajectories::{batch, csv, step},
};

/// Some steps, most in the journal and some in tables.
fn history() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let text = block_on(async {
        let coordinator = on_disk(dir.path()).unwrap();
        let a = member(&coordinator, "a").await;
        for episode in 0..30 {
            let steps = (0..10).map(|at| step(episode, at, (episode * 8) as u8));
            coordinator.append(a.agent, batch(a.epoch, steps)).await.unwrap();
        }
        csv(&coordinator)
    });
    (dir, text)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// Everything that can be read, or why not.
fn read(dir: &Path) -> Result<String, String> {
    let read = || on_disk(dir).map(|opened| csv(&opened)).map_err(|error| error.to_string());
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err("reading it panicked".to_owned()))
}

#[test]
fn flipped_bytes_and_cut_files_never_lose_a_step_silently() {
    let (history, expected) = history();
    assert_eq!(read(image(history.path()).path()).unwrap(), expected);
    let mut noticed = 0;
    for file in files(&history.path().join("trajectories")) {
        let relative = file.strip_prefix(history.path()).unwrap();
        let bytes = used(&file);
        let places: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
        for part in 0..8 {
            let at = places.get(part * places.len() / 8).copied().unwrap_or_default() as u64;
            for cut in [false, true] {
                let dir = image(history.path());
                let victim = fs::OpenOptions::new().write(true).open(dir.path().join(relative)).unwrap();
                if cut {
                    victim.set_len(at).unwrap();
                } else if let Some(byte) = bytes.get(at as usize) {
                    victim.write_all_at(&[byte ^ 0x15], at).unwrap();
                }
                drop(victim);
                let before = used(&dir.path().join(relative));
                match read(dir.path()) {
                    Ok(found) => assert!(found == expected, "{relative:?} at {at}, cut {cut}: it has lost something"),
                    Err(_) => noticed += 1,
                }
                // A refused start has not cut off what could still be rescued.
                if relative.extension().is_some_and(|extension| extension == "jnl") && on_disk(dir.path()).is_err() {
                    assert!(used(&dir.path().join(relative)) == before, "{relative:?} was changed");
                }
            }
        }
    }
    assert!(noticed > 20, "{noticed}");
}

fn refusal(dir: &Path) -> String {
    match on_disk(dir).map(drop) {
        Err(Error::Store(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn lost_files_are_noticed() {
    let (history, _) = history();
    let lose: [fn(&Path); 5] = [
        |dir| fs::remove_dir_all(dir.join("trajectories")).unwrap(),
        |dir| fs::remove_file(dir.join("trajectories.commits")).unwrap(),
        |dir| fs::write(dir.join("trajectories.commits"), "").unwrap(),
        |dir| {
            fs::remove_file(files(&dir.join("trajectories")).into_iter().find(|path| path.ends_with("0.jnl")).unwrap())
                .unwrap();
        },
        |dir| {
            fs::remove_dir_all(dir.join("trajectories")).unwrap();
            fs::write(dir.join("trajectories"), "a file").unwrap();
        },
    ];
    for (case, lose) in lose.into_iter().enumerate() {
        let dir = image(history.path());
        lose(dir.path());
        let text = refusal(dir.path());
        assert!(text.contains(dir.path().to_str().unwrap()), "{case}: {text}");
    }
    // Both at once are a wish to begin anew.
    let dir = image(history.path());
    fs::remove_dir_all(dir.path().join("trajectories")).unwrap();
    fs::remove_file(dir.path().join("trajectories.commits")).unwrap();
    let coordinator: Coordinator = on_disk(dir.path()).unwrap();
    assert_eq!(csv(&coordinator).lines().count(), 1);
}
