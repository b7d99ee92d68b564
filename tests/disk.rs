//! A disk that is really full, and one that cannot be written: the coordinator says so, goes on with what needs no disk, and
//! has lost nothing when there is room again.
//!
//! The data directory is a small file system of its own, which only root can mount; elsewhere these tests say that they
//! were left out.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use crate::support::{Coordinator, Process};

/// Nobody is gone by accident, however slow the machine is.
const PATIENT: [&str; 4] = ["--suspect-after", "5m", "--gone-after", "10m"];
/// More changes than any database has room for in the files that it has.
const MANY: u32 = 20_000;

/// A file system in memory, unmounted when dropped, also by a test that fails.
struct Disk(TempDir);

impl Disk {
    /// None where it cannot be mounted, which is then said.
    fn mount(megabytes: u32) -> Option<Self> {
        let directory = tempdir().unwrap();
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(directory.path()).output();
        let reason = match mounted {
            Ok(output) if output.status.success() => return Some(Self(directory)),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        println!("skipped: a disk of its own cannot be mounted, which needs root: {reason}");
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn read_only(&self) {
        let mounted = Command::new("mount").args(["-o", "remount,ro"]).arg(self.path()).status().unwrap();
        assert!(mounted.success());
    }

    /// Writes until nothing more can be written.
    fn fill(&self) -> PathBuf {
        let path = self.path().join("ballast");
        let mut ballast = File::create(&path).unwrap();
        for size in [1 << 20, 1 << 12, 1] {
            while ballast.write_all(&vec![1; size]).is_ok() {}
        }
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a process that still has a file open is killed by its own destructor, perhaps after this.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

/// The bytes of every file below a directory.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn state() -> Value {
    json!({"slo_preservation": 0.5, "cpu_utilisation": 0.5, "memory_utilisation": 0.25, "arrival_change": 0,
        "cpu_limit": 0.5, "memory_limit": 0.5, "replicas": 0.125})
}

fn steps(epoch: u64, episode: u32) -> Value {
    let step = |step: u32| {
        json!({"episode": episode, "step": step, "state": state(), "next_state": state(),
            "action": {"cpu": 1, "memory": 0, "replicas": -1}, "reward": f64::from(episode), "verdicts": ["rate"]})
    };
    json!({"epoch": epoch, "steps": (0..100).map(step).collect::<Vec<_>>()})
}

/// What was acknowledged.
struct Known {
    coordinator: Coordinator,
    /// Id and epoch by name.
    members: BTreeMap<String, (String, u64)>,
    episodes: u32,
    cores: u32,
}

impl Known {
    fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, String) {
        self.coordinator.ask(method, path, body)
    }

    /// Registers another agent; its refusal, if it is refused.
    fn register(&mut self) -> Option<(u16, String)> {
        let name = format!("agent-{}", self.members.len());
        let body = json!({"name": name, "pool": "default", "category": "cpu"});
        let (status, answer) = self.ask(Method::POST, "/v1/agents", Some(&body));
        if status != 201 {
            return Some((status, answer));
        }
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let member = (answer["agent"].as_str().unwrap().to_owned(), answer["epoch"].as_u64().unwrap());
        self.members.insert(name, member);
        None
    }

    /// Has the first agent append another episode.
    fn append(&mut self) -> Option<(u16, String)> {
        let (id, epoch) = self.members["agent-0"].clone();
        let path = format!("/v1/agents/{id}/trajectories");
        let (status, answer) = self.ask(Method::POST, &path, Some(&steps(epoch, self.episodes)));
        if status != 200 {
            return Some((status, answer));
        }
        self.episodes += 1;
        None
    }

    /// Orders another capacity.
    fn order(&mut self) -> Option<(u16, String)> {
        let body = json!({"cores": self.cores + 1, "memory_gib": 16});
        let (status, answer) = self.ask(Method::PUT, "/v1/pools/default/capacity", Some(&body));
        if status != 204 {
            return Some((status, answer));
        }
        self.cores += 1;
        None
    }

    fn heartbeat(&self, sequence: u64) {
        let (id, epoch) = &self.members["agent-0"];
        let body = json!({"epoch": epoch, "sequence": sequence, "state": state(), "reward": 1,
            "action": {"cpu": 0, "memory": 0, "replicas": 0}});
        let (status, answer) = self.ask(Method::POST, &format!("/v1/agents/{id}/heartbeat"), Some(&body));
        assert_eq!(status, 200, "{answer}");
    }

    /// Everything that was acknowledged is there, and no more than was asked for.
    fn check(&self) {
        for (name, (id, epoch)) in &self.members {
            let (status, answer) = self.ask(Method::GET, &format!("/v1/agents/{id}"), None);
            assert_eq!(status, 200, "{name}: {answer}");
            let view: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!((view["name"].as_str(), view["epoch"].as_u64()), (Some(name.as_str()), Some(*epoch)));
        }
        let text = self.coordinator.text("/v1/trajectories/export?format=csv");
        let mut rows = BTreeMap::new();
        for line in text.lines().skip(1) {
            let episode = line.split(',').nth(4).unwrap().parse::<u32>().unwrap();
            *rows.entry(episode).or_insert(0) += 1;
        }
        assert!((0..self.episodes).all(|episode| rows.get(&episode) == Some(&100)), "{rows:?}");
        // The one that was refused may be there as a whole, or not at all.
        assert!(rows.iter().all(|(episode, steps)| *episode <= self.episodes && *steps == 100), "{rows:?}");
        let capacity: Value = self.coordinator.get("/v1/pools/default/capacity");
        let cores = capacity["ordered"]["cores"].as_f64().unwrap();
        assert!(cores == f64::from(self.cores) || cores == f64::from(self.cores + 1), "{capacity}");
    }
}

#[track_caller]
fn says_so(refusal: Option<(u16, String)>) {
    let (status, answer) = refusal.unwrap();
    let problem: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((status, problem["type"].as_str()), (503, Some("/problems/unavailable")), "{answer}");
    assert!(answer.contains("No space left on device"), "{answer}");
}

#[test]
fn a_full_disk_is_said_and_loses_nothing() {
    let Some(disk) = Disk::mount(64) else { return };
    let data = disk.path().join("data");
    let coordinator = Coordinator::start(&data, &PATIENT);
    let mut known = Known { coordinator, members: BTreeMap::new(), episodes: 0, cores: 0 };
    for _ in 0..3 {
        assert_eq!((known.register(), known.append(), known.order()), (None, None, None));
    }
    known.heartbeat(1);

    let ballast = disk.fill();
    // Files have some room left, so that some changes are still taken; each of them counts.
    says_so((0..MANY).find_map(|_| known.append()));
    let (status, ready) = known.ask(Method::GET, "/readyz", None);
    assert!(status == 503 && ready.contains("trajectories") && ready.contains("No space left"), "{status} {ready}");
    says_so((0..MANY).find_map(|_| known.register()));
    says_so(known.order());
    says_so(known.append());
    assert_eq!(known.ask(Method::GET, "/livez", None).0, 200);
    for sequence in 2..20 {
        known.heartbeat(sequence);
    }
    assert_eq!(known.coordinator.mean_field_count(), 1);
    known.coordinator.process.logs("nothing can be changed until a restart");

    // Another start is refused while there is no room, and changes nothing.
    assert_eq!(known.coordinator.process.terminate().code(), Some(1), "an end without a whole store is no success");
    let before = contents(&data);
    let mut refused = Process::start(&["coordinator", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()]);
    assert_eq!(refused.wait().code(), Some(1));
    let log = refused.log();
    assert!(log.lines().count() == 1 && log.contains("No space left on device"), "{log}");
    assert!(contents(&data) == before, "a refused start has changed something");

    fs::remove_file(ballast).unwrap();
    known.coordinator = known.coordinator.restart(&data, &PATIENT);
    assert_eq!(known.ask(Method::GET, "/readyz", None), (200, "ready\n".to_owned()));
    known.check();
    for _ in 0..3 {
        assert_eq!((known.register(), known.append(), known.order()), (None, None, None));
    }
    known.check();
}

#[test]
fn a_disk_that_cannot_be_written_is_refused_in_one_line() {
    let Some(disk) = Disk::mount(16) else { return };
    let (fresh, used) = (disk.path().join("fresh"), disk.path().join("used"));
    fs::create_dir(&fresh).unwrap();
    let mut earlier = Coordinator::start(&used, &PATIENT);
    assert!(earlier.process.terminate().success());
    disk.read_only();
    let before = contents(disk.path());
    for data in [&fresh, &used, &disk.path().join("none")] {
        let data = data.to_str().unwrap();
        let mut refused = Process::start(&["coordinator", "--listen", "127.0.0.1:0", "--data-dir", data]);
        assert_eq!(refused.wait().code(), Some(1), "{data}");
        let log = refused.log();
        let one_line = log.lines().count() == 1 && log.contains(data) && log.contains("Read-only file system");
        assert!(one_line, "{log}");
    }
    assert!(contents(disk.path()) == before);
}
