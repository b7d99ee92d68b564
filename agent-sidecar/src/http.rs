//! The coordinator by HTTP.

use std::time::Duration;

use meanfield_common::{
    identity::{AgentId, ModelName, PoolName},
    invalid::Invalid,
    secret::Secret,
    trace::{self, Context},
    trajectory::{Append, Appended},
    wire::{Answer, Heartbeat, Leave, Problem, Register, Registered},
};
use meanfield_learner::forecast::MOST_BYTES;
use reqwest::{
    Certificate, Client, ClientBuilder, Identity, Request, RequestBuilder, StatusCode, Url,
    header::{CONTENT_TYPE, IF_NONE_MATCH},
};
use serde::{Serialize, de::DeserializeOwned};

use tracing::{Instrument, Span, debug_span, field::Empty};

use crate::link::{Ask, Error, File, Link, kind};

/// How long the coordinator may take; a step must not wait for it.
const PATIENCE: Duration = Duration::from_secs(2);

/// The largest base model that is downloaded.
const MOST_MODEL_BYTES: usize = 4 << 20;

/// Whom to believe where a coordinator speaks https, and what to show it in turn.
#[derive(Clone, Default)]
pub struct Trust {
    /// The authorities that may have signed its certificate, as PEM; without them, those of the system.
    pub authorities: Option<Vec<u8>>,
    /// A certificate of one's own and its key, as PEM, for a coordinator that asks for one.
    pub identity: Option<Vec<u8>>,
}

/// A coordinator at a URL. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Http {
    client: Client,
    base: String,
    token: Secret,
    /// What requests belong to.
    step: Option<Context>,
}

impl Http {
    /// The coordinator at `url`, spoken to with a bearer token. Nothing is sent yet.
    pub fn new(url: &str, token: impl Into<Secret>) -> Result<Self, crate::Error> {
        Self::trusting(url, token, &Trust::default())
    }

    /// The same, with whom to believe.
    pub fn trusting(url: &str, token: impl Into<Secret>, trust: &Trust) -> Result<Self, crate::Error> {
        // Without this a mistyped address would look like a coordinator that is away, for ever.
        let parsed = Url::parse(url).ok().filter(|url| ["http", "https"].contains(&url.scheme()) && url.has_host());
        let Some(parsed) = parsed else {
            return Err(Invalid::new("coordinator", url, "a URL such as http://127.0.0.1:7600 or https://...").into());
        };
        let client = client(parsed.scheme() == "https", trust)?;
        Ok(Self { client, base: url.trim_end_matches('/').to_owned(), token: token.into(), step: None })
    }

    async fn post(&self, path: &str, body: &impl Serialize) -> Result<reqwest::Response, Error> {
        self.send(self.client.post(format!("{}{path}", self.base)).json(body)).await
    }

    async fn send(&self, request: RequestBuilder) -> Result<reqwest::Response, Error> {
        let (client, request) = request.bearer_auth(self.token.expose()).build_split();
        let mut request = request.map_err(|error| unreachable(&error))?;
        let Some(step) = self.step else { return exchange(&client, request).await };
        let own = step.child(random());
        if let Ok(header) = own.to_string().try_into() {
            request.headers_mut().insert(trace::HEADER, header);
        }
        let span = debug_span!(
            "call",
            trace_id = %own.trace,
            span_id = %own.span,
            parent_id = %step.span,
            sampled = own.sampled,
            method = %request.method(),
            route = route(request.url().path()),
            status = Empty
        );
        exchange(&client, request).instrument(span).await
    }
}

/// A path as traces call it: the same for all agents.
fn route(path: &str) -> String {
    let parts = path.split('/').map(|part| if part.parse::<AgentId>().is_ok() { "{id}" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

/// Random bytes for an id. Without randomness ids are alike, which harms nothing but traces.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let _ = getrandom::fill(&mut bytes);
    bytes
}

async fn exchange(client: &Client, request: Request) -> Result<reqwest::Response, Error> {
    let response = client.execute(request).await.map_err(|error| unreachable(&error))?;
    Span::current().record("status", response.status().as_u16());
    let status = response.status();
    // What was asked for on condition may be there already.
    if status.is_success() || status == StatusCode::NOT_MODIFIED {
        return Ok(response);
    }
    let Ok(problem) = response.json::<Problem>().await else {
        return Err(Error::Unreachable(format!("answered {status} without a problem")));
    };
    Err(match (status, kind(&problem)) {
        (StatusCode::NOT_FOUND, "unknown-agent") => Error::Unknown,
        (StatusCode::CONFLICT, "stale-epoch") => Error::Superseded,
        // Others use the same token too often: that passes, so it is no reason to give up.
        (StatusCode::TOO_MANY_REQUESTS, _) => Error::Unreachable(problem.detail),
        _ if status.is_server_error() => Error::Unreachable(problem.detail),
        _ => Error::Refused(Box::new(problem)),
    })
}

/// A client for coordinators, by https if `secure`, that believes whom it is told to.
pub fn client(secure: bool, trust: &Trust) -> Result<Client, crate::Error> {
    let built = builder(secure, trust)?.timeout(PATIENCE).build();
    Ok(built.map_err(|error| unreachable(&error))?)
}

/// The same, for those who have another patience.
pub fn builder(secure: bool, trust: &Trust) -> Result<ClientBuilder, Invalid> {
    // Refused only if there is one already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // System proxies are for the outside; a coordinator stands next door.
    let mut builder = Client::builder().no_proxy().tcp_nodelay(true);
    let refused = |field, bound: &str, error: &reqwest::Error| Invalid::new(field, error, bound);
    if let Some(pem) = &trust.authorities {
        let bound = "PEM with at least one certificate";
        let authorities = Certificate::from_pem_bundle(pem).map_err(|error| refused("ca-file", bound, &error))?;
        if authorities.is_empty() {
            return Err(Invalid::new("ca-file", "a file without certificates", bound));
        }
        builder = builder.tls_certs_only(authorities);
    } else if !secure {
        // Nobody is believed, so that the system's list, which may be absent, is not looked for.
        builder = builder.tls_certs_only([]);
    }
    if let Some(pem) = &trust.identity {
        // The error is not repeated: it might show a part of the key.
        let bound = "PEM with a certificate and its private key";
        let identity = Identity::from_pem(pem).map_err(|_| Invalid::new("client-cert", "that", bound))?;
        builder = builder.identity(identity);
    }
    Ok(builder)
}

async fn read<T: DeserializeOwned>(response: reqwest::Response) -> Result<T, Error> {
    response.json().await.map_err(|error| unreachable(&error))
}

async fn download(mut response: reqwest::Response, most: usize) -> Result<Vec<u8>, Error> {
    let mut file = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|error| unreachable(&error))? {
        file.extend_from_slice(&part);
        // Whatever it is, it is not worth this agent's memory.
        if file.len() > most {
            return Err(Error::Unreachable(format!("the file has more than {most} bytes")));
        }
    }
    Ok(file)
}

fn unreachable(error: &reqwest::Error) -> Error {
    // The chain of causes says "connection refused" where the top only says "error sending request".
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    Error::Unreachable(text)
}

impl Link for Http {
    fn follow(&mut self, step: Option<Context>) {
        self.step = step;
    }

    async fn register(&mut self, register: &Register) -> Result<Registered, Error> {
        read(self.post("/v1/agents", register).await?).await
    }

    async fn heartbeat(&mut self, agent: AgentId, heartbeat: &Heartbeat) -> Result<Answer, Error> {
        read(self.post(&format!("/v1/agents/{agent}/heartbeat"), heartbeat).await?).await
    }

    async fn leave(&mut self, agent: AgentId, leave: &Leave) -> Result<(), Error> {
        self.post(&format!("/v1/agents/{agent}/leave"), leave).await.map(drop)
    }

    async fn forecast(&mut self, pool: &PoolName) -> Result<Vec<u8>, Error> {
        let pool = pool.as_str().replace('/', "%2F");
        let request = self.client.get(format!("{}/v1/pools/{pool}/forecast", self.base));
        download(self.send(request).await?, MOST_BYTES).await
    }

    async fn base_model(&mut self, ask: &Ask<'_>) -> Result<Option<File>, Error> {
        let names = [ask.model.as_str(), ask.pool.as_str(), ask.name.as_str()];
        let [model, pool, name] = names.map(|name| name.replace('/', "%2F"));
        let mut url = format!("{}/v1/models/{model}/file?agent={pool}%2F{name}", self.base);
        if let Some(version) = ask.version {
            url = format!("{url}&version={version}");
        }
        let mut request = self.client.get(url);
        if let Some(had) = ask.had {
            request = request.header(IF_NONE_MATCH, format!("\"{had}\""));
        }
        let response = self.send(request).await?;
        if response.status() == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        let version = response.headers().get("meanfield-version");
        let version = version.and_then(|version| version.to_str().ok()?.parse().ok());
        Ok(Some(File { version, bytes: download(response, MOST_MODEL_BYTES).await? }))
    }

    async fn append(&mut self, agent: AgentId, append: &Append) -> Result<Appended, Error> {
        read(self.post(&format!("/v1/agents/{agent}/trajectories"), append).await?).await
    }

    async fn contribute(
        &mut self,
        model: &ModelName,
        agent: AgentId,
        checkpoint: &[u8],
        reward: f64,
    ) -> Result<(), Error> {
        let model = model.as_str().replace('/', "%2F");
        let path = format!("{}/v1/models/{model}/contributions/{agent}?reward={reward}", self.base);
        let request = self.client.put(path).header(CONTENT_TYPE, "application/octet-stream");
        self.send(request.body(checkpoint.to_vec())).await.map(drop)
    }
}
