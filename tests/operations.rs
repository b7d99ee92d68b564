//! What docs/operations.md says to do is done here, by its own commands, to a coordinator with an agent; and what a backup
//! brings back is compared with what was there.

use std::{fs, path::Path};

use serde_json::Value;
use tempfile::tempdir;

use crate::support::{Process, Shell, address, blocks, can_run, eventually, root};

/// The directory in which the document's reader is, and the coordinator there.
struct Place<'a> {
    directory: &'a Path,
    shell: Shell,
    listen: String,
    coordinator: Option<Process>,
}

impl Place<'_> {
    /// Starts as a block says, but for the address: at first on a free port, then on the same.
    fn start(&self, block: &str) -> Process {
        let arguments: Vec<_> = block.strip_prefix("meanfield ").unwrap().split_whitespace().collect();
        Process::start_in(self.directory, &[&arguments[..], &["--listen", &self.listen]].concat(), &[])
    }

    #[track_caller]
    fn runs(&self, script: &str) -> String {
        let pid = self.coordinator.as_ref().map_or_else(String::new, |process| process.id().to_string());
        let url = format!("http://{}", self.listen);
        self.shell.prints(script, &[("PID", &pid), ("MEANFIELD_COORDINATOR", &url)])
    }

    fn json(&self, script: &str) -> Value {
        serde_json::from_str(&self.runs(&format!("meanfield ctl {script} -o json"))).unwrap()
    }

    /// Who is a member, by id, name and epoch, and the whole audit log.
    fn kept(&self) -> (Vec<[Value; 3]>, Value) {
        let agents = self.json("agents list");
        let agents = agents["agents"].as_array().unwrap().iter();
        let agents = agents.map(|agent| [agent["id"].clone(), agent["name"].clone(), agent["epoch"].clone()]);
        (agents.collect(), self.json("audit list"))
    }
}

#[test]
fn the_commands_of_the_document_work_and_a_backup_brings_everything_back() {
    let document = fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let directory = tempdir().unwrap();
    let directory = directory.path();
    let (shell, listen) = (Shell::new(directory), "127.0.0.1:0".to_owned());
    let mut place = Place { directory, shell, listen, coordinator: None };
    let (mut agent, mut kept, mut restored) = (None, None, 0);
    let mut compare = false;
    for (mark, block) in blocks(&document) {
        match mark {
            "start" => {
                let coordinator = place.start(block);
                place.listen = address(&coordinator);
                place.coordinator = Some(coordinator);
                if agent.is_none() {
                    agent = Some(first_agent(&place));
                    place.runs("meanfield ctl capacity set default 4 16Gi");
                }
                if compare {
                    assert_eq!(Some(place.kept()), kept, "the backup is what was there");
                    restored += 1;
                    compare = false;
                }
            }
            "stop" => {
                // The last look before the stop; agents register again only after a loss.
                let before = place.kept();
                place.runs(block);
                let mut stopped = place.coordinator.take().unwrap();
                assert!(stopped.wait().success());
                kept.get_or_insert(before);
            }
            "refused" => {
                // What the document is about to deal with: the coordinator was lost, and a file of the steps with it.
                let mut running = place.coordinator.take().unwrap();
                assert!(running.terminate().success());
                fs::write(directory.join("data/trajectories.commits"), "damaged").unwrap();
                let mut refused = place.start(block);
                assert_eq!(refused.wait().code(), Some(1));
                assert!(refused.log().lines().count() == 1 && refused.log().contains("trajectories"));
            }
            "" => {
                let lines: Vec<_> = block.lines().filter(|line| can_run(line)).collect();
                place.runs(&lines.join("\n"));
                compare |= block.contains("cp -a backup data");
            }
            other => panic!("what is to be done with {other:?}?"),
        }
    }
    assert_eq!(restored, 1, "nothing was restored");
    // The steps were moved away, and nothing else; the order from after the backup is gone.
    assert!(directory.join("aside/trajectories").exists());
    assert_eq!(place.json("capacity show default")["ordered"]["cores"], 4.0);
    assert!(fs::read(directory.join("steps.parquet")).unwrap().starts_with(b"PAR1"));
}

/// An agent that reports, by the coordinator's own token.
fn first_agent(place: &Place<'_>) -> Process {
    let token = fs::read_to_string(place.directory.join("data/token")).unwrap();
    let url = format!("http://{}", place.listen);
    let arguments = ["agent", "--coordinator", &url, "--interval", "50ms", "--function", "primes"];
    let agent = Process::start_with(&arguments, &[("MEANFIELD_TOKEN", token.trim())]);
    eventually("the agent is a member", || {
        (place.json("agents list")["agents"].as_array().unwrap().len() == 1).then_some(())
    });
    agent
}
