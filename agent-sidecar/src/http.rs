//! The coordinator by HTTP.

use std::time::Duration;

use meanfield_common::{
    identity::{AgentId, AgentName, ModelName, PoolName},
    invalid::Invalid,
    secret::Secret,
    wire::{Answer, Heartbeat, Leave, Problem, Register, Registered},
};
use meanfield_learner::forecast::MOST_BYTES;
use reqwest::{Certificate, Client, ClientBuilder, Identity, RequestBuilder, StatusCode, Url, header::CONTENT_TYPE};
use serde::{Serialize, de::DeserializeOwned};

use crate::link::{Error, Link, kind};

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
        Ok(Self { client, base: url.trim_end_matches('/').to_owned(), token: token.into() })
    }

    async fn post(&self, path: &str, body: &impl Serialize) -> Result<reqwest::Response, Error> {
        self.send(self.client.post(format!("{}{path}", self.base)).json(body)).await
    }

    async fn send(&self, request: RequestBuilder) -> Result<reqwest::Response, Error> {
        let response = request.bearer_auth(self.token.expose()).send().await.map_err(|error| unreachable(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
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

    async fn base_model(&mut self, model: &ModelName, pool: &PoolName, name: &AgentName) -> Result<Vec<u8>, Error> {
        let [model, pool, name] = [model.as_str(), pool.as_str(), name.as_str()].map(|name| name.replace('/', "%2F"));
        let request = self.client.get(format!("{}/v1/models/{model}/file?agent={pool}%2F{name}", self.base));
        download(self.send(request).await?, MOST_MODEL_BYTES).await
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
