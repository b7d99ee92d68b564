//! `meanfield ctl` and `meanfield loadgen` against a coordinator that speaks https with a certificate of a private
//! authority: models, tokens and trajectories there and back.

use std::{fs, path::Path, sync::Arc};

use meanfield_learner::{ActorCritic, Config};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use crate::{
    certificates::Authority,
    support::{Process, TOKEN, address},
};

/// A coordinator with a certificate, and a directory for whoever calls it.
struct Secure {
    _process: Process,
    url: String,
    directory: Arc<TempDir>,
}

impl Secure {
    fn start() -> Self {
        Self::start_in(Arc::new(tempdir().unwrap()), "data")
    }

    fn start_in(directory: Arc<TempDir>, data: &str) -> Self {
        let place = directory.path();
        let authority = Authority::new();
        let (certificate, key) = authority.sign();
        for (name, text) in [("ca.crt", authority.pem()), ("tls.crt", certificate), ("tls.key", key)] {
            fs::write(place.join(name), text).unwrap();
        }
        let arguments = [
            &["coordinator", "--listen", "127.0.0.1:0", "--data-dir", data][..],
            &["--tls-cert", "tls.crt", "--tls-key", "tls.key"],
        ];
        let process = Process::start_in(place, &arguments.concat(), &[("MEANFIELD_TOKEN", TOKEN)]);
        let url = format!("https://{}", address(&process));
        Self { _process: process, url, directory }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The exit code of a command, what it prints and what it says.
    fn run(&self, arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String, String) {
        let known = [("MEANFIELD_COORDINATOR", self.url.as_str()), ("MEANFIELD_TOKEN", TOKEN)];
        let mut process = Process::start_in(self.path(), arguments, &[&known, environment].concat());
        (process.wait().code(), process.output(), process.log())
    }

    #[track_caller]
    fn ctl(&self, line: &str) -> String {
        let arguments: Vec<_> = ["ctl"].into_iter().chain(line.split(' ')).collect();
        let (code, output, log) = self.run(&arguments, &[("MEANFIELD_CA_FILE", "ca.crt")]);
        assert_eq!(code, Some(0), "{line}: {log}");
        output
    }

    #[track_caller]
    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.ctl(&format!("{line} -o json"))).unwrap()
    }

    #[track_caller]
    fn fails(&self, line: &str, code: i32, part: &str) {
        let arguments: Vec<_> = ["ctl"].into_iter().chain(line.split(' ')).collect();
        let (ended, _, log) = self.run(&arguments, &[("MEANFIELD_CA_FILE", "ca.crt")]);
        assert_eq!(ended, Some(code), "{line}: {log}");
        assert!(log.lines().count() == 1 && log.contains(part), "{line}: {log}");
    }

    fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.path().join(name)).unwrap()
    }
}

#[test]
fn ctl_believes_the_authority_that_it_is_told_of_and_nobody_else() {
    let secure = Secure::start();
    assert!(secure.ctl("pools list").contains("default"));
    fs::write(secure.path().join("other.crt"), Authority::new().pem()).unwrap();
    let (code, output, log) = secure.run(&["ctl", "pools", "list"], &[("MEANFIELD_CA_FILE", "other.crt")]);
    assert_eq!((code, output.as_str()), (Some(1), ""), "{log}");
    assert!(log.contains("certificate"), "{log}");
}

#[test]
fn a_swarm_reports_by_https_and_to_nobody_whom_it_does_not_believe() {
    let secure = Secure::start();
    let load = ["loadgen", "swarm", "--agents", "40", "--rate", "200", "--duration", "500ms", "--connections", "2"];
    let (code, output, log) = secure.run(&[&load[..], &["--churn", "10", "--ca-file", "ca.crt"]].concat(), &[]);
    assert_eq!(code, Some(0), "{output}{log}");
    let agents = secure.json("agents list");
    assert!(agents["agents"].as_array().unwrap().len() >= 40, "{agents}");

    let (code, _, log) = secure.run(&load, &[]);
    assert!(code == Some(64) && log.contains("ca-file"), "{log}");
    fs::write(secure.path().join("other.crt"), Authority::new().pem()).unwrap();
    let (code, _, log) = secure.run(&[&load[..], &["--ca-file", "other.crt"]].concat(), &[]);
    assert!(code == Some(1) && log.contains("certificate"), "{log}");
}

#[test]
fn models_go_there_and_back_and_are_served_as_ordered() {
    let secure = Secure::start();
    for seed in 1..=2 {
        let network = ActorCritic::new(Config::preset_default(), seed).unwrap().save().unwrap();
        fs::write(secure.path().join(format!("{seed}.safetensors")), network).unwrap();
        let added = secure.json(&format!("models add shop/cart {seed}.safetensors"));
        assert_eq!(added["version"], seed, "{added}");
    }
    secure.ctl("models download shop/cart served.safetensors");
    secure.ctl("models download shop/cart second.safetensors --number 2");
    assert_eq!(secure.file("served.safetensors"), secure.file("1.safetensors"), "the first is served");
    assert_eq!(secure.file("second.safetensors"), secure.file("2.safetensors"));
    secure.ctl("models serve shop/cart 1 --canary 2 --share 1");
    secure.ctl("models download shop/cart canary.safetensors --agent default/primes");
    assert_eq!(secure.file("canary.safetensors"), secure.file("2.safetensors"));
    secure.ctl("models serve shop/cart 2 --pin");
    let table = secure.ctl("models list");
    assert!(table.contains("shop/cart") && table.contains("VERSIONS"), "{table}");
    let shown = secure.json("models show shop/cart");
    assert_eq!(shown["serving"], json!({ "version": 2, "pinned": true }));
    let table = secure.ctl("models show shop/cart");
    assert!(table.contains("SHA-256") && table.contains(shown["versions"][0]["digest"].as_str().unwrap()), "{table}");
    let back = secure.json("models rollback shop/cart");
    assert_eq!((&back["before"]["version"], &back["after"]["version"]), (&json!(2), &json!(1)), "{back}");
    secure.fails("models serve shop/cart 9", 3, "version: 9 is not one of 1, 2");
    secure.fails("models serve shop/cart 1 --canary 2 --share 2", 64, "share");
    secure.fails("models serve shop/cart 1 --canary 2", 64, "--share");
    secure.fails("models add shop/cart ca.crt", 3, "model");
    secure.ctl("models remove shop/cart");
    secure.fails("models show shop/cart", 3, "unknown-model");
}

#[test]
fn a_token_is_shown_once_and_is_good_until_it_is_revoked() {
    use std::os::unix::fs::PermissionsExt;
    let secure = Secure::start();
    let made = secure.json("tokens create shop --role reader --expires-in 90days --file shop.token");
    let token = String::from_utf8(secure.file("shop.token")).unwrap();
    let mode = fs::metadata(secure.path().join("shop.token")).unwrap().permissions().mode();
    assert_eq!((mode & 0o777, made.get("token")), (0o600, None));
    // What is there is not written over, and then no token is made.
    secure.fails("tokens create shop --role reader --file shop.token", 1, "shop.token");
    let listed = secure.json("tokens list");
    assert_eq!(listed["tokens"].as_array().unwrap().len(), 1, "{listed}");
    assert!(secure.ctl("tokens list").contains("reader") && !secure.ctl("tokens list").contains(token.trim()));
    let read =
        |command: &[&str]| secure.run(command, &[("MEANFIELD_CA_FILE", "ca.crt"), ("MEANFIELD_TOKEN", token.trim())]);
    assert_eq!(read(&["ctl", "pools", "list"]).0, Some(0));
    assert_eq!(read(&["ctl", "pause", "on"]).0, Some(3), "it may only look");
    secure.ctl(&format!("tokens revoke {}", made["id"].as_str().unwrap()));
    assert_eq!(read(&["ctl", "pools", "list"]).0, Some(3));
    let shown = secure.json("tokens create cart --role agent --pool default --agents cart-*");
    assert!(shown["token"].as_str().unwrap().starts_with("mf_"));
    secure.fails("tokens create cart --role agent", 3, "pool");
    secure.fails("tokens revoke nothing", 64, "nothing");
}

#[test]
fn trajectories_go_to_files_and_to_another_coordinator() {
    let secure = Secure::start();
    record(&secure);
    let agent = secure.json("agents list")["agents"][0]["id"].as_str().unwrap().to_owned();
    let rewards = secure.json("trajectories rewards primes --limit 2");
    let latest: Vec<_> = rewards["rewards"].as_array().unwrap().iter().map(|one| one["step"].as_u64()).collect();
    assert_eq!(latest, [Some(49), Some(48)]);
    let best = secure.json("trajectories list --order best --limit 1 --pool default");
    assert_eq!((&best["episodes"][0]["agent"], &best["episodes"][0]["steps"]), (&json!(agent), &json!(50)));
    assert!(secure.ctl("trajectories list --since 1h --agent primes").contains(&agent));
    assert!(!secure.ctl("trajectories list --category io").contains(&agent));
    assert!(!secure.ctl("trajectories list --until 1h").contains(&agent));
    let samples = secure.json("trajectories samples --limit 5 --seed 7");
    assert_eq!(samples, secure.json("trajectories samples --limit 5 --seed 7"));
    assert_eq!(samples["samples"].as_array().unwrap().len(), 5);
    for (file, flags) in [("steps.csv", ""), ("steps.parquet", ""), ("columns", " --format parquet")] {
        let printed = secure.ctl(&format!("trajectories export {file}{flags}"));
        assert_eq!(printed, format!("{} bytes to {file}\n", secure.file(file).len()));
    }
    assert_eq!(String::from_utf8(secure.file("steps.csv")).unwrap().lines().count(), 51);
    assert_eq!(secure.file("steps.parquet"), secure.file("columns"));
    secure.fails("trajectories export steps", 64, ".parquet");
    // What is refused leaves nothing behind.
    secure.fails("trajectories export refused.csv --agent nobody", 64, "nobody");
    assert!(!secure.path().join("refused.csv").exists() && !secure.path().join("refused.csv.new").exists());

    let directory = Arc::clone(&secure.directory);
    let csv = secure.file("steps.csv");
    drop(secure);
    let other = Secure::start_in(directory, "other");
    assert_eq!(other.json("trajectories import steps.parquet"), json!({ "stored": 50, "known": 0 }));
    assert_eq!(other.json("trajectories import steps.csv"), json!({ "stored": 0, "known": 50 }));
    other.ctl("trajectories export again.csv");
    assert_eq!(other.file("again.csv"), csv);
    other.fails("trajectories import missing.csv", 1, "missing.csv");
    other.fails("trajectories import columns --format csv", 3, "refused");
}

/// Registers an agent and hands in an episode of fifty steps.
fn record(secure: &Secure) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let authority = reqwest::Certificate::from_pem(&secure.file("ca.crt")).unwrap();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([authority]).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let post = |path: &str, body: Value| -> Value {
        let request = client.post(format!("{}{path}", secure.url)).bearer_auth(TOKEN).json(&body);
        runtime.block_on(async { request.send().await?.error_for_status()?.json().await }).unwrap()
    };
    let agent = post("/v1/agents", json!({"name": "primes", "pool": "default", "category": "cpu"}));
    let state = json!({"slo_preservation": 1, "cpu_utilisation": 0.5, "memory_utilisation": 0.5, "arrival_change": 0,
        "cpu_limit": 0.5, "memory_limit": 0.5, "replicas": 0.1});
    let step = |step: u32| {
        json!({"episode": 1, "step": step, "state": state, "action": {"cpu": 0, "memory": 0, "replicas": 1},
            "reward": f64::from(step) / 100.0, "next_state": state})
    };
    let steps: Vec<_> = (0..50).map(step).collect();
    let path = format!("/v1/agents/{}/trajectories", agent["agent"].as_str().unwrap());
    let appended = post(&path, json!({"epoch": agent["epoch"], "steps": steps}));
    assert_eq!(appended["stored"], 50, "{appended}");
}
