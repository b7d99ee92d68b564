//! The forecast network that a pool shares: taken over without forgetting the workload, and never at the price of a step.

use std::sync::Arc;

use meanfield_agent::{
    agent::Agent,
    http::Http,
    link::{self, Link},
    policy::{
        forecast::{Care, Forecast, Shared, shipped},
        outlook::Foresee,
    },
    sharing::{RETRY_AFTER, Sharing},
};
use meanfield_common::{digest::Digest, reward::Shape};
use meanfield_learner::forecast::Network;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::support::*;

const STEP: f64 = 15.0;

fn network(seed: u64) -> Arc<Network> {
    Arc::new(Network::new(seed))
}

/// A load that the shipped network foresees better than the recent peak does.
fn rate(step: usize) -> f64 {
    20.0 + 10.0 * (step as f64 / 40.0).sin()
}

/// All that the policy's network could be told by.
fn foreseen(forecast: &mut Forecast, steps: std::ops::Range<usize>) -> Vec<f64> {
    steps.flat_map(|step| forecast.outlook(rate(step), STEP).next.0).collect()
}

#[test]
fn another_network_takes_over_with_all_that_was_learnt_about_the_workload() {
    let care = Care { tune: false, gate: false, ..Care::default() };
    let shared = Shared::new(shipped().unwrap());
    let mut following = Forecast::following(shared.clone(), care);
    let mut stays = Forecast::new(shipped().unwrap(), care);
    assert_eq!(foreseen(&mut following, 0..300), foreseen(&mut stays, 0..300));
    let losses = following.losses();
    assert!(losses.iter().all(|loss| *loss > 0.0));

    shared.replace(network(5));
    assert_eq!(following.losses(), losses);
    let (after, unchanged) = (foreseen(&mut following, 300..301), foreseen(&mut stays, 300..301));
    assert_ne!(after, unchanged, "it is another network");
    assert_eq!(following.losses(), stays.losses(), "what came was foreseen by the one before");
    let mut fresh = Forecast::new(network(5), care);
    assert_ne!(after, foreseen(&mut fresh, 300..301), "history and corrections are still there");

    // With the first one back it is as if nothing had been, but for what the other one foresaw.
    shared.replace(shipped().unwrap());
    let (back, unchanged) = (foreseen(&mut following, 301..302), foreseen(&mut stays, 301..302));
    assert_eq!(back, unchanged);
}

#[test]
fn what_was_tuned_goes_with_the_network_that_it_came_from() {
    let shared = Shared::new(network(5));
    let mut forecast = Forecast::following(shared.clone(), Care::default());
    foreseen(&mut forecast, 0..1000);
    assert!(forecast.tuned(), "anything is better than a network that has learnt nothing");
    shared.replace(shipped().unwrap());
    foreseen(&mut forecast, 1000..1001);
    assert!(!forecast.tuned());
    forecast.reset();
    shared.replace(network(6));
    let mut fresh = Forecast::new(network(6), Care::default());
    assert_eq!(foreseen(&mut forecast, 0..20), foreseen(&mut fresh, 0..20), "it still follows after a reset");
}

struct Running {
    coordinator: Coordinator,
    agent: Agent<Scripted, Coordinator, Wishes>,
    shared: Shared,
}

impl Running {
    fn new() -> Self {
        let coordinator = Coordinator::default();
        let environment = Scripted::new(&Log::default(), |_| preserving(0.9));
        let (policy, sharing) = (Wishes::hold(), Sharing::new(shipped().unwrap()));
        let shared = sharing.shared();
        let mut agent = Agent::new(target(), environment, coordinator.clone(), pool(), policy, Shape::BALANCED);
        agent.share(sharing);
        Self { coordinator, agent, shared }
    }

    fn steps(&mut self, count: usize) {
        for _ in 0..count {
            now(self.agent.step(None)).unwrap();
        }
    }

    fn uses(&self, network: &Network) -> bool {
        *self.shared.get() == *network
    }
}

#[test]
fn the_pools_network_is_downloaded_once_and_given_up_when_it_is_withdrawn() {
    let mut running = Running::new();
    running.steps(3);
    assert!(running.uses(&shipped().unwrap()) && running.coordinator.downloads() == 0);
    for seed in [5, 6] {
        let file = network(seed).save().unwrap();
        running.coordinator.shares(Some((Digest::of(&file), Ok(file))));
        running.steps(5);
        assert!(running.uses(&network(seed)));
    }
    assert_eq!(running.coordinator.downloads(), 2);

    running.coordinator.fails_with(Some(unreachable()));
    running.steps(5);
    assert!(running.uses(&network(6)), "a coordinator that is away has not withdrawn it");
    running.coordinator.fails_with(None);
    running.coordinator.shares(None);
    running.steps(1);
    assert!(running.uses(&shipped().unwrap()));
    assert_eq!(running.coordinator.downloads(), 2);
}

#[test]
fn what_cannot_be_used_changes_nothing_and_is_tried_again_later() {
    let mut running = Running::new();
    let good = network(5).save().unwrap();
    running.coordinator.shares(Some((Digest::of(&good), Ok(good.clone()))));
    running.steps(1);
    let broken = good[..good.len() - 1].to_vec();
    let cases = [
        (Digest::of(&broken), Ok(broken)),
        (Digest::of(b"another file"), Ok(network(6).save().unwrap())),
        (Digest::of(b"unreachable"), Err(unreachable())),
        (Digest::of(b"refused"), Err(refused("there is none"))),
        (Digest::of(b"unknown"), Err(link::Error::Unknown)),
        (Digest::of(b"superseded"), Err(link::Error::Superseded)),
    ];
    for (digest, file) in cases {
        let before = running.coordinator.downloads();
        running.coordinator.shares(Some((digest, file)));
        // Steps go on, and do not ask each time.
        running.steps(RETRY_AFTER);
        assert_eq!(running.coordinator.downloads(), before + 1, "{digest}");
        running.steps(1);
        assert_eq!(running.coordinator.downloads(), before + 2, "{digest}");
        assert!(running.uses(&network(5)));
    }
    // Mended, the same file is taken at the next attempt; another one at once.
    let better = network(7).save().unwrap();
    running.coordinator.shares(Some((Digest::of(&better), Err(unreachable()))));
    running.steps(1);
    running.coordinator.shares(Some((Digest::of(&better), Ok(better.clone()))));
    running.steps(RETRY_AFTER - 1);
    assert!(running.uses(&network(5)));
    running.steps(1);
    assert!(running.uses(&network(7)));
}

/// Answers one request like this; joined, it says what it was sent.
async fn server(status: &'static str, body: Vec<u8>) -> (Http, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "the request was cut off");
        }
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        // Whoever has had enough hangs up.
        let _ = stream.write_all(&body).await;
        String::from_utf8(request).unwrap()
    });
    (Http::new(&url, "secret".to_owned()).unwrap(), serving)
}

#[tokio::test]
async fn by_http_it_comes_from_the_pools_address_with_the_token_and_has_a_bound() {
    let file = network(5).save().unwrap();
    let (mut http, serving) = server("200 OK", file.clone()).await;
    assert_eq!(http.forecast(&"team/shop".parse().unwrap()).await, Ok(file));
    let request = serving.await.unwrap();
    assert!(request.starts_with("GET /v1/pools/team%2Fshop/forecast HTTP/1.1\r\n"), "{request}");
    assert!(request.to_lowercase().contains("authorization: bearer secret\r\n"), "{request}");

    let (mut http, _serving) = server("200 OK", vec![0; 3 << 20]).await;
    let Err(link::Error::Unreachable(said)) = http.forecast(&pool()).await else { panic!("it was taken") };
    assert!(said.contains("more than 1048576 bytes"), "{said}");
    let problem = r#"{"type":"/problems/no-forecast","title":"t","status":404,"detail":"there is none"}"#;
    let (mut http, _serving) = server("404 Not Found", problem.into()).await;
    assert!(matches!(http.forecast(&pool()).await, Err(link::Error::Refused(_))));
}
