//! Inputs to begin with: `seeds -runs=0 DIRECTORY` writes some good ones for each target that hardly gets anywhere without.
//!
//! A target in form only, since nothing else is linked with what the flags of fuzz/run need.

#![no_main]

use std::{fs, path::Path};

use libfuzzer_sys::fuzz_target;
use meanfield_common::{batch::binary, trajectory::Append, wire::Heartbeat};
use meanfield_coordinator::{
    Clock, Coordinator, Options,
    audit::Actor,
    orders::{Order, Terms},
    trajectories::{
        export::{Format, export},
        layout,
        query::Filter,
    },
};
use meanfield_learner::{ActorCritic, Config, Learner, forecast::Network};
use serde_json::{Value, json};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

fuzz_target!(init: write().expect("seeds"), |input: &[u8]| {
    // Never called.
    let _ = input;
});

fn write() -> Result {
    let directory = std::env::args().next_back().ok_or("a directory is needed")?;
    let seeds = Seeds(Path::new(&directory));
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(seeds.write())
}

struct Seeds<'a>(&'a Path);

impl Seeds<'_> {
    fn put(&self, target: &str, name: &str, which: Option<u8>, bytes: &[u8]) -> Result {
        let directory = self.0.join(target);
        fs::create_dir_all(&directory)?;
        let bytes: Vec<u8> = which.into_iter().chain(bytes.iter().copied()).collect();
        Ok(fs::write(directory.join(format!("seed-{name}")), bytes)?)
    }

    async fn write(&self) -> Result {
        let coordinator = Coordinator::open(Options::default(), Clock::manual())?;
        let register = json!({"name": "a", "pool": "default", "category": "cpu"});
        let member = coordinator.register(serde_json::from_value(register.clone())?).await?;
        let state = json!({"slo_preservation": 0.5, "cpu_utilisation": 0.5, "memory_utilisation": 0.25,
            "arrival_change": 0, "cpu_limit": 0.5, "memory_limit": 0.5, "replicas": 0.125});
        let action = json!({"cpu": 1, "memory": 0, "replicas": -1});
        let heartbeat = json!({"epoch": 1, "sequence": 1, "state": state, "action": action, "reward": 1.5});
        let step = |step: u32| {
            json!({"episode": 3, "step": step, "state": state, "next_state": state, "action": action,
                "reward": 2.5, "verdicts": ["rate"]})
        };
        let append = json!({"epoch": 1, "steps": [step(0), step(1), step(2)]});
        let beats = json!({"heartbeats": [{"agent": member.agent, "heartbeat": heartbeat}]});
        let beat: Heartbeat = serde_json::from_value(heartbeat.clone())?;
        let mut compact = Vec::new();
        binary::write(&mut compact, [(member.agent, &beat)].into_iter());
        let appended: Append = serde_json::from_value(append.clone())?;
        let steps: Vec<_> = appended.steps.clone().into();
        let chunk = layout::encode(5, &steps);
        let mut framed = 1_u64.to_le_bytes().to_vec();
        framed.extend(3_u64.to_le_bytes());
        framed.extend(u32::try_from(chunk.len())?.to_le_bytes());
        framed.extend(&chunk);
        coordinator.append(member.agent, appended).await?;

        // In the order of the routes of the target.
        let text = |value: &Value| value.to_string().into_bytes();
        let capacity = json!({"cores": 4, "memory_gib": 16});
        let token = json!({"name": "t", "role": "agent", "pool": "default", "agents": "shop/*"});
        let bodies = [
            text(&register),
            text(&heartbeat),
            text(&beats),
            compact.clone(),
            text(&append),
            framed,
            text(&json!({"lifecycle": "fallback"})),
            text(&capacity),
            text(&json!({"percent": 10})),
            text(&json!({"version": 1, "pinned": true})),
            text(&token),
            text(&json!({})),
            self.exported(&coordinator, Format::Csv)?,
            text(&json!({"kind": "tenant", "description": "the shop", "team_reward": "weighted"})),
            text(&json!({"mode": "advise", "ageing": 0.5, "capacity": "reported"})),
            text(&json!({"weight": 2.5, "minimum": {"cores": 0.5, "memory_gib": 1}})),
            text(&json!({"epoch": 1})),
        ];
        for (which, body) in bodies.iter().enumerate() {
            self.put("http_body", &which.to_string(), Some(u8::try_from(which)?), body)?;
        }
        for (name, method, base, rest) in [
            ("agents", 0, 1, "?limit=5&after=default%2Fa&pool=default&category=cpu&state=active&prefix=a"),
            ("rewards", 0, 4, "?limit=7"),
            ("pause", 1, 5, "?dry_run=true\n\"abc\", *"),
            ("tokens", 0, 11, "?limit=2&after=0000000000000001"),
            ("episodes", 0, 12, "?order=best&since=1&until=9&agent=00000000-0000-0000-0000-000000000000"),
            ("samples", 0, 13, "?seed=4&limit=3"),
            ("audit", 0, 14, "?limit=3&after=1&since=1&actor=me&action=pause&target=agents"),
            ("events", 0, 15, "?kind=joined,left\n\n17\n00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("entitlement", 3, 16, "?dry_run=true\n*"),
            ("models", 0, 17, "/cpu/file?version=1&agent=default%2Fa"),
            ("pools", 0, 18, "?limit=5&after=a&prefix=d"),
            ("cuts", 0, 19, "?limit=5&after=1&agent=a&state=open"),
            ("scarcity", 3, 20, "?dry_run=true\n*"),
            ("export", 0, 21, "?format=parquet&pool=default&category=cpu&since=1&until=9"),
        ] {
            self.put("http_query", name, None, &[&[method, base], rest.as_bytes()].concat())?;
        }
        self.put("batch", "compact", None, &compact)?;
        self.put("steps", "chunk", None, &chunk)?;
        self.put("import", "csv", Some(0), &self.exported(&coordinator, Format::Csv)?)?;
        self.put("import", "parquet", Some(1), &self.exported(&coordinator, Format::Parquet)?)?;
        let network = ActorCritic::new(Config { hidden: vec![2], ..Config::preset_default() }, 1)?;
        self.put("network", "actor-critic", None, &network.save()?)?;
        self.put("network", "learner", None, &Learner::from_network(network, 1).save()?)?;
        self.put("network", "forecast", None, &Network::new(1).save()?)?;
        let terms = Terms { actor: Some(Actor::new("me")?), ..Terms::default() };
        coordinator.order(Order::PauseAll(true), terms.clone()).await?;
        coordinator.order(Order::PauseAll(false), terms).await?;
        let log = coordinator.audit_log(&Default::default(), 0, 9);
        self.put("audit", "log", None, &serde_json::to_vec(&log)?)?;
        self.put("audit", "pattern", None, b"shop/*\nshop/cart")?;
        self.put("audit", "answer", None, &serde_json::to_vec(&coordinator.heartbeat(member.agent, &beat)?)?)
    }

    fn exported(&self, coordinator: &Coordinator, format: Format) -> Result<Vec<u8>> {
        let file = tempfile::NamedTempFile::new()?;
        export(&*coordinator.trajectories(), &Filter::default(), format, file.reopen()?)?;
        Ok(fs::read(file.path())?)
    }
}
