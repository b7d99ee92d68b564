//! What the agent makes of the coordinator's answers by HTTP.

use meanfield_agent::{
    http::Http,
    link::{Error, Link},
};
use meanfield_common::{
    action::Action,
    identity::{AgentId, Category, Epoch, Sequence},
    mean_field::Aspects,
    reward::Reward,
    state::LocalState,
    wire::{Heartbeat, Leave, Register, Registered},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

fn id() -> AgentId {
    "00000000-0000-0000-0000-000000000001".parse().unwrap()
}

fn beat() -> Heartbeat {
    let (state, action, reward) = (LocalState::default(), Action::HOLD, Reward::default());
    Heartbeat {
        epoch: Epoch::FIRST,
        sequence: Sequence(1),
        round: None,
        state,
        action,
        reward,
        claim: None,
        detail: false,
        moving: None,
    }
}

/// A server that gives the same answer to everything; joined, it says what it was sent.
async fn server(status: &'static str, body: String) -> (Http, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !is_whole(&request) {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "the request was cut off");
        }
        let length = body.len();
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(request).unwrap()
    });
    (Http::new(&url, "secret".to_owned()).unwrap(), serving)
}

/// Whether the body is there to its end: it is JSON only then.
fn is_whole(request: &[u8]) -> bool {
    let head = request.windows(4).position(|four| four == b"\r\n\r\n");
    head.is_some_and(|head| serde_json::from_slice::<serde_json::Value>(&request[head + 4..]).is_ok())
}

fn problem(kind: &str, status: u16) -> String {
    format!(r#"{{"type":"/problems/{kind}","title":"t","status":{status},"detail":"what was wrong"}}"#)
}

async fn heartbeat(status: &'static str, body: String) -> Result<(), Error> {
    let (mut http, _serving) = server(status, body).await;
    http.heartbeat(id(), &beat()).await.map(drop)
}

#[tokio::test]
async fn a_registration_is_sent_with_the_token_and_read_back() {
    let answer = Registered { agent: id(), epoch: Epoch(3), heartbeat_within_ms: 500, agreed: Aspects::NONE };
    let (mut http, serving) = server("201 Created", serde_json::to_string(&answer).unwrap()).await;
    let (name, pool) = ("shop/cart".parse().unwrap(), "pool".parse().unwrap());
    let register = Register { name, pool, category: Category::Io, wants: Aspects::NONE };
    assert_eq!(http.register(&register).await, Ok(answer));
    let request = serving.await.unwrap();
    assert!(request.starts_with("POST /v1/agents HTTP/1.1\r\n"), "{request}");
    assert!(request.to_lowercase().contains("authorization: bearer secret\r\n"), "{request}");
    assert!(request.ends_with(r#"{"name":"shop/cart","pool":"pool","category":"io"}"#), "{request}");
}

#[tokio::test]
async fn a_heartbeat_and_a_goodbye_go_to_the_agents_own_address() {
    let (mut http, serving) = server("200 OK", "not an answer".to_owned()).await;
    assert!(matches!(http.heartbeat(id(), &beat()).await, Err(Error::Unreachable(_))));
    assert!(serving.await.unwrap().starts_with(&format!("POST /v1/agents/{}/heartbeat ", id())));
    let (mut http, serving) = server("204 No Content", String::new()).await;
    assert_eq!(http.leave(id(), &Leave { epoch: Epoch(3) }).await, Ok(()));
    let request = serving.await.unwrap();
    assert!(request.starts_with(&format!("POST /v1/agents/{}/leave ", id())) && request.ends_with(r#"{"epoch":3}"#));
}

#[tokio::test]
async fn each_refusal_becomes_what_the_agent_must_do_about_it() {
    assert_eq!(heartbeat("404 Not Found", problem("unknown-agent", 404)).await, Err(Error::Unknown));
    assert_eq!(heartbeat("409 Conflict", problem("stale-epoch", 409)).await, Err(Error::Superseded));
    for (status, kind, code) in [
        ("422 Unprocessable Entity", "invalid-value", 422),
        ("404 Not Found", "unknown-pool", 404),
        ("409 Conflict", "stale-round", 409),
        ("401 Unauthorized", "unauthorised", 401),
    ] {
        let refused = heartbeat(status, problem(kind, code)).await.unwrap_err();
        assert!(matches!(refused, Error::Refused(_)), "{kind}: {refused:?}");
        assert_eq!(refused.to_string(), "refused: what was wrong");
    }
}

#[tokio::test]
async fn failures_and_nonsense_are_as_good_as_no_answer() {
    for (status, body, reason) in [
        ("503 Service Unavailable", problem("unavailable", 503), "what was wrong"),
        ("500 Internal Server Error", "<html>".to_owned(), "500 Internal Server Error"),
        ("404 Not Found", "<html>".to_owned(), "404 Not Found"),
        ("200 OK", "<html>".to_owned(), "expected value"),
        ("200 OK", r#"{"sequence":1}"#.to_owned(), "missing field"),
    ] {
        let Err(Error::Unreachable(said)) = heartbeat(status, body).await else { panic!("{status} was taken") };
        assert!(said.contains(reason), "{said}");
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_unreachable_and_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let mut http = Http::new(&url, "secret".to_owned()).unwrap();
    let Err(Error::Unreachable(said)) = http.heartbeat(id(), &beat()).await else { panic!("somebody listens") };
    assert!(said.contains("refused") && said.contains(&url[7..]), "{said}");
}

#[test]
fn an_address_that_is_no_url_is_refused_at_once() {
    for bad in ["", "127.0.0.1:7600", "localhost:7600", "ftp://next.door", "/tmp/socket"] {
        assert!(matches!(Http::new(bad, String::new()), Err(meanfield_agent::Error::Invalid(_))), "{bad:?}");
    }
}
