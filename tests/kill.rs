//! A coordinator that is killed under load, again and again: what it acknowledged is there, and nothing is there twice.
//!
//! Several clients append steps, others register and leave, and an operator gives orders at the same time. After a drawn
//! number of acknowledgements the coordinator gets SIGKILL, in the middle of whatever it does, and is started again where it
//! was. Then members, steps, orders and the audit log are compared with what was acknowledged, and the mean field, to which
//! every heartbeat is sent twice, to the bit with one that is computed here. `MEANFIELD_KILLS` says how often,
//! `MEANFIELD_KILL_SEED` where the draws begin.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use meanfield_common::{
    mean_field::{Contribution, Sums},
    wire::{Answer, Heartbeat},
};
use meanfield_coordinator::audit::{Page, verify};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::{Coordinator, eventually};

const APPENDERS: usize = 4;
const CHURNERS: usize = 3;
/// Nobody is gone by accident, however slow the machine is.
const PATIENT: [&str; 4] = ["--suspect-after", "5m", "--gone-after", "10m"];

/// A client with a runtime of its own.
struct Caller {
    runtime: tokio::runtime::Runtime,
    client: Client,
    url: String,
    token: String,
}

/// Why there is no answer: the coordinator is gone, and whether it took the request is unknown.
struct Gone;

impl Caller {
    fn new(coordinator: &Coordinator) -> Self {
        Self::with(coordinator.url(), coordinator.token().to_owned())
    }

    fn with(url: String, token: String) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = Client::builder().no_proxy().build().unwrap();
        Self { runtime, client, url, token }
    }

    /// Another client of the same coordinator.
    fn new_like(other: &Self) -> Self {
        Self::with(other.url.clone(), other.token.clone())
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, Gone> {
        self.send(Method::POST, path, body)
    }

    /// The body of a good answer. Anything but a good answer or none is a failure of the test.
    fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, Gone> {
        let request = self.client.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token).json(body);
        let answer = self.runtime.block_on(async {
            let response = request.send().await.map_err(|_| Gone)?;
            let (status, text) = (response.status(), response.text().await.map_err(|_| Gone)?);
            Ok::<_, Gone>((status, text))
        })?;
        let (status, text): (StatusCode, String) = answer;
        assert!(status.is_success(), "{path}: {status} {text}");
        Ok(if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() })
    }
}

/// The reward of a step, which nobody else has.
fn reward(agent: usize, episode: u64, step: u32) -> f64 {
    agent as f64 * 100_000.0 + episode as f64 * 100.0 + f64::from(step) / 1024.0
}

fn state(level: f64) -> Value {
    json!({"slo_preservation": level, "cpu_utilisation": 0.5, "memory_utilisation": 0.25, "arrival_change": 0,
        "cpu_limit": 0.5, "memory_limit": 0.5, "replicas": 0.125})
}

/// One agent that appends, and what it knows to be there.
#[derive(Debug, Clone, Default)]
struct Appender {
    id: String,
    epoch: u64,
    number: usize,
    episode: u64,
    /// How many steps of each episode were acknowledged.
    acknowledged: BTreeMap<u64, u32>,
    /// How many steps of each episode were sent.
    sent: BTreeMap<u64, u32>,
}

impl Appender {
    fn batch(&self, from: u32, to: u32) -> Value {
        let step = |step: u32| {
            json!({"episode": self.episode, "step": step, "state": state(0.5), "next_state": state(0.75),
                "action": {"cpu": 1, "memory": 0, "replicas": -1}, "reward": reward(self.number, self.episode, step),
                "verdicts": ["rate"]})
        };
        json!({"epoch": self.epoch, "steps": (from..to).map(step).collect::<Vec<_>>()})
    }

    /// Appends until the coordinator is gone. What may have been lost with it is sent again first.
    fn run(&mut self, caller: &Caller, acknowledged_by_all: &AtomicU64, random: &mut ChaCha8Rng) {
        let path = format!("/v1/agents/{}/trajectories", self.id);
        let sent = self.sent.get(&self.episode).copied().unwrap_or_default();
        let known = self.acknowledged.get(&self.episode).copied().unwrap_or_default();
        let mut next = (known.saturating_sub(5).min(sent), sent);
        if next.0 == next.1 {
            next = (sent, sent + 1);
        }
        loop {
            let (from, to) = next;
            let sent = self.sent.entry(self.episode).or_default();
            *sent = to.max(*sent);
            let Ok(answer) = caller.post(&path, &self.batch(from, to)) else { return };
            let taken = answer["stored"].as_u64().unwrap() + answer["known"].as_u64().unwrap();
            assert_eq!(taken, u64::from(to - from), "{answer}");
            let before = self.acknowledged.insert(self.episode, to).unwrap_or_default();
            assert!(
                answer["known"].as_u64().unwrap() >= u64::from(before.saturating_sub(from)),
                "stored twice: {answer}"
            );
            acknowledged_by_all.fetch_add(1, Ordering::Relaxed);
            if to > 60 {
                self.episode += 1;
                next = (0, random.random_range(1..30));
            } else {
                next = (to, to + random.random_range(1..30));
            }
        }
    }

    /// Sends a heartbeat, and what was answered.
    fn report(&self, caller: &Caller, heartbeat: &Value) -> Value {
        let answer = caller.post(&format!("/v1/agents/{}/heartbeat", self.id), heartbeat);
        answer.unwrap_or_else(|Gone| panic!("no answer"))
    }
}

/// One name that registers and leaves, and what it knows.
#[derive(Debug, Clone, Default)]
struct Churner {
    name: String,
    id: String,
    epoch: u64,
    member: bool,
    /// Whether it asked for something and got no answer.
    unknown: bool,
}

impl Churner {
    /// Registers and leaves in turn until the coordinator is gone.
    fn run(&mut self, caller: &Caller, acknowledged_by_all: &AtomicU64) {
        loop {
            let answer = if self.member {
                caller.post(&format!("/v1/agents/{}/leave", self.id), &json!({"epoch": self.epoch}))
            } else {
                caller.post("/v1/agents", &json!({"name": self.name, "pool": "default", "category": "io"}))
            };
            let Ok(answer) = answer else {
                self.unknown = true;
                return;
            };
            if !self.member {
                (self.id, self.epoch) =
                    (answer["agent"].as_str().unwrap().to_owned(), answer["epoch"].as_u64().unwrap());
            }
            self.member = !self.member;
            acknowledged_by_all.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Compares what it knows with what is there, and takes up what is there.
    fn check(&mut self, coordinator: &Coordinator) {
        let found = coordinator.member(&self.name);
        let (member, epoch) = (found.is_some(), found.as_ref().map_or(self.epoch, |found| found.epoch));
        let kept = (member, epoch) == (self.member, self.epoch);
        // The one request that was not answered either happened or did not.
        let happened = self.unknown && member != self.member && epoch == self.epoch + u64::from(member);
        assert!(kept || happened, "{self:?} is {found:?}");
        self.member = member;
        if let Some(found) = found {
            (self.id, self.epoch) = (found.id, found.epoch);
        }
        self.unknown = false;
    }
}

/// Every step that is there: how often, by agent, episode and number.
fn check_steps(coordinator: &Coordinator, appenders: &[Appender]) -> usize {
    let text = coordinator.text("/v1/trajectories/export?format=csv");
    let mut there: BTreeMap<(usize, u64), BTreeSet<u32>> = BTreeMap::new();
    let mut rows = 0;
    for line in text.lines().skip(1) {
        let fields: Vec<_> = line.split(',').collect();
        let agent = appenders.iter().position(|one| one.id == fields[0]).unwrap();
        let (episode, step) = (fields[4].parse().unwrap(), fields[5].parse().unwrap());
        assert_eq!(fields[17].parse::<f64>().unwrap(), reward(agent, episode, step), "{line}");
        assert!(there.entry((agent, episode)).or_default().insert(step), "twice: {line}");
        rows += 1;
    }
    for (agent, one) in appenders.iter().enumerate() {
        for (episode, acknowledged) in &one.acknowledged {
            let found = there.get(&(agent, *episode));
            let missing = (0..*acknowledged).find(|step| !found.is_some_and(|found| found.contains(step)));
            assert_eq!(missing, None, "agent {agent}, episode {episode}: acknowledged up to {acknowledged}");
        }
    }
    for ((agent, episode), found) in there {
        let sent = appenders[agent].sent.get(&episode).copied().unwrap_or_default();
        assert!(found.iter().all(|step| *step < sent), "agent {agent}, episode {episode}: never sent");
    }
    rows
}

/// The mean field is what those who have reported since the start add up to, and what each is told is that without it.
fn check_mean_field(coordinator: &Coordinator, appenders: &[Appender], round: u64) {
    assert_eq!(coordinator.mean_field_count(), 0, "nobody counts before reporting");
    let caller = Caller::new(coordinator);
    let beats: Vec<Value> = (0..appenders.len())
        .map(|at| {
            let level = ((round as f64 + at as f64) * 0.137).fract();
            json!({"epoch": appenders[at].epoch, "sequence": round, "state": state(level), "reward": level,
                "action": {"cpu": 1, "memory": -1, "replicas": i64::from(at % 2 == 0)}})
        })
        .collect();
    let contributions = beats.iter().map(|beat| {
        let beat: Heartbeat = serde_json::from_value(beat.clone()).unwrap();
        Contribution::new(&beat.state, &beat.action, beat.reward)
    });
    let contributions: Vec<_> = contributions.collect();
    let mut sums = Sums::default();
    contributions.iter().for_each(|one| sums.add(one));
    // Twice, as after a lost answer: the second time counts nothing, and is answered with everybody there.
    for second in [false, true] {
        for ((one, beat), contribution) in appenders.iter().zip(&beats).zip(&contributions) {
            let answer: Answer = serde_json::from_value(one.report(&caller, beat)).unwrap();
            if second {
                assert_eq!(answer.auxiliary, sums.without(contribution).auxiliary());
            }
        }
    }
    let field = &coordinator.get::<Value>("/v1/pools/default")["mean_field"];
    let expected = serde_json::to_value(sums.auxiliary()).unwrap();
    assert_eq!(field["count"], appenders.len());
    for name in ["cpu_limit", "memory_limit", "vertical", "horizontal", "slo_preservation", "utilisation"] {
        assert_eq!(field[name], expected[name], "{name}");
    }
    // The same without our own arithmetic.
    let levels = beats.iter().map(|beat| beat["state"]["slo_preservation"].as_f64().unwrap());
    let mean = levels.sum::<f64>() / beats.len() as f64;
    let found = field["slo_preservation"]["mean"].as_f64().unwrap();
    assert!((found - mean).abs() < 1e-6, "{found} is not {mean}");
}

/// One who orders capacities, each one core more than the last.
#[derive(Debug, Default)]
struct Operator {
    sent: u64,
    acknowledged: BTreeSet<u64>,
}

impl Operator {
    fn run(&mut self, caller: &Caller, acknowledged_by_all: &AtomicU64) {
        loop {
            self.sent += 1;
            let body = json!({"cores": self.sent, "memory_gib": 1024});
            if caller.send(Method::PUT, "/v1/pools/default/capacity", &body).is_err() {
                return;
            }
            self.acknowledged.insert(self.sent);
            acknowledged_by_all.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Each order that was acknowledged is in the log once, others once at most, in their order, and the last one counts.
    fn check(&self, coordinator: &Coordinator) {
        let (mut entries, mut after) = (Vec::new(), 0);
        let (anchor, head) = loop {
            let page: Page = coordinator.get(&format!("/v1/audit?limit=1000&after={after}"));
            entries.extend(page.entries);
            match page.next {
                Some(next) => after = next,
                None => break (page.anchor, page.head),
            }
        };
        assert_eq!(verify(anchor, &entries, head), []);
        let cores = |state: &Value| state["cores"].as_f64().unwrap() as u64;
        let ordered: Vec<u64> =
            entries.iter().map(|entry| cores(&serde_json::from_str(&entry.after).unwrap())).collect();
        assert!(ordered.is_sorted_by(|one, next| one < next), "an order was carried out twice: {ordered:?}");
        let there: BTreeSet<u64> = ordered.iter().copied().collect();
        assert!(there.is_superset(&self.acknowledged), "missing: {:?}", self.acknowledged.difference(&there));
        assert!(ordered.last().is_none_or(|last| *last <= self.sent));
        let state = &coordinator.get::<Value>("/v1/pools/default/capacity")["ordered"];
        assert_eq!(ordered.last().copied(), (!state.is_null()).then(|| cores(state)));
    }
}

fn setting(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

#[test]
fn what_a_killed_coordinator_acknowledged_is_there_once() {
    let (kills, seed) = (setting("MEANFIELD_KILLS", 20), setting("MEANFIELD_KILL_SEED", 1));
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let data = tempdir().unwrap();
    let mut coordinator = Coordinator::start(data.path(), &PATIENT);
    let caller = Caller::new(&coordinator);
    let mut appenders: Vec<Appender> = (0..APPENDERS)
        .map(|number| {
            let body = json!({"name": format!("appender-{number}"), "pool": "default", "category": "cpu"});
            let Ok(answer) = caller.post("/v1/agents", &body) else { panic!("no answer") };
            let (id, epoch) = (answer["agent"].as_str().unwrap().to_owned(), answer["epoch"].as_u64().unwrap());
            Appender { id, epoch, number, ..Appender::default() }
        })
        .collect();
    let mut churners: Vec<Churner> =
        (0..CHURNERS).map(|at| Churner { name: format!("churner-{at}"), ..Churner::default() }).collect();
    let mut operator = Operator::default();
    let (mut acknowledged, mut rows) = (0, 0);
    for kill in 1..=kills {
        let acknowledged_by_all = AtomicU64::new(0);
        let wanted = random.random_range(5..150);
        let seeds: Vec<u64> = appenders.iter().map(|_| random.random()).collect();
        let callers: Vec<_> = (0..APPENDERS + CHURNERS + 1).map(|_| Caller::new_like(&caller)).collect();
        thread::scope(|scope| {
            let (some, others) = callers.split_at(APPENDERS);
            for ((one, caller), seed) in appenders.iter_mut().zip(some).zip(seeds) {
                let all = &acknowledged_by_all;
                scope.spawn(move || one.run(caller, all, &mut ChaCha8Rng::seed_from_u64(seed)));
            }
            for (one, caller) in churners.iter_mut().zip(others) {
                let all = &acknowledged_by_all;
                scope.spawn(move || one.run(caller, all));
            }
            if let (operator, Some(caller), all) = (&mut operator, others.last(), &acknowledged_by_all) {
                scope.spawn(move || operator.run(caller, all));
            }
            eventually("enough is acknowledged", || {
                (acknowledged_by_all.load(Ordering::Relaxed) >= wanted).then_some(())
            });
            coordinator.process.kill();
        });
        acknowledged += acknowledged_by_all.load(Ordering::Relaxed);
        coordinator = coordinator.restart(data.path(), &PATIENT);
        churners.iter_mut().for_each(|one| one.check(&coordinator));
        operator.check(&coordinator);
        check_mean_field(&coordinator, &appenders, kill);
        rows = check_steps(&coordinator, &appenders);
    }
    assert!(kills == 0 || acknowledged > 0);
    println!("{kills} kills, {acknowledged} requests acknowledged, {rows} steps there: none missing, none twice");
}
