//! What was acknowledged survives: an orderly end, and a crash.

use std::{fs, io::Read, path::Path, time::Duration};

use futures_util::future::join_all;
use meanfield_common::{identity::Epoch, wire::Leave};
use meanfield_coordinator::{Clock, Coordinator, Error, Options, view::State};
use rustix::fs::{SeekFrom, seek};

use crate::support::*;

/// The bytes of a file up to the last block that is not all zeros: some have much room for what is to come.
pub(crate) fn used(file: &Path) -> Vec<u8> {
    const BLOCK: usize = 4096;
    let file = fs::File::open(file).unwrap();
    let mut end = 0;
    // Holes are skipped, since reading them takes longer than anything else here.
    while let Ok(data) = seek(&file, SeekFrom::Data(end)) {
        end = seek(&file, SeekFrom::Hole(data)).unwrap();
    }
    let mut bytes = Vec::new();
    seek(&file, SeekFrom::Start(0)).unwrap();
    file.take(end).read_to_end(&mut bytes).unwrap();
    while bytes.len() > BLOCK && bytes[bytes.len() - BLOCK..] == [0; BLOCK] {
        bytes.truncate(bytes.len() - BLOCK);
    }
    bytes
}

/// The directory as a crash at this moment would leave it.
pub(crate) fn image(of: &Path) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                copy(&entry.path(), &target);
            } else {
                let bytes = used(&entry.path());
                fs::write(&target, &bytes).unwrap();
                let metadata = entry.metadata().unwrap();
                fs::OpenOptions::new().write(true).open(&target).unwrap().set_len(metadata.len()).unwrap();
                fs::set_permissions(target, metadata.permissions()).unwrap();
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    copy(of, dir.path());
    dir
}

#[tokio::test]
async fn members_and_pauses_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = on_disk(dir.path()).unwrap();
    let (a, b) = (member(&coordinator, "a").await, member(&coordinator, "b").await);
    let gone = member(&coordinator, "gone").await;
    coordinator.heartbeat(a.agent, &beat(a.epoch, 9, 50)).unwrap();
    coordinator.pause(a.agent).await.unwrap();
    coordinator.pause_all().await.unwrap();
    coordinator.leave(gone.agent, Leave { epoch: gone.epoch }).await.unwrap();
    drop(coordinator);

    let clock = Clock::manual();
    clock.advance(Duration::from_secs(1_000_000));
    let options = Options { data_dir: Some(dir.path().to_owned()), ..Options::default() };
    let coordinator = Coordinator::open(options, clock).unwrap();
    let views = coordinator.agents();
    assert_eq!(views.iter().map(|view| view.id).collect::<Vec<_>>(), [a.agent, b.agent]);
    for view in &views {
        assert_eq!((view.epoch, view.state, view.silent_ms), (Epoch(1), State::Active, 0), "a fresh deadline");
        assert_eq!((view.sequence, view.paused), (None, true));
    }
    assert_eq!((views[0].own_pause, views[1].own_pause), (true, false));
    assert_eq!(coordinator.pools()[0].mean_field.count, 0, "nobody counts before reporting");
    coordinator.resume_all().await.unwrap();
    // Any sequence number is taken first.
    let answer = coordinator.heartbeat(a.agent, &beat(a.epoch, 3, 50)).unwrap();
    assert!(answer.directives.paused);
    assert!(!coordinator.heartbeat(b.agent, &beat(b.epoch, 1, 50)).unwrap().directives.paused);
    let back = member(&coordinator, "gone").await;
    assert_eq!((back.agent, back.epoch), (gone.agent, Epoch(2)), "epochs grow over restarts");
    coordinator.resume(a.agent).await.unwrap();
    drop(coordinator);
    let coordinator = on_disk(dir.path()).unwrap();
    assert!(!coordinator.all_paused() && coordinator.agents().iter().all(|view| !view.paused));
}

#[tokio::test]
async fn the_gone_stay_gone_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::manual();
    let options = Options { data_dir: Some(dir.path().to_owned()), ..Options::default() };
    let coordinator = Coordinator::open(options, clock.clone()).unwrap();
    member(&coordinator, "a").await;
    clock.advance(Duration::from_secs(200));
    coordinator.sweep().await.unwrap();
    drop(coordinator);
    assert!(on_disk(dir.path()).unwrap().agents().is_empty());
}

#[tokio::test]
async fn a_thousand_registrations_at_once_are_all_durable_when_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = on_disk(dir.path()).unwrap();
    let names: Vec<String> = (0..1000).map(|agent| format!("agent-{agent:04}")).collect();
    let registered = join_all(names.iter().map(|name| member(&coordinator, name))).await;
    // No orderly end: the copy is taken while the coordinator runs.
    let crashed = image(dir.path());
    let recovered = on_disk(crashed.path()).unwrap().agents();
    assert_eq!(recovered.len(), names.len());
    for ((view, name), registered) in recovered.iter().zip(&names).zip(&registered) {
        assert_eq!((view.name.as_str(), view.id, view.epoch), (name.as_str(), registered.agent, registered.epoch));
    }
}

#[tokio::test]
async fn the_same_name_many_times_at_once_gets_every_epoch_once() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = on_disk(dir.path()).unwrap();
    let registered = join_all((0..100).map(|_| member(&coordinator, "a"))).await;
    let mut epochs: Vec<u64> = registered.iter().map(|one| one.epoch.0).collect();
    epochs.sort_unstable();
    assert_eq!(epochs, (1..=100).collect::<Vec<_>>());
    assert!(registered.iter().all(|one| one.agent == registered[0].agent));
    assert_eq!(coordinator.agents()[0].epoch, Epoch(100));
}

#[tokio::test]
async fn members_of_a_pool_that_is_not_configured_wait_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let open = |pools: &[&str]| {
        let pools = pools.iter().map(|name| pool(name)).collect();
        let options = Options { data_dir: Some(dir.path().to_owned()), pools, ..Options::default() };
        Coordinator::open(options, Clock::manual()).unwrap()
    };
    let first = member(&open(&["default"]), "a").await;
    let without = open(&["other"]);
    assert!(without.agents().is_empty());
    assert!(matches!(without.heartbeat(first.agent, &beat(first.epoch, 1, 1)), Err(Error::UnknownAgent(_))));
    drop(without);
    let again = open(&["other", "default"]);
    again.heartbeat(first.agent, &beat(first.epoch, 1, 1)).unwrap();
}
