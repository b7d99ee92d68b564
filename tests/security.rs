//! What docs/security.md says can be done is done here, by its own commands; and no secret is ever seen.

use std::{fs, path::Path, process::Command};

use reqwest::{Certificate, Client, Identity, Method, StatusCode};
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio::runtime::Runtime;

use crate::{
    certificates::Authority,
    support::{Process, Shell, address, blocks, root},
};

fn make_certificates(shell: &Shell, directory: &Path, commands: &str) {
    if Command::new("openssl").arg("version").output().is_ok() {
        shell.prints(commands, &[]);
        return;
    }
    // Without openssl, the files that its commands would have made.
    let authority = Authority::new();
    let (certificate, key) = authority.sign();
    for (name, text) in [("ca.crt", authority.pem()), ("tls.crt", certificate), ("tls.key", key)] {
        assert!(commands.contains(name), "{name}");
        fs::write(directory.join(name), text).unwrap();
    }
}

#[test]
fn the_commands_of_the_document_work() {
    let document = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let directory = tempdir().unwrap();
    let directory = directory.path();
    let shell = Shell::new(directory);
    let mut coordinator = None;
    let mut printed = Vec::new();
    for (mark, block) in blocks(&document) {
        match mark {
            "certificates" => make_certificates(&shell, directory, block),
            "start" => {
                let arguments = block.strip_prefix("meanfield ").unwrap().replace("127.0.0.1:7600", "127.0.0.1:0");
                let arguments: Vec<_> = arguments.split_whitespace().collect();
                coordinator = Some(Process::start_in(directory, &arguments, &[]));
            }
            "" => {
                let coordinator = coordinator.as_ref().unwrap_or_else(|| panic!("not started before {block}"));
                let address = address(coordinator);
                let port = address.rsplit(':').next().unwrap();
                printed.push(shell.prints(&block.replace("localhost:7600", &format!("localhost:{port}")), &[]));
            }
            other => panic!("what is to be done with {other:?}?"),
        }
    }
    assert!(fs::read_to_string(directory.join("shop.token")).unwrap().starts_with("mf_"));
    let listed = printed.iter().find(|text| text.contains("\"tokens\"")).unwrap();
    let listed = serde_json::Deserializer::from_str(listed).into_iter::<Value>().next().unwrap().unwrap();
    assert_eq!(listed["tokens"][0]["agents"], "shop/*");
    let coordinator = coordinator.unwrap();
    assert!(address(&coordinator).starts_with("127.0.0.1:") && coordinator.output().starts_with("https://"));
    // The token was revoked in the end.
    let url = coordinator.output().trim().replace("127.0.0.1", "localhost");
    let after = format!(
        "MEANFIELD_TOKEN=$(cat shop.token) meanfield ctl forecast download default network --coordinator {url} --ca-file ca.crt"
    );
    let refused = shell.run(&after, &[]);
    let log = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(3) && log.contains("unauthorised"), "{log}");
}

#[test]
fn listening_beyond_loopback_needs_tls_or_a_word() {
    let refused = |arguments: &[&str], parts: &[&str]| {
        let mut process = Process::start(&[&["coordinator"], arguments].concat());
        assert_eq!(process.wait().code(), Some(64), "{arguments:?}");
        let log = process.log();
        assert!(log.lines().count() == 1 && parts.iter().all(|part| log.contains(part)), "{log}");
    };
    refused(&["--listen", "0.0.0.0:0"], &["listen", "0.0.0.0:0", "--tls-cert", "--insecure-listen"]);
    refused(&["--tls-cert", "a.crt"], &["tls-key"]);
    refused(&["--tls-key", "a.key"], &["tls-cert"]);
    refused(&["--client-ca", "a.crt"], &["tls-cert"]);
    refused(&["--idle-time", "0s"], &["--idle-time", "0s"]);
    refused(&["--max-connections", "0"], &["max_connections"]);
    let mut meant = Process::start(&["coordinator", "--listen", "0.0.0.0:0", "--insecure-listen"]);
    assert!(address(&meant).starts_with("0.0.0.0:"));
    assert!(meant.terminate().success());
}

/// A coordinator that logs everything and asks clients for certificates, and an admin of it.
struct Secure {
    process: Process,
    runtime: Runtime,
    client: Client,
    url: String,
    /// Every answer but those that show a new token.
    answers: Vec<String>,
}

impl Secure {
    fn start(directory: &Path, token: &str) -> Self {
        let file = |name: &str| directory.join(name).to_str().unwrap().to_owned();
        let (authority, of_clients) = (Authority::new(), Authority::new());
        let (server, client) = (authority.sign(), of_clients.sign());
        for (name, text) in [
            ("ca.crt", &authority.pem()),
            ("clients.crt", &of_clients.pem()),
            ("tls.crt", &server.0),
            ("tls.key", &server.1),
            ("client.crt", &client.0),
            ("client.key", &client.1),
        ] {
            fs::write(directory.join(name), text).unwrap();
        }
        let (certificate, key, clients) = (file("tls.crt"), file("tls.key"), file("clients.crt"));
        let data = file("data");
        let arguments = [
            ["coordinator", "--log", "trace"].as_slice(),
            &["--listen", "127.0.0.1:0", "--data-dir", &data],
            &["--tls-cert", &certificate, "--tls-key", &key, "--client-ca", &clients],
        ];
        let process = Process::start_with(&arguments.concat(), &[("MEANFIELD_TOKEN", token)]);
        let url = format!("https://{}", address(&process));
        let _ = rustls::crypto::ring::default_provider().install_default();
        let identity = Identity::from_pem(format!("{}\n{}", client.0, client.1).as_bytes()).unwrap();
        let authority = Certificate::from_pem(authority.pem().as_bytes()).unwrap();
        let client = Client::builder().no_proxy().tls_certs_only([authority]).identity(identity).build().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { process, runtime, client, url, answers: Vec::new() }
    }

    fn answer(&self, method: Method, path: &str, token: &str, body: Option<&Value>) -> (StatusCode, String) {
        let request = self.client.request(method, format!("{}{path}", self.url)).bearer_auth(token);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        self.runtime.block_on(async {
            let response = request.send().await.unwrap();
            (response.status(), format!("{:?}", response.headers()) + &response.text().await.unwrap())
        })
    }

    fn ask(&mut self, method: Method, path: &str, token: &str, body: Option<&Value>) -> StatusCode {
        let (status, answer) = self.answer(method, path, token, body);
        self.answers.push(answer);
        status
    }
}

/// What must not be seen: tokens, their secret parts, and every line of a key.
fn secrets(tokens: &[String], keys: &[String]) -> Vec<String> {
    let parts = tokens.iter().map(|token| token.rsplit('_').next().unwrap().to_owned());
    let lines = keys.iter().flat_map(|key| key.lines()).filter(|line| !line.contains("-----")).map(str::to_owned);
    tokens.iter().cloned().chain(parts).chain(lines).collect()
}

#[test]
fn no_secret_is_ever_seen() {
    let directory = tempdir().unwrap();
    let directory = directory.path();
    let own = "the-coordinators-own-token-that-nobody-may-see";
    let mut secure = Secure::start(directory, own);
    let mut tokens = vec![own.to_owned()];
    for role in ["admin", "operator", "reader", "agent"] {
        let pool = (role == "agent").then_some("default");
        let new = json!({"name": role, "role": role, "pool": pool});
        let (status, answer) = secure.answer(Method::POST, "/v1/tokens", own, Some(&new));
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        tokens.push(answer.split_once("\"token\":\"").unwrap().1.split('"').next().unwrap().to_owned());
    }
    // Tokens where they belong, and where they do not.
    for token in tokens.clone() {
        let wrong = format!("{}0", &token[..token.len() - 1]);
        let as_value = json!({"name": token, "pool": token, "category": token, token.as_str(): token});
        for path in ["/v1/agents", "/v1/tokens", "/v1/pools/default/forecast", "/metrics", "/readyz"] {
            secure.ask(Method::GET, path, &token, None);
            secure.ask(Method::GET, path, &wrong, None);
        }
        for path in [format!("/{token}"), format!("/v1/agents/{token}"), format!("/v1/agents?pool={token}&{token}=1")] {
            secure.ask(Method::GET, &path, own, None);
        }
        for path in ["/v1/agents", "/v1/tokens", "/v1/agents/00000000-0000-0000-0000-000000000000/heartbeat"] {
            let status = secure.ask(Method::POST, path, &token, Some(&as_value));
            assert!(status.is_client_error(), "{path}: {status}");
        }
        secure.ask(Method::DELETE, &format!("/v1/tokens/{token}"), own, None);
        tokens.push(wrong);
    }

    // Agents that log everything: one that is let in, and one that is not.
    let file = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let (authority, certificate, key) = (file("ca.crt"), file("client.crt"), file("client.key"));
    let trust = ["--ca-file", &authority, "--client-cert", &certificate, "--client-key", &key];
    let url = secure.url.clone();
    let agent = |flags: &[&str], token: &str| {
        let common = ["agent", "--log", "trace", "--interval", "50ms", "--steps", "3", "--coordinator", &url];
        let mut process = Process::start_with(&[&common, flags].concat(), &[("MEANFIELD_TOKEN", token)]);
        let ended = process.wait();
        (ended.success(), process.output() + &process.log())
    };
    let (good, bad) = (agent(&trust, &tokens[4]), agent(&trust, "a-token-that-is-not-known-here"));
    assert!(good.0, "{}", good.1);
    assert!(!bad.0 && bad.1.contains("not this coordinator's"), "{}", bad.1);
    assert_eq!(secure.ask(Method::GET, "/v1/agents", own, None), StatusCode::OK);
    // A key in the wrong place.
    let swapped = ["--ca-file", &key, "--client-cert", &key, "--client-key", &certificate];
    let swapped = agent(&swapped, own);
    assert!(!swapped.0);

    assert!(secure.process.terminate().success());
    let log = secure.process.log();
    assert!(log.contains("DEBUG") && log.contains("refused"), "everything is logged: {log}");
    let keys = ["tls.key", "client.key"].map(|name| fs::read_to_string(directory.join(name)).unwrap());
    let mut seen = vec![secure.process.output(), log, good.1, bad.1, swapped.1];
    seen.extend(secure.answers);
    for secret in secrets(&tokens, &keys) {
        for text in &seen {
            assert!(!text.contains(&secret), "{secret} was seen in:\n{text}");
        }
    }
}
