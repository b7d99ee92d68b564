//! Agents start from the coordinator's base model, and what they learn comes back to it.

use meanfield_learner::{ActorCritic, Config};
use reqwest::Method;
use serde_json::Value;
use tempfile::tempdir;

use crate::support::{Coordinator, eventually};

const PATIENT: [&str; 6] = ["--suspect-after", "5s", "--gone-after", "10m", "--average-every", "1s"];

#[test]
fn agents_start_from_the_base_model_and_it_follows_what_they_learn() {
    let (data, kept) = (tempdir().unwrap(), tempdir().unwrap());
    let coordinator = Coordinator::start(data.path(), &PATIENT);
    let file = ActorCritic::new(Config::preset_default(), 3).unwrap().save().unwrap();
    coordinator.upload(Method::POST, "/v1/models/cpu", file.clone());
    coordinator.upload(Method::POST, "/v1/models/mine", file);

    let serving = coordinator.agent(&["--function", "primes", "--policy", "ppo"]);
    serving.logs("starting from the base model");
    let mut lost = coordinator.agent(&["--function", "uploader", "--policy", "ppo", "--base-model", "nothing"]);
    assert!(!lost.wait().success(), "there is nothing to start from");
    lost.logs("no base model");

    let learners: Vec<_> = ["base64", "markdown2html", "html-gen"]
        .map(|function| {
            let path = kept.path().join(format!("{function}.safetensors"));
            let model = path.to_str().unwrap().to_owned();
            let flags =
                ["--function", function, "--policy", "ppo", "--learn", "--base-model", "mine", "--model", &model];
            coordinator.agent_every("1ms", &flags)
        })
        .into_iter()
        .collect();
    for learner in &learners {
        learner.logs("handed in what was learnt");
    }
    let view = eventually("an average of three agents", || {
        let view: Value = coordinator.get("/v1/models/mine");
        (view["serving"]["version"].as_u64()? > 1).then_some(view)
    });
    let provenance = &view["versions"][1]["provenance"];
    assert_eq!((&provenance["source"], &provenance["parent"]), (&Value::from("average"), &Value::from(1)));
    assert_eq!(provenance["agents"].as_array().unwrap().len(), 3);
    assert_eq!(coordinator.get::<Value>("/v1/models/cpu")["serving"]["version"], 1, "nobody learnt for that one");
}

#[test]
fn an_agent_that_goes_on_with_its_file_teaches_the_model_that_it_would_start_from() {
    let (data, kept) = (tempdir().unwrap(), tempdir().unwrap());
    let coordinator = Coordinator::start(data.path(), &PATIENT);
    let file = ActorCritic::new(Config::preset_default(), 3).unwrap().save().unwrap();
    coordinator.upload(Method::POST, "/v1/models/cpu", file.clone());
    let path = kept.path().join("primes.safetensors");
    // As after a restart: nothing in it says from which model it came.
    std::fs::write(&path, file).unwrap();
    let model = path.to_str().unwrap();
    let flags = ["--function", "primes", "--policy", "ppo", "--learn", "--class", "checkout", "--model", model];
    let learner = coordinator.agent_every("1ms", &flags);
    learner.logs("handed in what was learnt");
    assert!(!learner.log().contains("cannot hand in"));
}
