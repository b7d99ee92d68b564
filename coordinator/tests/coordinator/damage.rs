//! A damaged data directory is refused with its path and the record, and left as it is.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use meanfield_coordinator::{Error, store};

use crate::{durability::image, support::*};

/// A data directory with some history in it.
fn history() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let coordinator = on_disk(dir.path()).unwrap();
        for agent in 0..20 {
            let registered = member(&coordinator, &format!("agent-{agent}")).await;
            if agent % 3 == 0 {
                coordinator.pause(registered.agent).await.unwrap();
            }
        }
        coordinator.pause_all().await.unwrap();
    });
    dir
}

fn refusal(dir: &Path) -> store::Error {
    match on_disk(dir) {
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
    let agent = records(history.path()).into_iter().find(|(key, _)| key.starts_with(b"agent/")).unwrap();
    let key = String::from_utf8(agent.0.to_vec()).unwrap();
    let text = String::from_utf8(agent.1.to_vec()).unwrap();
    let altered = text.replace("\"epoch\":1", "\"epoch\":7");
    assert_ne!(text, altered);
    let cases: [(&str, Option<&str>, &str); 12] = [
        (&key, Some("garbage"), &key),
        (&key, Some(""), &key),
        (&key, Some(r#"{"pool":"default"}"#), &key),
        (&key, Some(&altered), "summary"),
        (&key, None, "summary"),
        ("paused", Some("maybe"), "paused"),
        ("paused", None, "summary"),
        ("format", Some("2"), "format"),
        ("format", None, "format"),
        ("summary", None, "summary"),
        ("summary", Some("{}"), "summary"),
        ("something/else", Some("1"), "something/else"),
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
        let before = records(dir.path());
        let error = refusal(dir.path());
        let text = error.to_string();
        assert!(matches!(&error, store::Error::Corrupt { key, .. } if key == blamed), "{key} {value:?}: {text}");
        assert!(text.contains(dir.path().to_str().unwrap()), "{text}");
        assert_eq!(records(dir.path()), before, "nothing was repaired");
    }
}

#[test]
fn lost_files_are_noticed() {
    let history = history();
    let lose: [fn(&Path); 4] = [
        |dir| fs::remove_dir_all(dir.join("store")).unwrap(),
        |dir| fs::remove_file(dir.join("store/db")).unwrap(),
        |dir| fs::remove_file(dir.join("commits")).unwrap(),
        |dir| fs::write(dir.join("commits"), "not thirty-two bytes of commits").unwrap(),
    ];
    for lose in lose {
        let dir = image(history.path());
        lose(dir.path());
        let text = refusal(dir.path()).to_string();
        assert!(text.contains(dir.path().to_str().unwrap()), "{text}");
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// Whatever happens to a byte or to the end of a file: either everything that was acknowledged is there, or opening
/// fails. It must never succeed with less.
#[test]
fn flipped_bytes_and_cut_files_never_lose_anything_silently() {
    let history = history();
    let agents = |dir: &Path| on_disk(dir).map(|opened| (opened.agents(), opened.all_paused()));
    let expected = agents(image(history.path()).path()).unwrap();
    let mut noticed = 0;
    for file in files(history.path()) {
        let relative = file.strip_prefix(history.path()).unwrap();
        if relative == Path::new("token") {
            continue;
        }
        let bytes = fs::read(&file).unwrap();
        // All of the file is covered where it holds something; long runs of zeros are not.
        let used: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
        for step in 0..40 {
            let at = used.get(step * used.len() / 40).copied().unwrap_or_default() as u64;
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
    assert!(matches!(error, store::Error::Locked { .. }), "{error}");
    drop(first);
    on_disk(dir.path()).unwrap();
}
