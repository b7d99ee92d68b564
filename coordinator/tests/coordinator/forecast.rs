//! A pool's forecast network: given, downloaded, taken back, refused; and what of it survives.

use meanfield_common::{digest::Digest, wire::Answer};
use meanfield_coordinator::{Coordinator, Error, Options};
use meanfield_learner::forecast::{MOST_BYTES, Network};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json, to_value};

use crate::{durability::image, support::*};

const PATH: &str = "/v1/pools/default/forecast";

pub(crate) fn network(seed: u64) -> Vec<u8> {
    from(seed, format!("seed {seed}"))
}

fn from(seed: u64, provenance: String) -> Vec<u8> {
    let mut network = Network::new(seed);
    network.provenance = provenance;
    network.save().unwrap()
}

/// The same network in a file of this size: a header may end with blanks.
fn padded(file: &[u8], size: usize) -> Vec<u8> {
    let (length, rest) = file.split_first_chunk::<8>().unwrap();
    let (length, blanks) = (u64::from_le_bytes(*length) as usize, size - file.len());
    let (header, tensors) = rest.split_at(length);
    [&((length + blanks) as u64).to_le_bytes(), header, &vec![b' '; blanks], tensors].concat()
}

fn put(served: &Served, body: Vec<u8>) -> RequestBuilder {
    served.request(Method::PUT, PATH).header("content-type", "application/octet-stream").body(body)
}

fn shown(coordinator: &Coordinator) -> Option<(Digest, String)> {
    let view = coordinator.pool(&pool("default")).unwrap().forecast;
    view.map(|view| (view.digest, view.provenance))
}

#[tokio::test]
async fn what_was_put_is_shown_and_downloaded_until_it_is_deleted() {
    let served = Served::start(Options::default()).await;
    let file = network(1);
    let tag = format!("\"{}\"", Digest::of(&file));
    assert_eq!(send(put(&served, file.clone())).await.status, 204);
    let view: Value = served.get("/v1/pools/default").await.json();
    let digest = Digest::of(&file).to_string();
    assert_eq!(view["forecast"], json!({"digest": digest, "bytes": file.len(), "provenance": "seed 1"}));

    let response = served.request(Method::GET, PATH).send().await.unwrap();
    assert_eq!(response.headers()["etag"].to_str().unwrap(), tag);
    assert_eq!(response.headers()["content-type"], "application/octet-stream");
    assert_eq!(response.bytes().await.unwrap(), file);

    for had in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
        let reply = send(served.request(Method::GET, PATH).header("if-none-match", &had)).await;
        assert_eq!((reply.status.as_u16(), reply.body.as_str()), (304, ""), "{had}");
        assert_eq!(reply.headers["etag"].to_str().unwrap(), tag);
    }
    let other = send(served.request(Method::GET, PATH).header("if-none-match", "\"other\"")).await;
    assert_eq!(other.status, 200);

    // Another takes its place, and none goes back to what the agents ship with.
    assert_eq!(send(put(&served, network(2))).await.status, 204);
    let other = send(served.request(Method::GET, PATH).header("if-none-match", &tag)).await;
    assert_eq!(other.status, 200);
    for _ in 0..2 {
        assert_eq!(send(served.request(Method::DELETE, PATH)).await.status, 204);
        let problem = served.get(PATH).await.problem();
        assert_eq!((problem.status, problem.kind.as_str()), (404, "/problems/no-forecast"));
        assert_eq!(served.get("/v1/pools/default").await.json::<Value>()["forecast"], Value::Null);
    }
    served.ended().await.unwrap();
}

#[tokio::test]
async fn every_answer_names_the_pools_own_network() {
    let options = Options { pools: vec![pool("default"), pool("other")], ..Options::default() };
    let served = Served::start(options).await;
    let agent = member(&served.coordinator, "a").await;
    let path = format!("/v1/agents/{}/heartbeat", agent.agent);
    let told = async |sequence: u64| served.post(&path, &to_value(beat(agent.epoch, sequence, 50)).unwrap()).await;
    served.coordinator.set_forecast(&pool("other"), network(2)).await.unwrap();
    assert!(!told(1).await.body.contains("forecast"), "an older agent sees what it always saw");
    served.coordinator.set_forecast(&pool("default"), network(1)).await.unwrap();
    assert_eq!(told(2).await.json::<Answer>().forecast, Some(Digest::of(&network(1))));
    served.coordinator.clear_forecast(&pool("default")).await.unwrap();
    assert_eq!(told(3).await.json::<Answer>().forecast, None);
    served.ended().await.unwrap();
}

/// The file with one number of its header changed, the length being the same.
fn with_features(file: &[u8], features: &str) -> Vec<u8> {
    let at = String::from_utf8_lossy(file).find("\\\"features\\\":28").unwrap() + 13;
    [&file[..at], features.as_bytes(), &file[at + 2..]].concat()
}

#[tokio::test]
async fn what_is_no_network_is_refused_and_the_one_before_stays() {
    let served = Served::start(Options::default()).await;
    let good = network(1);
    assert_eq!(send(put(&served, good.clone())).await.status, 204);
    let before = shown(&served.coordinator).unwrap();
    let not_a_number = [&good[..good.len() - 4], &f32::NAN.to_le_bytes()].concat();
    let octets = |body: Vec<u8>| put(&served, body);
    let chunks = futures_util::stream::iter([Ok::<_, std::io::Error>(vec![0; MOST_BYTES + 1])]);
    let chunked = served.request(Method::PUT, PATH).header("content-type", "application/octet-stream");
    let cases = [
        (octets(Vec::new()), 422, "invalid-value", "forecast", "a network that `meanfield train --forecast` wrote"),
        (octets(good[..500].to_vec()), 422, "invalid-value", "forecast", "a network that"),
        (octets(with_features(&good, "27")), 422, "invalid-value", "forecast.shape", "28 features"),
        (octets(from(1, "x".repeat(1001))), 422, "invalid-value", "forecast.provenance", "at most 1000 characters"),
        (octets(not_a_number), 422, "invalid-value", "forecast.parameters", "a finite number"),
        (octets(vec![0; MOST_BYTES + 1]), 413, "body-too-large", "body", "at most 1048576 bytes"),
        (chunked.body(reqwest::Body::wrap_stream(chunks)), 413, "body-too-large", "body", "at most 1048576 bytes"),
        (
            served.request(Method::PUT, PATH).header("content-type", "application/json").body("{}"),
            415,
            "unsupported-media-type",
            "content-type",
            "application/octet-stream",
        ),
        (
            served
                .request(Method::PUT, "/v1/pools/none/forecast")
                .header("content-type", "application/octet-stream")
                .body(good.clone()),
            404,
            "unknown-pool",
            "pool",
            "one of default",
        ),
        (served.request(Method::GET, "/v1/pools/none/forecast"), 404, "unknown-pool", "pool", "one of default"),
        (served.request(Method::DELETE, "/v1/pools/none/forecast"), 404, "unknown-pool", "pool", "one of default"),
    ];
    for (request, status, kind, field, bound) in cases {
        let problem = send(request).await.problem();
        assert_eq!((problem.status, problem.kind.as_str()), (status, &*format!("/problems/{kind}")), "{problem:?}");
        assert_eq!(problem.field.as_deref(), Some(field), "{problem:?}");
        assert!(problem.bound.as_deref().is_some_and(|given| given.contains(bound)), "{problem:?}");
        assert_eq!(shown(&served.coordinator).as_ref(), Some(&before), "nothing has changed");
    }
    let detail = send(put(&served, with_features(&good, "27"))).await.problem().detail;
    assert!(detail.contains("27 features"), "{detail}");
    let detail = send(put(&served, vec![0; MOST_BYTES + 1])).await.problem().detail;
    assert!(detail.contains("1048577 bytes"), "{detail}");
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        assert_eq!(send(served.bare(method, PATH)).await.status, 401);
    }
    served.ended().await.unwrap();
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = on_disk(dir.path()).unwrap();
    coordinator.set_forecast(&pool("default"), network(1)).await.unwrap();
    // No orderly end: the copy is taken while the coordinator runs.
    let crashed = image(dir.path());
    let recovered = on_disk(crashed.path()).unwrap();
    assert_eq!(recovered.forecast(&pool("default")).unwrap().bytes(), network(1));
    assert_eq!(shown(&recovered), Some((Digest::of(&network(1)), "seed 1".to_owned())));

    let largest = padded(&network(2), MOST_BYTES);
    coordinator.set_forecast(&pool("default"), largest.clone()).await.unwrap();
    let crashed = image(dir.path());
    let recovered = on_disk(crashed.path()).unwrap();
    assert!(recovered.forecast(&pool("default")).unwrap().bytes() == largest);

    coordinator.clear_forecast(&pool("default")).await.unwrap();
    let crashed = image(dir.path());
    let recovered = on_disk(crashed.path()).unwrap();
    assert!(matches!(recovered.forecast(&pool("default")), Err(Error::NoForecast(_))));
}
