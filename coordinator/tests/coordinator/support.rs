//! Messages and members for tests, and a coordinator behind a real socket.

use std::future::Future;

use meanfield_common::{
    action::{Action, Step},
    identity::{AgentName, Category, Epoch, PoolName, Sequence},
    mean_field::{Aspects, Contribution},
    reward::Reward,
    state::{LocalState, Unit},
    wire::{Heartbeat, Problem, Register, Registered},
};
use meanfield_coordinator::{Clock, Coordinator, Error, Options, http::tokens::Issued, serve};
use reqwest::{Method, StatusCode};
use serde_json::Value;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

pub(crate) fn pool(name: &str) -> PoolName {
    name.parse().unwrap()
}

pub(crate) fn name(name: &str) -> AgentName {
    name.parse().unwrap()
}

pub(crate) fn register(agent: &str) -> Register {
    Register { name: name(agent), pool: pool("default"), category: Category::Cpu, wants: Aspects::NONE }
}

/// A heartbeat whose numbers all follow from `level`, 0 to 100.
pub(crate) fn beat(epoch: Epoch, sequence: u64, level: u8) -> Heartbeat {
    let unit = |factor: f64| Unit::clamped(f64::from(level) / 100.0 * factor);
    Heartbeat {
        epoch,
        sequence: Sequence(sequence),
        round: None,
        state: LocalState {
            slo_preservation: unit(1.0),
            cpu_utilisation: unit(0.9),
            memory_utilisation: unit(0.7),
            arrival_change: unit(-0.5),
            cpu_limit: unit(0.8),
            memory_limit: unit(0.3),
            replicas: unit(0.2),
        },
        action: Action { cpu: Step::Up, memory: Step::Stay, replicas: Step::between(&50, &level) },
        reward: Reward::try_from(f64::from(level) - 30.0).unwrap(),
        claim: None,
        detail: false,
        moving: None,
    }
}

pub(crate) fn in_round(round: u64, beat: Heartbeat) -> Heartbeat {
    Heartbeat { round: Some(round), ..beat }
}

pub(crate) fn contribution(beat: &Heartbeat) -> Contribution {
    Contribution::new(&beat.state, &beat.action, beat.reward)
}

pub(crate) fn in_memory() -> Coordinator {
    Coordinator::open(Options::default(), Clock::manual()).unwrap()
}

pub(crate) fn on_disk(directory: &std::path::Path) -> Result<Coordinator, Error> {
    let options = Options { data_dir: Some(directory.to_owned()), ..Options::default() };
    Coordinator::open(options, Clock::manual())
}

pub(crate) async fn member(coordinator: &Coordinator, agent: &str) -> Registered {
    coordinator.register(register(agent)).await.unwrap()
}

/// Runs without a runtime around it, as an embedding program may.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A coordinator that serves on a free port.
pub(crate) struct Served {
    pub(crate) coordinator: Coordinator,
    pub(crate) address: std::net::SocketAddr,
    client: reqwest::Client,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<Result<(), Error>>,
}

/// A client for plain HTTP.
pub(crate) fn client() -> reqwest::Client {
    // Refused only if there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap()
}

/// A response with its body.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self) -> T {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The problem, checked to be one.
    pub(crate) fn problem(&self) -> Problem {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        let problem: Problem = self.json();
        assert_eq!(problem.status, self.status.as_u16());
        problem
    }
}

impl Served {
    pub(crate) async fn start(options: Options) -> Self {
        Self::start_at(options, Clock::manual()).await
    }

    /// Starts with a clock that the test moves.
    pub(crate) async fn start_at(options: Options, clock: Clock) -> Self {
        let coordinator = Coordinator::open(options, clock).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(serve(coordinator.clone(), listener, async {
            let _ = stopped.await;
        }));
        Self { coordinator, address, client: client(), stop: Some(stop), serving }
    }

    /// A request with the token.
    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.bare(method, path).bearer_auth(self.coordinator.token())
    }

    /// A request with some other token.
    pub(crate) fn with(&self, token: &str, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.bare(method, path).bearer_auth(token)
    }

    /// Makes a token.
    pub(crate) async fn token(&self, new: Value) -> Issued {
        let reply = self.post("/v1/tokens", &new).await;
        assert_eq!(reply.status, StatusCode::CREATED, "{reply:?}");
        reply.json()
    }

    /// A request without the token.
    pub(crate) fn bare(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.address))
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        send(self.request(Method::GET, path)).await
    }

    /// The entity tag of what is at a path.
    pub(crate) async fn get_tag(&self, path: &str) -> String {
        let response = self.request(Method::GET, path).send().await.unwrap();
        response.headers()["etag"].to_str().unwrap().to_owned()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        send(self.request(Method::POST, path).json(body)).await
    }

    /// The status of an answer to somebody without a token, if there is any answer.
    pub(crate) async fn try_get(&self, path: &str) -> Option<StatusCode> {
        self.bare(Method::GET, path).send().await.ok().map(|response| response.status())
    }

    /// A metric's value, by its line up to the blank.
    pub(crate) async fn metric(&self, line: &str) -> f64 {
        let text = send(self.bare(Method::GET, "/metrics")).await.body;
        let value = text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {line} in\n{text}")).parse().unwrap()
    }

    pub(crate) fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Waits for the server's end.
    pub(crate) async fn ended(mut self) -> Result<(), Error> {
        self.stop();
        self.serving.await.unwrap()
    }
}

pub(crate) async fn send(request: reqwest::RequestBuilder) -> Reply {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    Reply { status, headers, body: response.text().await.unwrap() }
}
