//! A damaged data directory is refused with its path and the record, and left as it is.

use std::{
    collections::BTreeMap,
    error::Error as _,
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use meanfield_coordinator::{Coordinator, Error, access::TokenFilter, orders::Terms, store};

use crate::{
    durability::{image, used},
    forecast::network,
    models::{add, file as model},
    support::*,
    trajectories::{batch, step},
};

/// A data directory with some history in it.
fn history() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let coordinator = on_disk(dir.path()).unwrap();
        for agent in 0..20 {
            let registered = member(&coordinator, &format!("agent-{agent}")).await;
            if agent % 3 == 0 {
                coordinator.pause(registered.agent).await.unwrap();
                let steps = (0..5).map(|at| step(agent, at, 9));
                coordinator.append(registered.agent, batch(registered.epoch, steps)).await.unwrap();
            }
        }
        coordinator.set_forecast(&pool("default"), network(1)).await.unwrap();
        let new = serde_json::json!({"name": "a", "role": "reader"});
        coordinator.issue(serde_json::from_value(new).unwrap(), Terms::default()).await.unwrap();
        coordinator.pause_all().await.unwrap();
        for name in ["cpu", "io"] {
            add(&coordinator, &name.parse().unwrap(), model(1));
        }
    });
    dir
}

/// Everything below a directory: the bytes of files with their lengths, and `None` for directories.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Option<(Vec<u8>, u64)>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        let bytes = path.is_file().then(|| (used(&path), fs::metadata(&path).unwrap().len()));
        found.extend(contents(&path));
        found.insert(path, bytes);
    }
    found
}

/// Opens a directory that must be the same afterwards, byte for byte, if it is refused.
fn open(dir: &Path) -> Result<Coordinator, Error> {
    let before = contents(dir);
    let opened = on_disk(dir);
    if let Err(error) = &opened {
        assert!(error.source().is_none(), "a chain says it twice: {error}");
        let after = contents(dir);
        let paths: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let changed: Vec<_> = paths.into_iter().filter(|&path| before.get(path) != after.get(path)).collect();
        assert!(changed.is_empty(), "{error}: {changed:?} were changed");
    }
    opened
}

fn refusal(dir: &Path) -> store::Error {
    match open(dir) {
        Err(Error::Store(error)) => std::sync::Arc::into_inner(error).unwrap(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was opened"),
    }
}

fn records(dir: &Path) -> Vec<(sled::IVec, sled::IVec)> {
    sled::open(dir.join("store")).unwrap().iter().map(Result::unwrap).collect()
}

#[test]
fn damaged_records_are_named_and_kept() {
    let history = history();
    let records = records(history.path());
    let find = |prefix: &[u8]| records.iter().find(|(key, _)| key.starts_with(prefix)).unwrap();
    let (agent, token) = (find(b"agent/"), find(b"token/").0.to_vec());
    let key = agent.0.to_vec();
    let named = String::from_utf8_lossy(&key).into_owned();
    // The epoch is at 1.
    let mut altered = agent.1.to_vec();
    altered[1] ^= 6;
    // A key, what becomes of its record, and which one is blamed.
    type Case<'a> = (&'a [u8], Option<&'a [u8]>, &'a str);
    let cases: [Case<'_>; 15] = [
        (&key, Some(b"garbage"), &named),
        (&key, Some(b""), &named),
        (&key, Some(br#"{"pool":"default"}"#), &named),
        (&key, Some(&altered), "summary"),
        (&key, None, "summary"),
        (b"paused", Some(b"maybe"), "paused"),
        (b"paused", None, "summary"),
        (b"format", Some(b"6"), "format"),
        (b"format", None, "format"),
        (b"summary", None, "summary"),
        (b"summary", Some(b"{}"), "summary"),
        (b"token/0123456789abcdef", Some(b"{}"), "token/0123456789abcdef"),
        (b"token/0123", Some(b"{}"), "token/0123"),
        (&token, None, "summary"),
        (b"something/else", Some(b"1"), "something/else"),
    ];
    for (key, value, blamed) in cases {
        let dir = image(history.path());
        let database = sled::open(dir.path().join("store")).unwrap();
        match value {
            Some(value) => database.insert(key, value).unwrap(),
            None => database.remove(key).unwrap(),
        };
        database.flush().unwrap();
        drop(database);
        let error = refusal(dir.path());
        let text = error.to_string();
        assert!(matches!(&error, store::Error::Corrupt { key, .. } if key == blamed), "{key:?} {value:?}: {text}");
        assert!(text.contains(dir.path().to_str().unwrap()), "{text}");
    }
}

#[test]
fn lost_files_are_noticed() {
    let history = history();
    let lose: [fn(&Path); 5] = [
        |dir| fs::remove_dir_all(dir.join("store")).unwrap(),
        |dir| fs::remove_file(dir.join("store/db")).unwrap(),
        |dir| fs::remove_file(dir.join("commits")).unwrap(),
        |dir| fs::write(dir.join("commits"), "not thirty-two bytes of commits").unwrap(),
        |dir| fs::write(dir.join("commits"), "").unwrap(),
    ];
    for lose in lose {
        let dir = image(history.path());
        lose(dir.path());
        let text = refusal(dir.path()).to_string();
        assert!(text.contains(dir.path().to_str().unwrap()), "{text}");
    }
}

/// Whatever happens to a byte or to the end of a file: either everything that was acknowledged is there, or opening
/// fails. It must never succeed with less.
#[test]
fn flipped_bytes_and_cut_files_never_lose_anything_silently() {
    let history = history();
    let agents = |dir: &Path| {
        let orders = |opened: &Coordinator| (opened.all_paused(), opened.pools()[0].forecast.clone());
        open(dir).map(|opened| {
            (opened.agents(), orders(&opened), opened.tokens(&TokenFilter::default(), None, 9), opened.models())
        })
    };
    let expected = agents(image(history.path()).path()).unwrap();
    let mut noticed = 0;
    for (file, bytes) in contents(history.path()) {
        let relative = file.strip_prefix(history.path()).unwrap();
        let Some((bytes, _)) = bytes else { continue };
        if relative == Path::new("token") {
            continue;
        }
        // All of the file is covered where it holds something; long runs of zeros are not.
        let used: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
        // Fewer places where there are many files, each of which is opened with everything else.
        let places = if relative.starts_with("trajectories") || relative.starts_with("models") { 16 } else { 40 };
        for step in 0..places {
            let at = used.get(step * used.len() / places).copied().unwrap_or_default() as u64;
            for cut in [false, true] {
                let dir = image(history.path());
                let victim = fs::OpenOptions::new().write(true).open(dir.path().join(relative)).unwrap();
                if cut {
                    victim.set_len(at).unwrap();
                } else if let Some(byte) = bytes.get(at as usize) {
                    victim.write_all_at(&[byte ^ 0x15], at).unwrap();
                }
                drop(victim);
                match agents(dir.path()) {
                    Ok(found) => assert_eq!(found, expected, "{relative:?} at {at}, cut {cut}"),
                    Err(_) => noticed += 1,
                }
            }
        }
    }
    assert!(noticed > 0);
}

/// Damage that opening the database mends or drops on its own, so that a refusal afterwards would be too late.
#[test]
fn what_is_refused_keeps_every_byte() {
    let history = history();
    for victim in ["store/conf", "store/db", "commits", "token"] {
        for junk in [&[0xA5; 3000][..], b""] {
            let dir = image(history.path());
            fs::write(dir.path().join(victim), junk).unwrap();
            match open(dir.path()) {
                Err(error) => assert!(error.to_string().contains(dir.path().to_str().unwrap()), "{victim}: {error}"),
                // It holds nothing of ours, and the database makes a new one.
                Ok(_) => assert_eq!((victim, junk.len()), ("store/conf", 0)),
            }
        }
    }
}

#[test]
fn a_copy_that_a_crash_has_left_is_removed() {
    let history = history();
    let expected = on_disk(image(history.path()).path()).unwrap().agents();
    let leave = |dir: &Path| {
        fs::create_dir_all(dir.join("rehearsal/store/blobs")).unwrap();
        fs::write(dir.join("rehearsal/store/db"), [0xA5; 3000]).unwrap();
        fs::write(dir.join("rehearsal/commits"), "half").unwrap();
    };
    let dir = image(history.path());
    leave(dir.path());
    assert_eq!(on_disk(dir.path()).unwrap().agents(), expected);
    assert!(!dir.path().join("rehearsal").exists());

    let damaged = image(history.path());
    fs::write(damaged.path().join("store/db"), [0xA5; 3000]).unwrap();
    let before = contents(damaged.path());
    leave(damaged.path());
    assert!(on_disk(damaged.path()).is_err());
    assert!(contents(damaged.path()) == before);

    let first = tempfile::tempdir().unwrap();
    leave(first.path());
    assert!(on_disk(first.path()).unwrap().agents().is_empty());
    assert!(!first.path().join("rehearsal").exists());
}

#[test]
fn directories_that_cannot_be_used_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "precious").unwrap();
    for unusable in [file.as_path(), &file.join("below"), Path::new("/proc/meanfield")] {
        let text = refusal(unusable).to_string();
        assert!(text.contains(unusable.to_str().unwrap()), "{text}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn a_directory_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = on_disk(dir.path()).unwrap();
    let error = refusal(dir.path());
    assert!(matches!(&error, store::Error::Locked { path } if path == dir.path()), "{error}");
    drop(first);
    on_disk(dir.path()).unwrap();
}
