//! Base models: versions, what is served of them, and how they follow what agents learn.

use meanfield_common::{
    digest::Digest,
    identity::{AgentId, ModelName},
    reward::Reward,
};
use meanfield_coordinator::{
    Coordinator, Options,
    audit::{Actor, Filter, verify},
    http::models::Models,
    models::{Canary, Order, Serving, Source},
    orders::{Ordered, Terms},
};
use meanfield_learner::{ActorCritic, Config};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    durability::image,
    support::{Served, beat, block_on, in_memory, member, on_disk, send},
};

fn small() -> Config {
    Config { hidden: vec![8], ..Config::default() }
}

fn network(seed: u64) -> ActorCritic {
    ActorCritic::new(small(), seed).unwrap()
}

pub(crate) fn file(seed: u64) -> Vec<u8> {
    network(seed).save().unwrap()
}

/// A network all of whose parameters are one number.
fn filled(value: f32) -> Vec<u8> {
    let mut network = network(1);
    let (actor, critic) = network.parameters();
    let (actor, critic) = (vec![value; actor.len()], vec![value; critic.len()]);
    network.set_parameters(&actor, &critic).unwrap();
    network.save().unwrap()
}

/// Carries out an order, and says what came of it.
fn order(coordinator: &Coordinator, name: &ModelName, order: Order) -> Value {
    coordinator.order_model(name, order, &Terms::default()).unwrap().after
}

/// Takes a version in, and says which number it has.
pub(crate) fn add(coordinator: &Coordinator, name: &ModelName, bytes: Vec<u8>) -> u64 {
    let version = coordinator.uploaded(bytes).unwrap();
    order(coordinator, name, Order::Add(version))["version"].as_u64().unwrap()
}

fn model(name: &str) -> ModelName {
    name.parse().unwrap()
}

fn reward(value: f64) -> Reward {
    Reward::try_from(value).unwrap()
}

fn octets(served: &Served, method: Method, path: &str, body: Vec<u8>) -> reqwest::RequestBuilder {
    served.request(method, path).header("content-type", "application/octet-stream").body(body)
}

/// The first number of what agents get.
fn first(coordinator: &Coordinator, name: &str) -> f32 {
    let (_, version) = coordinator.model_file(&model(name), None, None).unwrap();
    ActorCritic::load(version.bytes()).unwrap().parameters().0[0]
}

fn serving(coordinator: &Coordinator, name: &str) -> Serving {
    coordinator.model(&model(name)).unwrap().0.serving
}

#[tokio::test]
async fn versions_are_taken_in_promoted_tried_out_and_rolled_back() {
    let served = Served::start(Options::default()).await;
    let add = async |seed| send(octets(&served, Method::POST, "/v1/models/team%2Fcpu", file(seed))).await;
    let serve = async |body: Value| {
        send(served.request(Method::PUT, "/v1/models/team%2Fcpu/serving").json(&body)).await.status.as_u16()
    };
    let got = async |query: &str| {
        let path = format!("/v1/models/team%2Fcpu/file{query}");
        let response = served.request(Method::GET, &path).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let version: u64 = response.headers()["meanfield-version"].to_str().unwrap().parse().unwrap();
        let tag = response.headers()["etag"].to_str().unwrap().to_owned();
        let bytes = response.bytes().await.unwrap();
        assert_eq!(tag, format!("\"{}\"", Digest::of(&bytes)));
        assert_eq!(bytes, file(version), "versions were made from seeds of the same number");
        version
    };
    for version in 1..=3 {
        let reply = add(version).await;
        assert_eq!((reply.status.as_u16(), reply.json::<Value>()), (201, json!({"version": version})));
    }
    assert_eq!((got("").await, got("?version=2").await), (1, 2), "only the first is served by itself");

    assert_eq!(serve(json!({"version": 2})).await, 204);
    assert_eq!(got("").await, 2);
    assert_eq!(serve(json!({"version": 2, "canary": {"version": 3, "share": 0.5}})).await, 204);
    let mut tried = 0;
    for agent in 0..40 {
        let query = format!("?agent=default%2Fagent-{agent}");
        let version = got(&query).await;
        assert_eq!(got(&query).await, version, "the same each time");
        tried += usize::from(version == 3);
    }
    assert!((5..=35).contains(&tried), "{tried} of 40");
    assert_eq!(got("").await, 2, "who does not say who it is, is no canary");

    let view: Value = served.get("/v1/models/team%2Fcpu").await.json();
    assert_eq!(view["serving"], json!({"version": 2, "pinned": false, "canary": {"version": 3, "share": 0.5}}));
    assert_eq!(view["versions"].as_array().unwrap().len(), 3);
    assert_eq!(view["versions"][0]["provenance"]["source"], "upload");
    assert_eq!(view["versions"][0]["digest"], Digest::of(&file(1)).to_string());
    let back = served.post("/v1/models/team%2Fcpu/rollback", &Value::Null).await;
    assert_eq!((back.status.as_u16(), back.json::<Ordered>().after), (200, json!({"version": 2, "pinned": true})));
    assert_eq!(serve(json!({"version": 1})).await, 204);
    served.post("/v1/models/team%2Fcpu/rollback", &Value::Null).await;
    assert_eq!(got("").await, 2);

    let tag = format!("\"{}\"", Digest::of(&file(2)));
    let had = send(served.request(Method::GET, "/v1/models/team%2Fcpu/file").header("if-none-match", tag)).await;
    assert_eq!((had.status.as_u16(), had.body.as_str()), (304, ""));
    assert_eq!(served.metric("meanfield_coordinator_model_version{model=\"team/cpu\"}").await, 2.0);
    assert_eq!(served.get("/v1/models").await.json::<Value>()["models"][0]["name"], "team/cpu");

    assert_eq!(send(served.request(Method::DELETE, "/v1/models/team%2Fcpu")).await.status, 204);
    assert_eq!(served.get("/v1/models/team%2Fcpu").await.problem().kind, "/problems/unknown-model");
    assert_eq!(served.get("/v1/models").await.json::<Value>(), json!({"models": []}));
    served.ended().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_a_version_or_a_contribution_is_refused_and_changes_nothing() {
    let served = Served::start(Options::default()).await;
    let agent = member(&served.coordinator, "a").await.agent;
    add(&served.coordinator, &model("cpu"), file(1));
    let before = served.coordinator.model(&model("cpu")).unwrap();
    let wider = ActorCritic::new(Config { hidden: vec![16], ..Config::default() }, 1).unwrap().save().unwrap();
    let good = file(2);
    let not_a_number = [&good[..good.len() - 4], &f32::NAN.to_le_bytes()].concat();
    let nobody = AgentId(uuid::Uuid::from_u128(7));
    let add = |name: &str, body: Vec<u8>| octets(&served, Method::POST, &format!("/v1/models/{name}"), body);
    let hand_in = |agent: AgentId, query: &str, body: Vec<u8>| {
        octets(&served, Method::PUT, &format!("/v1/models/cpu/contributions/{agent}{query}"), body)
    };
    let serve = |body: Value| served.request(Method::PUT, "/v1/models/cpu/serving").json(&body);
    let cases = [
        (add("cpu", Vec::new()), 422, "invalid-value", "model"),
        (add("cpu", good[..200].to_vec()), 422, "invalid-value", "model"),
        (add("cpu", not_a_number.clone()), 422, "invalid-value", "model"),
        (add("cpu", wider.clone()), 422, "invalid-value", "shape"),
        (add("Cpu", good.clone()), 422, "invalid-value", "model"),
        (add("cpu", vec![0; (4 << 20) + 1]), 413, "body-too-large", "body"),
        (hand_in(agent, "?reward=0.5", wider), 422, "invalid-value", "shape"),
        (hand_in(agent, "?reward=0.5", not_a_number), 422, "invalid-value", "model"),
        (hand_in(agent, "?reward=0.5", filled(1e6)), 422, "invalid-value", "weights"),
        (hand_in(agent, "?reward=NaN", good.clone()), 422, "invalid-value", "reward"),
        (hand_in(agent, "?reward=much", good.clone()), 422, "invalid-value", "reward"),
        (hand_in(agent, "", good.clone()), 422, "missing-field", "reward"),
        (hand_in(agent, "?rewards=1", good.clone()), 422, "unknown-field", "rewards"),
        (serve(json!({"version": 2})), 422, "invalid-value", "version"),
        (serve(json!({"version": 1, "canary": {"version": 1, "share": 0.0}})), 422, "invalid-value", "canary.share"),
        (serve(json!({"pinned": true})), 422, "missing-field", "version"),
        (served.request(Method::GET, "/v1/models/cpu/file?version=x"), 422, "invalid-value", "version"),
        (served.request(Method::GET, "/v1/models/cpu/file?version=9"), 422, "invalid-value", "version"),
        (served.request(Method::GET, "/v1/models/cpu/file?agent="), 422, "invalid-value", "agent"),
        (served.request(Method::GET, "/v1/models/cpu/file?who=me"), 422, "unknown-field", "who"),
    ];
    for (request, status, kind, field) in cases {
        let problem = send(request).await.problem();
        assert_eq!((problem.status, problem.kind.as_str()), (status, &*format!("/problems/{kind}")), "{problem:?}");
        assert!(problem.field.as_deref().is_some_and(|found| found.starts_with(field)), "{problem:?}");
    }
    let named = [
        (hand_in(nobody, "?reward=0.5", good), 404, "unknown-agent"),
        (served.request(Method::POST, "/v1/models/cpu/rollback"), 409, "no-previous"),
        (served.request(Method::GET, "/v1/models/io/file"), 404, "unknown-model"),
        (served.request(Method::DELETE, "/v1/models/io"), 404, "unknown-model"),
    ];
    for (request, status, kind) in named {
        let problem = send(request).await.problem();
        assert_eq!((problem.status, problem.kind.as_str()), (status, &*format!("/problems/{kind}")), "{problem:?}");
    }
    assert_eq!(served.coordinator.model(&model("cpu")).unwrap(), before);
    assert_eq!(served.coordinator.models().len(), 1);
    served.ended().await.unwrap();
}

#[test]
fn a_model_follows_its_agents_slowly_and_says_whom() {
    let coordinator = in_memory();
    add(&coordinator, &model("cpu"), filled(1.0));
    let agents: Vec<AgentId> = (0..5).map(|one| block_on(member(&coordinator, &format!("a{one}"))).agent).collect();
    let hand_in = |values: &[f32]| {
        for (agent, value) in agents.iter().zip(values) {
            coordinator.contribute(&model("cpu"), *agent, &filled(*value), reward(f64::from(*value))).unwrap();
        }
        coordinator.average_models();
    };
    hand_in(&[2.0, 3.0]);
    assert_eq!(first(&coordinator, "cpu"), 1.0, "two are too few");
    assert_eq!(coordinator.model(&model("cpu")).unwrap().1, 2, "but their words wait");

    // The last word of each counts. Of five, one is left out at each end: a tenth of the way from 1 to 4.
    hand_in(&[2.0, 3.0, 4.0, 5.0, 9.9]);
    assert!((first(&coordinator, "cpu") - 1.3).abs() < 1e-6);
    let (now, waiting) = coordinator.model(&model("cpu")).unwrap();
    assert_eq!((now.serving.version, waiting), (2, 0));
    let Source::Average { parent, agents: named, .. } = &now.versions[&2].provenance().source else { panic!() };
    assert_eq!(*parent, 1);
    let mut expected: Vec<(AgentId, f64)> =
        agents.iter().copied().zip([2.0, 3.0, 4.0, 5.0, f64::from(9.9f32)]).collect();
    expected.sort_by_key(|(agent, _)| *agent);
    assert_eq!(*named, expected);
    coordinator.average_models();
    assert_eq!(serving(&coordinator, "cpu").version, 2, "nobody has said anything since");

    // An operator's pin holds, and so does a canary: the new version is there, but not served.
    order(&coordinator, &model("cpu"), Order::Serve(Serving { version: 2, pinned: true, canary: None }));
    hand_in(&[2.0; 5]);
    assert_eq!(serving(&coordinator, "cpu").version, 2);
    let canary = Some(Canary { version: 3, share: 0.1 });
    order(&coordinator, &model("cpu"), Order::Serve(Serving { version: 2, pinned: false, canary }));
    hand_in(&[2.0; 5]);
    assert_eq!(serving(&coordinator, "cpu"), Serving { version: 2, pinned: false, canary });
    assert_eq!(coordinator.model(&model("cpu")).unwrap().0.versions.len(), 4);
}

#[test]
fn one_poisoned_agent_moves_a_model_no_further_than_the_honest_ones_do() {
    let moved = |poison: f32| {
        let coordinator = in_memory();
        add(&coordinator, &model("cpu"), filled(1.0));
        for (one, value) in [0.9, 1.0, 1.1, 1.2, poison].into_iter().enumerate() {
            let agent = block_on(member(&coordinator, &format!("a{one}"))).agent;
            coordinator.contribute(&model("cpu"), agent, &filled(value), reward(1.0)).unwrap();
        }
        coordinator.average_models();
        first(&coordinator, "cpu")
    };
    // Rate 0.1 of the way to a mean that lies within the honest 0.9 to 1.2. The most extreme that passes the norm is 10.
    for poison in [-9.9, -1.0, 5.0, 9.9] {
        let value = moved(poison);
        assert!((0.99..=1.02).contains(&value), "{poison} moved it to {value}");
    }
    assert!((moved(9.9) - moved(-9.9)).abs() < 0.1 * (1.2 - 0.9), "and its word is worth less than their spread");
}

#[test]
fn only_so_many_versions_are_kept_and_those_in_use_always() {
    let options = meanfield_coordinator::models::Options { kept: 2, ..Default::default() };
    let coordinator =
        Coordinator::open(Options { models: options, ..Options::default() }, meanfield_coordinator::Clock::manual());
    let coordinator = coordinator.unwrap();
    for seed in 1..=9 {
        assert_eq!(add(&coordinator, &model("io"), file(seed)), seed, "numbers are never used again");
    }
    let versions: Vec<u64> = coordinator.model(&model("io")).unwrap().0.versions.keys().copied().collect();
    assert_eq!(versions, [1, 8, 9], "the served one, and the two newest");
}

#[test]
fn what_was_acknowledged_survives_a_crash_and_damage_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = on_disk(dir.path()).unwrap();
    add(&coordinator, &model("team/cpu"), file(1));
    add(&coordinator, &model("team/cpu"), file(2));
    order(&coordinator, &model("team/cpu"), Order::Serve(Serving { version: 2, pinned: true, canary: None }));
    add(&coordinator, &model("io"), file(3));
    order(&coordinator, &model("io"), Order::Remove);
    let before = coordinator.models();

    // No orderly end: the copy is taken while the coordinator runs. What a crash may leave is cleaned up.
    let crashed = image(dir.path());
    let models = crashed.path().join("models");
    std::fs::write(models.join("team%2Fcpu/7.safetensors"), "never acknowledged").unwrap();
    std::fs::write(models.join("team%2Fcpu/7.new"), b"half a fi").unwrap();
    std::fs::create_dir(models.join("half")).unwrap();
    std::fs::write(models.join("half/1.safetensors"), file(4)).unwrap();
    let recovered = on_disk(crashed.path()).unwrap();
    assert_eq!(recovered.models(), before);
    assert_eq!(order(&recovered, &model("team/cpu"), Order::RollBack)["version"], 1);
    drop(recovered);
    assert_eq!(std::fs::read_dir(models.join("team%2Fcpu")).unwrap().count(), 2);
    assert!(!models.join("half").exists());
    // Drafts are deleted. What could be somebody's model is not.
    let never = b"never acknowledged".to_vec();
    let expected = [("half.1/1.safetensors", file(4)), ("team%2Fcpu.1/7.safetensors", never)];
    assert_eq!(kept_aside(crashed.path()), expected.map(|(path, bytes)| (path.to_owned(), bytes)));

    type Damage = fn(&std::path::Path);
    let damages: [(Damage, &str); 3] = [
        (|models| flip(&models.join("team%2Fcpu/2.safetensors")), "2.safetensors"),
        (|models| std::fs::remove_file(models.join("team%2Fcpu/1.safetensors")).unwrap(), "1.safetensors"),
        (|models| std::fs::create_dir(models.join("Not-A-Name")).unwrap(), "Not-A-Name"),
    ];
    for (damage, named) in damages {
        let crashed = image(dir.path());
        damage(&crashed.path().join("models"));
        let error = on_disk(crashed.path()).err().unwrap().to_string();
        assert!(error.contains(named), "{error}");
    }
}

/// The files that starts have moved out of the way.
fn kept_aside(data_dir: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let unknown = data_dir.join("models.unknown");
    let mut found = Vec::new();
    for directory in std::fs::read_dir(&unknown).into_iter().flatten().map(Result::unwrap) {
        for file in std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()) {
            let name = file.strip_prefix(&unknown).unwrap().to_str().unwrap().to_owned();
            found.push((name, std::fs::read(file).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn an_older_store_does_not_cost_the_models_that_it_does_not_know() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = on_disk(dir.path()).unwrap();
    add(&coordinator, &model("cpu"), file(1));
    let backup = image(dir.path());
    add(&coordinator, &model("cpu"), file(2));
    add(&coordinator, &model("io"), file(3));
    drop(coordinator);
    // The store of the backup, and the models of today.
    copy(&dir.path().join("models"), &backup.path().join("models"));
    let coordinator = on_disk(backup.path()).unwrap();
    assert_eq!(coordinator.models().len(), 1);
    let expected = |found: &[(&str, u64)]| -> Vec<(String, Vec<u8>)> {
        found.iter().map(|(path, seed)| ((*path).to_owned(), file(*seed))).collect()
    };
    assert_eq!(kept_aside(backup.path()), expected(&[("cpu.1/2.safetensors", 2), ("io.1/1.safetensors", 3)]));
    // What comes under these names later is not confused with them, nor is it put in their place.
    assert_eq!(add(&coordinator, &model("io"), file(9)), 1);
    assert_eq!(add(&coordinator, &model("cpu"), file(8)), 2);
    drop(coordinator);
    std::fs::create_dir(backup.path().join("models/memory")).unwrap();
    std::fs::write(backup.path().join("models/cpu/7.safetensors"), file(7)).unwrap();
    let coordinator = on_disk(backup.path()).unwrap();
    assert_eq!(coordinator.model_file(&model("io"), Some(1), None).unwrap().1.bytes(), file(9));
    assert_eq!(coordinator.model_file(&model("cpu"), Some(2), None).unwrap().1.bytes(), file(8));
    let found = [("cpu.1/2.safetensors", 2), ("cpu.2/7.safetensors", 7), ("io.1/1.safetensors", 3)];
    assert_eq!(kept_aside(backup.path()), expected(&found));
    assert!(!backup.path().join("models/memory").exists(), "nothing was in it");
}

/// What docs/operations.md says: of what is damaged, one base model can be moved away, and the rest goes on.
#[test]
fn a_damaged_model_is_moved_away_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = on_disk(dir.path()).unwrap();
    block_on(member(&coordinator, "a"));
    for name in ["team/cpu", "io"] {
        add(&coordinator, &model(name), file(1));
    }
    let (agents, io) = (coordinator.agents(), coordinator.model(&model("io")).unwrap());
    drop(coordinator);
    let (cpu, aside) = (dir.path().join("models/team%2Fcpu"), dir.path().join("aside"));
    flip(&cpu.join("1.safetensors"));
    let error = on_disk(dir.path()).err().unwrap().to_string();
    assert!(error.contains("1.safetensors") && error.contains("move the model's directory away"), "{error}");
    std::fs::rename(&cpu, &aside).unwrap();
    for _ in 0..2 {
        let coordinator = on_disk(dir.path()).unwrap();
        assert_eq!((coordinator.agents(), coordinator.models()), (agents.clone(), vec![(model("io"), io.0.clone())]));
        assert_eq!(noted(&coordinator), [("model.remove".to_owned(), "models/team/cpu".to_owned())], "once");
    }
    assert!(aside.join("1.safetensors").exists());
    // The name is free again.
    let coordinator = on_disk(dir.path()).unwrap();
    assert_eq!(add(&coordinator, &model("team/cpu"), file(2)), 1);
    drop(coordinator);
    assert_eq!(on_disk(dir.path()).unwrap().models().len(), 2);

    // All of them, too.
    std::fs::remove_dir_all(dir.path().join("models")).unwrap();
    let coordinator = on_disk(dir.path()).unwrap();
    assert_eq!((coordinator.models(), coordinator.agents()), (vec![], agents));
    assert_eq!(noted(&coordinator).len(), 3);
}

fn flip(path: &std::path::Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// The name, action and target of every entry of the audit log.
fn noted(coordinator: &Coordinator) -> Vec<(String, String)> {
    let page = coordinator.audit_log(&Filter::default(), 0, usize::MAX);
    assert_eq!(verify(page.anchor, &page.entries, page.head), []);
    page.entries.into_iter().map(|one| (one.action, one.target)).collect()
}

#[test]
fn a_crash_between_the_files_and_the_commit_leaves_neither_the_change_nor_its_entry() {
    let dir = tempfile::tempdir().unwrap();
    let by = Terms { actor: Some(Actor::new("ann").unwrap()), ..Terms::default() };
    let cpu = model("team/cpu");
    let take_in = |coordinator: &Coordinator, by: &Terms, seed: u64| {
        let order = Order::Add(coordinator.uploaded(file(seed)).unwrap());
        coordinator.order_model(&cpu, order, by).unwrap().after["version"].as_u64().unwrap()
    };
    let coordinator = on_disk(dir.path()).unwrap();
    // What is on the disk before a change and after it: the files of one and the store of the other are what a crash in
    // between leaves, since files are written first.
    type Step<'a> = Box<dyn Fn(&Coordinator) + 'a>;
    let steps: [Step<'_>; 4] = [
        Box::new(|coordinator| assert_eq!(take_in(coordinator, &by, 1), 1)),
        Box::new(|coordinator| assert_eq!(take_in(coordinator, &by, 2), 2)),
        Box::new(|coordinator| {
            let serving = Serving { version: 2, pinned: true, canary: None };
            coordinator.order_model(&cpu, Order::Serve(serving), &by).unwrap();
        }),
        Box::new(|coordinator| {
            assert_eq!(coordinator.order_model(&cpu, Order::RollBack, &by).unwrap().after["version"], 1);
        }),
    ];
    for (number, step) in steps.iter().enumerate() {
        let (models, entries, before) = (coordinator.models(), noted(&coordinator), image(dir.path()));
        step(&coordinator);
        let after = image(dir.path());
        copy(&after.path().join("models"), &before.path().join("models"));
        let crashed = on_disk(before.path()).unwrap();
        assert_eq!((crashed.models(), noted(&crashed)), (models, entries.clone()), "in step {number}");
        // What was not acknowledged is not in the way of the next attempt, also of another file.
        let next = if number == 0 { 1 } else { crashed.models()[0].1.versions.len() as u64 + 1 };
        assert_eq!(take_in(&crashed, &by, 9), next);
        drop(crashed);
        let again = on_disk(before.path()).unwrap();
        assert_eq!(again.model_file(&cpu, Some(next), None).unwrap().1.bytes(), file(9));
        assert_eq!(noted(&again).len(), entries.len() + 1);

        let whole = on_disk(after.path()).unwrap();
        assert_eq!((whole.models(), noted(&whole)), (coordinator.models(), noted(&coordinator)));
        assert_eq!(noted(&whole).len(), entries.len() + 1);
    }

    // Files are removed last: a crash before that leaves files that nobody knows, and they go.
    let full = image(dir.path());
    coordinator.order_model(&cpu, Order::Remove, &by).unwrap();
    let crashed = image(dir.path());
    copy(&full.path().join("models"), &crashed.path().join("models"));
    let crashed_at = on_disk(crashed.path()).unwrap();
    assert_eq!(crashed_at.models(), []);
    assert_eq!(noted(&crashed_at).last().unwrap(), &("model.remove".to_owned(), "models/team/cpu".to_owned()));
    assert_eq!(std::fs::read_dir(crashed.path().join("models")).unwrap().count(), 0);
}

#[test]
fn a_model_of_the_layout_before_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    drop(on_disk(dir.path()).unwrap());
    let directory = dir.path().join("models/team%2Fcpu");
    std::fs::create_dir_all(&directory).unwrap();
    let version =
        |seed| json!({"digest": Digest::of(&file(seed)), "provenance": {"made_unix_ms": 5, "source": "upload"}});
    for seed in [3, 4] {
        std::fs::write(directory.join(format!("{seed}.safetensors")), file(seed)).unwrap();
    }
    let serving = |version| json!({"version": version, "pinned": true});
    let document = json!({
        "format": 1, "serving": serving(4), "previous": serving(3), "versions": {"3": version(3), "4": version(4)},
    });
    std::fs::write(directory.join("model.json"), document.to_string()).unwrap();
    for _ in 0..2 {
        let coordinator = on_disk(dir.path()).unwrap();
        assert_eq!(serving_of(&coordinator), (4, Some(3)));
        assert_eq!(coordinator.model_file(&model("team/cpu"), None, None).unwrap().1.bytes(), file(4));
        assert!(!directory.join("model.json").exists(), "it is in the store now");
    }
    std::fs::create_dir_all(dir.path().join("models/io")).unwrap();
    std::fs::write(dir.path().join("models/io/model.json"), b"{}").unwrap();
    let error = on_disk(dir.path()).err().unwrap().to_string();
    assert!(error.contains("io/model.json"), "{error}");
}

fn serving_of(coordinator: &Coordinator) -> (u64, Option<u64>) {
    let (model, _) = coordinator.model(&model("team/cpu")).unwrap();
    (model.serving.version, model.previous.map(|previous| previous.version))
}

/// Puts all files of a directory of directories into another one.
fn copy(from: &std::path::Path, to: &std::path::Path) {
    for directory in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(directory.file_name());
        std::fs::create_dir_all(&target).unwrap();
        for file in std::fs::read_dir(directory.path()).unwrap().map(Result::unwrap) {
            std::fs::copy(file.path(), target.join(file.file_name())).unwrap();
        }
    }
}

#[tokio::test]
async fn a_change_for_another_state_of_a_model_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(Options { data_dir: Some(dir.path().to_owned()), ..Options::default() }).await;
    let path = "/v1/models/cpu";
    let tag = async || served.get_tag(path).await;
    let add = |seed| octets(&served, Method::POST, path, file(seed));
    let put = |version: u64| served.request(Method::PUT, "/v1/models/cpu/serving").json(&json!({"version": version}));
    let refused = async |request: reqwest::RequestBuilder, condition: &str, value: &str| {
        let before = served.coordinator.models();
        let problem = send(request.header(condition, value)).await.problem();
        assert_eq!((problem.status, problem.kind.as_str()), (412, "/problems/precondition-failed"), "{problem:?}");
        assert!(problem.field.unwrap().eq_ignore_ascii_case(condition));
        assert_eq!(served.coordinator.models(), before);
    };
    refused(add(1), "if-match", "*").await;
    let reply = send(add(1).header("if-none-match", "*")).await;
    assert_eq!((reply.status.as_u16(), reply.headers["etag"].to_str().unwrap()), (201, &*tag().await));
    refused(add(2), "if-none-match", "*").await;

    // Whatever changes the model is another state of it.
    let mut seen = vec![tag().await];
    let changes = [
        add(2),
        put(2),
        served.request(Method::POST, "/v1/models/cpu/rollback"),
        served.request(Method::PUT, "/v1/models/cpu/serving").json(&json!({"version": 2, "pinned": true})),
    ];
    for change in changes {
        let again = change.try_clone().unwrap();
        refused(change.try_clone().unwrap(), "if-match", "\"other\"").await;
        refused(change.try_clone().unwrap(), "if-none-match", seen.last().unwrap()).await;
        let reply = send(change.header("if-match", seen.last().unwrap())).await;
        assert!(reply.status.is_success(), "{reply:?}");
        assert_eq!(reply.headers["etag"].to_str().unwrap(), tag().await);
        refused(again, "if-match", seen.last().unwrap()).await;
        assert!(!seen.contains(&tag().await));
        seen.push(tag().await);
    }
    // What agents hand in is none, and neither is a restart.
    let agent = member(&served.coordinator, "a").await.agent;
    served.coordinator.contribute(&model("cpu"), agent, &file(5), reward(0.5)).unwrap();
    let now = tag().await;
    assert_eq!(&now, seen.last().unwrap());
    let crashed = image(dir.path());
    let again = Served::start(Options { data_dir: Some(crashed.path().to_owned()), ..Options::default() }).await;
    assert_eq!(again.get_tag(path).await, now);
    again.ended().await.unwrap();

    // Of those who saw the same state one wins.
    let requests = (0..8).map(|_| send(put(1).header("if-match", &now)));
    let replies = futures_util::future::join_all(requests).await;
    assert_eq!(replies.iter().filter(|reply| reply.status == 204).count(), 1);
    assert_eq!(replies.iter().filter(|reply| reply.status == 412).count(), 7);

    let remove = || served.request(Method::DELETE, path);
    refused(remove(), "if-match", &now).await;
    assert_eq!(send(remove().header("if-match", tag().await)).await.status, 204);
    assert_eq!(send(remove().header("if-match", "*")).await.problem().kind, "/problems/unknown-model");
    served.ended().await.unwrap();
}

#[tokio::test]
async fn a_dry_run_says_what_would_become_of_a_model() {
    let served = Served::start(Options::default()).await;
    let tried = async |request: reqwest::RequestBuilder| {
        let before = served.coordinator.models();
        let reply = send(request).await;
        assert_eq!((reply.status.as_u16(), reply.headers.get("etag")), (200, None), "{reply:?}");
        assert_eq!(served.coordinator.models(), before);
        let ordered: Ordered = reply.json();
        assert!(ordered.dry_run && ordered.changed == (ordered.before != ordered.after));
        ordered
    };
    let try_add = |bytes| octets(&served, Method::POST, "/v1/models/cpu?dry_run=true", bytes);
    let first = tried(try_add(file(1))).await;
    assert_eq!((first.action.as_str(), first.target.as_str()), ("model.add", "models/cpu"));
    assert_eq!(first.after, json!({"version": 1, "digest": Digest::of(&file(1))}));
    add(&served.coordinator, &model("cpu"), file(1));
    let tag = |etag: Option<Digest>| etag.map(|etag| format!("\"{etag}\"")).unwrap();
    assert_eq!(tag(first.etag), served.get_tag("/v1/models/cpu").await, "what it would be is what it is");
    assert_eq!(tried(try_add(file(2))).await.after["version"], 2);
    // It is checked like a real one.
    let wider = ActorCritic::new(Config { hidden: vec![16], ..Config::default() }, 1).unwrap().save().unwrap();
    assert_eq!(send(try_add(wider)).await.problem().field.as_deref(), Some("shape"));
    let rollback = "/v1/models/cpu/rollback?dry_run=true";
    assert_eq!(send(served.request(Method::POST, rollback)).await.problem().kind, "/problems/no-previous");
    let serve = |version: u64| {
        served.request(Method::PUT, "/v1/models/cpu/serving?dry_run=true").json(&json!({"version": version}))
    };
    assert_eq!(send(serve(2)).await.problem().field.as_deref(), Some("version"));
    assert!(!tried(serve(1)).await.changed);
    add(&served.coordinator, &model("cpu"), file(2));
    order(&served.coordinator, &model("cpu"), Order::Serve(Serving { version: 2, pinned: false, canary: None }));
    let back = tried(served.request(Method::POST, rollback)).await;
    assert_eq!((&back.before["version"], back.after), (&json!(2), json!({"version": 1, "pinned": true})));
    let end = tried(served.request(Method::DELETE, "/v1/models/cpu?dry_run=true")).await;
    assert_eq!((end.action.as_str(), end.after, end.etag), ("model.remove", Value::Null, None));
    served.ended().await.unwrap();
}

#[tokio::test]
async fn lists_of_models_come_by_page_and_prefix() {
    let served = Served::start(Options::default()).await;
    for name in ["team/cpu", "cpu", "team/io", "io", "team"] {
        add(&served.coordinator, &model(name), file(1));
    }
    let names = async |query: &str| {
        let page: Models = served.get(&format!("/v1/models{query}")).await.json();
        let names: Vec<String> = page.models.iter().map(|model| model.name.to_string()).collect();
        (names, page.next.map(|next| next.to_string()))
    };
    assert_eq!(names("").await.0, ["cpu", "io", "team", "team/cpu", "team/io"]);
    let (first, next) = names("?limit=2").await;
    assert_eq!((first, next.as_deref()), (vec!["cpu".to_owned(), "io".to_owned()], Some("io")));
    // The place stays good when the model that it names was removed.
    order(&served.coordinator, &model("io"), Order::Remove);
    assert_eq!(
        names("?limit=2&after=io").await,
        (vec!["team".to_owned(), "team/cpu".to_owned()], Some("team/cpu".to_owned()))
    );
    assert_eq!(names("?limit=2&after=team%2Fcpu").await, (vec!["team/io".to_owned()], None));
    assert_eq!(names("?prefix=team%2F").await.0, ["team/cpu", "team/io"]);
    assert_eq!(names("?prefix=team%2F&limit=1").await, (vec!["team/cpu".to_owned()], Some("team/cpu".to_owned())));
    for (query, field) in [("limit=0", "limit"), ("limit=1001", "limit"), ("after=A", "after"), ("name=cpu", "name")] {
        let problem = served.get(&format!("/v1/models?{query}")).await.problem();
        assert_eq!((problem.status, problem.field.as_deref()), (422, Some(field)), "{query}: {problem:?}");
    }
    served.ended().await.unwrap();
}

#[tokio::test]
async fn answers_have_a_number_that_changes_with_what_is_served_and_with_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = on_disk(dir.path()).unwrap();
    let agent = member(&coordinator, "a").await;
    let mut sequence = 0;
    let mut told = |coordinator: &Coordinator| {
        sequence += 1;
        coordinator.heartbeat(agent.agent, &beat(agent.epoch, sequence, 50)).unwrap().models
    };
    assert_eq!(told(&coordinator), None);
    let cpu = model("cpu");
    add(&coordinator, &cpu, file(1));
    let first = told(&coordinator);
    assert!(first.is_some());
    add(&coordinator, &cpu, file(2));
    assert_eq!(told(&coordinator), first, "nobody gets the second one yet");
    let serving = |version, canary| Serving { version, pinned: false, canary };
    let mut seen = vec![first];
    for changed in [serving(2, None), serving(1, Some(Canary { version: 2, share: 0.5 }))] {
        order(&coordinator, &cpu, Order::Serve(changed));
        let now = told(&coordinator);
        assert!(now.is_some() && !seen.contains(&now), "{now:?} after {seen:?}");
        seen.push(now);
    }
    drop(coordinator);
    let coordinator = on_disk(dir.path()).unwrap();
    assert_eq!(told(&coordinator), seen[2], "the same after a restart");
    order(&coordinator, &cpu, Order::Serve(serving(1, None)));
    assert_eq!(told(&coordinator), first, "it follows from what is served alone");
    // A model of the same name and number with another file is another one.
    order(&coordinator, &cpu, Order::Remove);
    assert_eq!(told(&coordinator), None);
    add(&coordinator, &cpu, file(3));
    assert_ne!(told(&coordinator), first);
}
