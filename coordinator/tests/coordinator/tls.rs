//! TLS: https and nothing else, certificates that are replaced while it runs, and certificates of clients.

use std::{fs, path::Path, time::Duration};

use meanfield_coordinator::{
    Clock, Coordinator, Error, Options,
    options::Limits,
    serve,
    tls::{self, Clients, Files},
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use reqwest::{Certificate, Client, Identity, StatusCode};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
    time::timeout,
};

use crate::support::*;

const PATIENCE: Duration = Duration::from_mins(2);

/// Somebody who signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this machine, and its key.
    fn sign(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    /// Puts a certificate for this machine where the coordinator looks for it.
    fn install(&self, files: &Files) {
        let (certificate, key) = self.sign();
        fs::write(&files.certificate, certificate).unwrap();
        fs::write(&files.key, key).unwrap();
    }

    /// A client that believes this authority and nobody else.
    fn client(&self, identity: Option<(String, String)>) -> Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let authority = Certificate::from_pem(self.pem().as_bytes()).unwrap();
        // A connection each: whether there is one is what these tests ask.
        let builder = Client::builder().no_proxy().tls_certs_only([authority]).pool_max_idle_per_host(0);
        let identity = identity.map(|(certificate, key)| Identity::from_pem((certificate + &key).as_bytes()).unwrap());
        match identity {
            Some(identity) => builder.identity(identity),
            None => builder,
        }
        .build()
        .unwrap()
    }
}

fn files(directory: &Path) -> Files {
    Files {
        certificate: directory.join("tls.crt"),
        key: directory.join("tls.key"),
        client_authorities: None,
        clients: Clients::Required,
    }
}

async fn asks(served: &Served, client: &Client) -> Result<StatusCode, reqwest::Error> {
    let url = format!("https://{}/v1/pools", served.address);
    client.get(url).bearer_auth(served.coordinator.token()).send().await.map(|response| response.status())
}

/// Asks until the answer is as it should be.
async fn until(served: &Served, client: &Client, good: bool) {
    let asking = async { while asks(served, client).await.is_ok() != good {} };
    timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("never {good}"));
}

#[tokio::test]
async fn with_a_certificate_https_is_spoken_and_http_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (authority, stranger) = (Authority::new(), Authority::new());
    let files = files(dir.path());
    authority.install(&files);
    let limits = Limits { head_time: Duration::from_millis(100), ..Limits::default() };
    let served = Served::start(Options { tls: Some(files), limits, ..Options::default() }).await;
    assert_eq!(asks(&served, &authority.client(None)).await.unwrap(), StatusCode::OK);
    assert!(asks(&served, &stranger.client(None)).await.is_err(), "a certificate of somebody else's");
    assert_eq!(served.try_get("/livez").await, None, "plain HTTP");
    // A handshake that never comes is cut off.
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    let mut bytes = Vec::new();
    let _ = timeout(PATIENCE, silent.read_to_end(&mut bytes)).await.unwrap();
    served.ended().await.unwrap();
}

#[tokio::test]
async fn a_new_certificate_is_taken_and_a_broken_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second, third) = (Authority::new(), Authority::new(), Authority::new());
    let files = files(dir.path());
    first.install(&files);
    let served = Served::start(Options { tls: Some(files.clone()), ..Options::default() }).await;
    assert_eq!(asks(&served, &first.client(None)).await.unwrap(), StatusCode::OK);

    second.install(&files);
    until(&served, &second.client(None), true).await;
    assert!(asks(&served, &first.client(None)).await.is_err());

    // Broken in several ways; each must be noticed before the next, which the metric tells.
    let (certificate, _) = third.sign();
    let refused = async || {
        let url = format!("https://{}/metrics", served.address);
        let text = second.client(None).get(url).send().await.unwrap().text().await.unwrap();
        let line = "meanfield_coordinator_certificates_refused_total ";
        text.lines().find_map(|found| found.strip_prefix(line)).unwrap().parse::<u64>().unwrap()
    };
    for (count, broken) in (1..).zip(["", "-----BEGIN CERTIFICATE-----\nAAAA\n", certificate.as_str()]) {
        fs::write(&files.certificate, broken).unwrap();
        timeout(PATIENCE, async { while refused().await < count {} }).await.unwrap();
        assert_eq!(asks(&served, &second.client(None)).await.unwrap(), StatusCode::OK, "{broken:?}");
    }
    third.install(&files);
    until(&served, &third.client(None), true).await;
    served.ended().await.unwrap();
}

#[tokio::test]
async fn clients_may_have_to_show_a_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let (authority, of_clients, stranger) = (Authority::new(), Authority::new(), Authority::new());
    for clients in [Clients::Required, Clients::Optional] {
        let authorities = dir.path().join("clients.crt");
        fs::write(&authorities, of_clients.pem()).unwrap();
        let files = Files { client_authorities: Some(authorities), clients, ..files(dir.path()) };
        authority.install(&files);
        let served = Served::start(Options { tls: Some(files), ..Options::default() }).await;
        let good = authority.client(Some(of_clients.sign()));
        assert_eq!(asks(&served, &good).await.unwrap(), StatusCode::OK, "{clients:?}");
        let bare = asks(&served, &authority.client(None)).await;
        assert_eq!(bare.is_ok(), clients == Clients::Optional, "{clients:?}: {bare:?}");
        let bad = asks(&served, &authority.client(Some(stranger.sign()))).await;
        assert!(bad.is_err(), "{clients:?}: {bad:?}");
        // A certificate is no token.
        let url = format!("https://{}/v1/pools", served.address);
        assert_eq!(good.get(url).send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
        served.ended().await.unwrap();
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let (authority, files) = (Authority::new(), files(dir.path()));
    let start = async |files: &Files| {
        let options = Options { tls: Some(files.clone()), ..Options::default() };
        let coordinator = Coordinator::open(options, Clock::manual()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        match serve(coordinator, listener, async {}).await {
            Err(Error::Tls(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    let error = start(&files).await;
    assert!(matches!(&error, tls::Error::Io { path, .. } if *path == files.certificate), "{error}");

    authority.install(&files);
    let (other, key) = (authority.sign().1, fs::read_to_string(&files.key).unwrap());
    for bad in ["", "no key", &other, &key[..60]] {
        fs::write(&files.key, bad).unwrap();
        let text = start(&files).await.to_string();
        assert!(text.contains("tls."), "{text}");
        assert!(!key.lines().chain(other.lines()).any(|line| !line.contains("---") && text.contains(line)), "{text}");
    }
    authority.install(&files);
    let clients = Files { client_authorities: Some(files.key.clone()), ..files.clone() };
    assert!(matches!(start(&clients).await, tls::Error::Missing { path, .. } if path == files.key));
}
