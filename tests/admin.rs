//! The admin API from outside: every command of docs/admin-api.md, refusals and exit codes of `meanfield ctl`, the kill
//! switch down to a running agent, and an audit log that was tampered with.

use std::{fs, process::Output};

use meanfield_learner::{ActorCritic, Config};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::support::{self, Coordinator, blocks, can_run, eventually, root};

/// A shell in a directory of its own, in which `meanfield` is the binary under test and knows the coordinator.
struct Shell {
    directory: TempDir,
    shell: support::Shell,
    url: String,
    token: String,
}

impl Shell {
    fn new(coordinator: &Coordinator) -> Self {
        let directory = tempdir().unwrap();
        let shell = support::Shell::new(directory.path());
        Self { directory, shell, url: coordinator.url(), token: coordinator.token().to_owned() }
    }

    fn run(&self, line: &str) -> Output {
        self.shell.run(line, &self.environment())
    }

    fn environment(&self) -> [(&str, &str); 2] {
        [("MEANFIELD_COORDINATOR", &self.url), ("MEANFIELD_TOKEN", &self.token)]
    }

    #[track_caller]
    fn prints(&self, line: &str) -> String {
        self.shell.prints(line, &self.environment())
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.prints(&format!("meanfield ctl {line} -o json"))).unwrap()
    }

    #[track_caller]
    fn fails(&self, line: &str, code: i32, parts: &[&str]) {
        let output = self.run(&format!("meanfield ctl {line}"));
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {log}");
        assert_eq!(log.lines().count(), 1, "{line}: {log}");
        assert!(parts.iter().all(|part| log.contains(part)), "{line}: {log}");
    }
}

#[test]
fn every_command_of_the_document_does_as_it_says() {
    let data = tempdir().unwrap();
    let coordinator = Coordinator::start(data.path(), &[]);
    let _agent = coordinator.agent(&["--function", "primes"]);
    coordinator.await_members(&["primes"], 2);
    let shell = Shell::new(&coordinator);
    let network = root().join("agent-sidecar/data/forecast.safetensors");
    fs::copy(network, shell.directory.path().join("forecast.safetensors")).unwrap();
    let network = ActorCritic::new(Config::preset_default(), 1).unwrap().save().unwrap();
    fs::write(shell.directory.path().join("model.safetensors"), &network).unwrap();
    let document = fs::read_to_string(root().join("docs/admin-api.md")).unwrap();
    let mut run = 0;
    for line in blocks(&document).into_iter().flat_map(|(_, block)| block.lines()) {
        assert!(line.starts_with("meanfield ctl ") || line.starts_with("curl "), "{line}");
        if !can_run(line) {
            continue;
        }
        let output = shell.prints(line);
        assert!(!output.is_empty() || line.contains('>') || line.starts_with("curl"), "{line} says nothing");
        run += 1;
    }
    assert!(run >= 68, "{run}");
    let copied = fs::read(shell.directory.path().join("copy.safetensors")).unwrap();
    assert_eq!(copied, fs::read(shell.directory.path().join("forecast.safetensors")).unwrap());
    let log = shell.json("audit list");
    let actions: Vec<_> =
        log["entries"].as_array().unwrap().iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(actions[..4], ["pause", "resume", "pause", "resume"]);
    // An import is noted before it and after it.
    assert_eq!(actions.len(), 38, "{actions:?}");
    assert_eq!(fs::read(shell.directory.path().join("downloaded.safetensors")).unwrap(), network);
}

#[test]
fn a_refused_token_leaves_no_file_in_the_way_of_the_next_one() {
    let data = tempdir().unwrap();
    let coordinator = Coordinator::start(data.path(), &[]);
    let shell = Shell::new(&coordinator);
    let file = shell.directory.path().join("shop.token");
    shell.fails("tokens create shop --role agent --pool nowhere --file shop.token", 3, &["nowhere"]);
    assert!(!file.exists());
    shell.prints("meanfield ctl tokens create shop --role agent --pool default --file shop.token --dry-run");
    assert!(!file.exists(), "what is only tried writes nothing");
    shell.prints("meanfield ctl tokens create shop --role agent --pool default --file shop.token");
    let text = fs::read_to_string(&file).unwrap();
    shell.fails("tokens create shop --role agent --pool default --file shop.token", 1, &["shop.token", "exists"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert_eq!(shell.json("tokens list")["tokens"].as_array().unwrap().len(), 1);

    // A token that was made and could not be written is named, so that it can be revoked. No file may grow here.
    let lost = shell.run("trap '' XFSZ; ulimit -f 0; meanfield ctl tokens create lost --role reader --file lost.token");
    let said = String::from_utf8(lost.stderr).unwrap();
    let tokens = shell.json("tokens list --prefix lost");
    let id = tokens["tokens"][0]["id"].as_str().unwrap();
    assert!(lost.status.code() == Some(1) && said.contains(&format!("tokens revoke {id}")), "{said}");
    assert!(!shell.directory.path().join("lost.token").exists());
}

#[test]
fn a_kill_switch_reaches_a_running_agent_and_outlasts_a_kill() {
    let data = tempdir().unwrap();
    let coordinator = Coordinator::start(data.path(), &[]);
    let agent = coordinator.agent(&["--function", "primes", "--fallback", "hpa-vpa"]);
    coordinator.await_members(&["primes"], 2);
    let shell = Shell::new(&coordinator);
    shell.prints("meanfield ctl fallback on");
    agent.logs("the fallback decides");
    let mut coordinator = coordinator;
    coordinator.process.kill();
    let coordinator = coordinator.restart(data.path(), &[]);
    let shown = shell.json("fallback show");
    assert_eq!(shown["state"], true);
    coordinator.await_members(&["primes"], 1);
    let member = shell.json("agents show primes");
    assert_eq!((&member["fallback"], &member["own_fallback"]), (&Value::Bool(true), &Value::Bool(false)));
    let tag = shown["etag"].as_str().unwrap();
    shell.prints(&format!("meanfield ctl fallback off --if-match {tag}"));
    shell.fails(&format!("fallback off --if-match {tag}"), 3, &["precondition-failed"]);
    agent.logs("the policy decides again");
    assert!(shell.prints("meanfield ctl audit verify").starts_with("2 entries"));
}

#[test]
fn a_pool_is_made_joined_and_removed_over_a_kill() {
    let data = tempdir().unwrap();
    let mut coordinator = Coordinator::start(data.path(), &["--max-pools", "2"]);
    let shell = Shell::new(&coordinator);
    shell.prints("meanfield ctl pools create shop --kind tenant --description 'the shop'");
    shell.fails("pools create shop", 3, &["precondition-failed", "If-None-Match"]);
    shell.fails("pools create another", 3, &["too-many-pools", "2 pools"]);
    shell.fails("pools create shop --kind rack", 64, &["rack", "tenant"]);
    shell.prints("meanfield ctl pools set shop --team-reward weighted");
    let agent = coordinator.agent(&["--function", "primes", "--pool", "shop"]);
    let counts = || {
        eventually("one counts in the pool", || {
            (shell.json("pools show shop")["mean_field"]["count"] == 1).then_some(())
        });
    };
    counts();
    coordinator.process.kill();
    let _coordinator = coordinator.restart(data.path(), &["--max-pools", "2"]);
    let pool = shell.json("pools show shop");
    assert_eq!(pool["settings"]["kind"], "tenant", "what `set` does not name stays");
    assert_eq!(
        (&pool["settings"]["description"], &pool["settings"]["team_reward"]),
        (&"the shop".into(), &"weighted".into())
    );
    counts();
    shell.fails("pools remove shop", 3, &["pool-in-use", "has 1 members"]);
    shell.fails("pools remove default", 3, &["configured-pool"]);
    drop(agent);
    shell.prints("meanfield ctl agents remove shop:primes");
    shell.prints("meanfield ctl pools remove shop");
    shell.fails("pools show shop", 3, &["unknown-pool", "shop"]);
}

#[test]
fn refusals_and_mistakes_have_codes_of_their_own() {
    let data = tempdir().unwrap();
    let coordinator = Coordinator::start(data.path(), &[]);
    let shell = Shell::new(&coordinator);
    shell.fails("pools show elsewhere", 3, &["unknown-pool", "elsewhere", "default"]);
    shell.fails("budget set default 10", 3, &["invalid-value", "capacity"]);
    shell.fails("budget set default 200", 64, &["percent", "200"]);
    shell.fails("agents show nobody", 64, &["nobody"]);
    shell.fails("agents list --state gone", 64, &["gone", "active"]);
    shell.fails("agents list --coordinator nowhere", 64, &["coordinator", "nowhere"]);
    shell.fails("agents list --token sixteen-characters-but-wrong", 3, &["unauthorised"]);
    shell.fails("agents list --coordinator http://127.0.0.1:9", 1, &["127.0.0.1:9"]);
    shell.fails("audit verify --head 5:abc", 64, &["head", "NUMBER:HASH"]);
}

#[test]
fn a_log_that_was_tampered_with_is_found_out() {
    let data = tempdir().unwrap();
    let coordinator = Coordinator::start(data.path(), &[]);
    let shell = Shell::new(&coordinator);
    for cores in 1..=6 {
        shell.prints(&format!("meanfield ctl capacity set default {cores} 16Gi"));
    }
    let whole = shell.json("audit list");
    let head = shell.json("audit verify")["head"].as_str().unwrap().to_owned();
    let verify = |name: &str, log: &Value, flags: &str| {
        fs::write(shell.directory.path().join(name), log.to_string()).unwrap();
        format!("audit verify --file {name} {flags}")
    };
    let tampered = |change: fn(&mut Vec<Value>)| {
        let mut log = whole.clone();
        change(log["entries"].as_array_mut().unwrap());
        log
    };
    shell.prints(&format!("meanfield ctl {}", verify("whole", &whole, "")));
    let changed = tampered(|entries| entries[2]["actor"] = "somebody".into());
    shell.fails(&verify("changed", &changed, ""), 2, &["entry 3 was changed"]);
    let missing = tampered(|entries| drop(entries.remove(3)));
    shell.fails(&verify("missing", &missing, ""), 2, &["entry 4 is missing"]);
    let cut = tampered(|entries| entries.truncate(4));
    shell.fails(&verify("cut", &cut, ""), 2, &["entries 5 to 6 are missing"]);
    let moved = tampered(|entries| entries.swap(1, 2));
    shell.fails(&verify("moved", &moved, ""), 2, &["entry 2 stands in another place"]);
    // A log that is whole in itself, but not the one whose head was written down.
    let mut short = tampered(|entries| entries.truncate(4));
    let (sequence, hash) = (short["entries"][3]["sequence"].clone(), short["entries"][3]["hash"].clone());
    short["head"] = serde_json::json!({ "sequence": sequence, "hash": hash });
    shell.prints(&format!("meanfield ctl {}", verify("short", &short, "")));
    shell.fails(&verify("short", &short, &format!("--head {head}")), 2, &["no entry 6"]);
    shell.prints(&format!("meanfield ctl audit verify --head {head}"));
}

#[test]
fn scarcity_is_enforced_advised_and_reported_down_to_a_running_agent() {
    let data = tempdir().unwrap();
    let coordinator = Coordinator::start(data.path(), &[]);
    let _agent = coordinator.agent(&["--function", "primes"]);
    coordinator.await_members(&["primes"], 2);
    let shell = Shell::new(&coordinator);
    shell.prints("meanfield ctl capacity set default 300m 64Gi");
    let cut = eventually("it is cut", || {
        let open = shell.json("pools cuts default --state open");
        open["cuts"].as_array()?.first().cloned()
    });
    assert_eq!((&cut["agent"], &cut["enforced"]), (&Value::from("primes"), &Value::from(true)), "{cut}");
    assert!(cut["granted"]["cores"].as_f64() <= Some(0.3) && cut["wanted"]["cores"].as_f64() > Some(0.3), "{cut}");
    let table = shell.prints("meanfield ctl pools cuts");
    assert!(table.contains("primes") && table.contains("LASTED") && table.contains("open"), "{table}");
    let too_much = "agents entitlement primes --min-cores 1";
    shell.fails(too_much, 3, &["minimum.cores: 1 is not at most 0.3", "beside the other minimums"]);
    shell.prints("meanfield ctl agents entitlement primes --weight 10 --min-cores 100m --min-memory 4Gi");
    shell.prints("meanfield ctl agents entitlement primes --weight 5");
    let given = shell.json("agents entitlement primes");
    assert_eq!(given["state"]["weight"], 5.0, "{given}");
    assert_eq!(
        given["state"]["minimum"]["memory_gib"], 4.0,
        "what is not named stays, and looking takes nothing: {given}"
    );
    shell.prints("meanfield ctl agents entitlement primes --clear");
    assert!(shell.json("agents entitlement primes")["state"].is_null());
    shell.fails("pools scarcity set default --mode on", 64, &["one of off, advise, enforce"]);

    shell.prints("meanfield ctl pools scarcity set default --mode advise");
    eventually("it is advised", || {
        let agent = shell.json("agents show primes");
        (!agent["advice"].is_null() && agent["grant"].is_null()).then_some(())
    });
    shell.fails("pools scarcity set default", 64, &["--mode", "--capacity"]);
    shell.prints("meanfield ctl pools scarcity set default --capacity reported");
    assert_eq!(shell.json("pools scarcity show default")["ordered"]["mode"], "advise", "what is not named stays");
    eventually("its node is named", || {
        let shown = shell.json("pools scarcity show default");
        (shown["nodes"].as_u64() >= Some(1)).then_some(())
    });
    let capacity = shell.json("capacity show default");
    assert_eq!(
        capacity["effective"], capacity["ordered"],
        "what is declared counts meanwhile, and bounds it afterwards"
    );
    shell.prints("meanfield ctl capacity clear default");
    assert!(shell.json("capacity show default")["effective"].is_null(), "it takes minutes to be known");
    assert_eq!(shell.json("pools cuts --state open")["cuts"], Value::Array(vec![]), "until then nothing is scarce");
}

#[test]
fn events_are_followed_to_the_end() {
    let data = tempdir().unwrap();
    let mut coordinator = Coordinator::start(data.path(), &[]);
    let shell = Shell::new(&coordinator);
    let file = shell.directory.path().join("events");
    let line = "meanfield ctl events follow -o json > events";
    let follower = std::thread::scope(|scope| {
        let follower = scope.spawn(|| shell.run(line));
        // Orders until one is seen: nobody knows when the stream is open.
        eventually("an order is seen", || {
            shell.prints("meanfield ctl pause on && meanfield ctl pause off");
            fs::read_to_string(&file).ok().filter(|text| text.contains("\"resumed\""))
        });
        coordinator.process.terminate();
        follower.join().unwrap()
    });
    assert!(follower.status.success(), "{}", String::from_utf8_lossy(&follower.stderr));
    let text = fs::read_to_string(&file).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.last().unwrap()["kind"], "closing");
    assert!(events.windows(2).all(|pair| pair[0]["id"].as_u64() <= pair[1]["id"].as_u64()));
}
