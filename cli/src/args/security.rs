//! Settings of TLS and of limits, on both sides of the wire.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::Context;
use clap::{Args, ValueEnum, builder::BoolishValueParser};
use meanfield_agent::http::Trust;
use meanfield_common::invalid::Invalid;
use meanfield_coordinator::{
    options::{Limits, Rates},
    tls::{Clients, Files},
};

use super::duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClientCerts {
    /// Who shows no certificate is not let in.
    Required,
    /// Who shows none is let in; a bad one is refused.
    Optional,
}

#[derive(Debug, Args)]
pub struct ServingArgs {
    /// Certificate to serve https with (PEM), those of authorities in between behind it. Looked at every second: a new
    /// one is taken without a restart.
    #[arg(long, env = "MEANFIELD_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM).
    #[arg(long, env = "MEANFIELD_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Authorities of clients' certificates (PEM): clients have to show one, beside their token.
    #[arg(long, env = "MEANFIELD_CLIENT_CA", value_name = "FILE")]
    pub client_ca: Option<PathBuf>,
    /// What clients have to show where --client-ca is given.
    #[arg(long, env = "MEANFIELD_CLIENT_CERTS", value_enum, default_value_t = ClientCerts::Required)]
    pub client_certs: ClientCerts,
    /// Listen beyond the loopback device without TLS: tokens then cross the network readable for everybody on it.
    #[arg(long, env = "MEANFIELD_INSECURE_LISTEN", value_parser = BoolishValueParser::new())]
    pub insecure_listen: bool,
    /// Requests a second with an agents' token, which many agents may share, and with the coordinator's own; 0 is no
    /// limit.
    #[arg(long, env = "MEANFIELD_AGENT_RATE", default_value_t = Rates::default().agents, value_name = "REQUESTS")]
    pub agent_rate: u32,
    /// Requests a second with any other token; 0 is no limit.
    #[arg(long, env = "MEANFIELD_RATE", default_value_t = Rates::default().others, value_name = "REQUESTS")]
    pub rate: u32,
    /// Largest request body in bytes, but for files.
    #[arg(long, env = "MEANFIELD_MAX_BODY", default_value_t = Limits::default().body, value_name = "BYTES")]
    pub max_body: usize,
    /// Largest head of a request in bytes.
    #[arg(long, env = "MEANFIELD_MAX_HEAD", default_value_t = Limits::default().head, value_name = "BYTES")]
    pub max_head: usize,
    /// Most connections at once.
    #[arg(long, env = "MEANFIELD_MAX_CONNECTIONS", default_value_t = Limits::default().connections, value_name = "COUNT")]
    pub max_connections: usize,
    /// How long the head of a request may take, or a TLS handshake.
    #[arg(long, env = "MEANFIELD_HEAD_TIME", default_value = "10s", value_parser = duration, value_name = "TIME")]
    pub head_time: Duration,
    /// How long the body of a request may take.
    #[arg(long, env = "MEANFIELD_BODY_TIME", default_value = "20s", value_parser = duration, value_name = "TIME")]
    pub body_time: Duration,
    /// How long a connection may be silent between two requests.
    #[arg(long, env = "MEANFIELD_IDLE_TIME", default_value = "90s", value_parser = duration, value_name = "TIME")]
    pub idle_time: Duration,
    /// How long a client may take nothing of an answer.
    #[arg(long, env = "MEANFIELD_WRITE_TIME", default_value = "20s", value_parser = duration, value_name = "TIME")]
    pub write_time: Duration,
}

impl ServingArgs {
    pub fn rates(&self) -> Rates {
        Rates { agents: self.agent_rate, others: self.rate }
    }

    pub fn limits(&self) -> Limits {
        Limits {
            body: self.max_body,
            head: self.max_head,
            connections: self.max_connections,
            head_time: self.head_time,
            body_time: self.body_time,
            idle_time: self.idle_time,
            write_time: self.write_time,
        }
    }

    pub fn tls(&self) -> Result<Option<Files>, Invalid> {
        let clients = match self.client_certs {
            ClientCerts::Required => Clients::Required,
            ClientCerts::Optional => Clients::Optional,
        };
        match (&self.tls_cert, &self.tls_key, &self.client_ca) {
            (Some(certificate), Some(key), authorities) => Ok(Some(Files {
                certificate: certificate.clone(),
                key: key.clone(),
                client_authorities: authorities.clone(),
                clients,
            })),
            (Some(_), None, _) => Err(Invalid::new("tls-key", "none", "the key that --tls-cert needs")),
            (None, Some(_), _) => Err(Invalid::new("tls-cert", "none", "the certificate that --tls-key needs")),
            (None, None, Some(_)) => Err(Invalid::new("tls-cert", "none", "the certificate that --client-ca needs")),
            (None, None, None) => Ok(None),
        }
    }
}

#[derive(Debug, Clone, Args)]
pub struct TrustArgs {
    /// Authorities that may have signed the coordinator's certificate (PEM) [default: the system's].
    #[arg(long, env = "MEANFIELD_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Certificate to show to a coordinator that asks for one (PEM).
    #[arg(long, env = "MEANFIELD_CLIENT_CERT", value_name = "FILE")]
    pub client_cert: Option<PathBuf>,
    /// Private key of that certificate (PEM).
    #[arg(long, env = "MEANFIELD_CLIENT_KEY", value_name = "FILE")]
    pub client_key: Option<PathBuf>,
}

impl TrustArgs {
    /// Reads the files.
    pub fn read(&self) -> anyhow::Result<Trust> {
        let read = |path: &PathBuf| fs::read(path).with_context(|| path.display().to_string());
        let identity = match (&self.client_cert, &self.client_key) {
            (Some(certificate), Some(key)) => Some([read(certificate)?, b"\n".to_vec(), read(key)?].concat()),
            (Some(_), None) => Err(Invalid::new("client-key", "none", "the key that --client-cert needs"))?,
            (None, Some(_)) => Err(Invalid::new("client-cert", "none", "the certificate that --client-key needs"))?,
            (None, None) => None,
        };
        Ok(Trust { authorities: self.ca_file.as_ref().map(read).transpose()?, identity })
    }
}
