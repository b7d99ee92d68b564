//! Starting and stopping the daemon.

use std::{fs, os::unix::fs::MetadataExt, time::Duration};

use meanfield_coordinator::{Clock, Coordinator, Options, token};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task,
};

use crate::support::*;

/// A registration whose handler waits for its body: its headers are sent and the server has asked for the rest.
async fn half_sent(served: &Served, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = format!(
        "POST /v1/agents HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nexpect: 100-continue\r\n\r\n",
        served.coordinator.token(),
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut asked = [0; 25];
    stream.read_exact(&mut asked).await.unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

#[tokio::test]
async fn a_request_under_way_finishes_after_shutdown_began() {
    let mut served = Served::start(Options::default()).await;
    assert!(served.coordinator.ready());
    let body = serde_json::to_string(&register("a")).unwrap();
    let mut stream = half_sent(&served, &body).await;
    served.stop();
    while served.coordinator.ready() {
        task::yield_now().await;
    }
    // The socket is closed to others before the last request is done.
    while TcpStream::connect(served.address).await.is_ok() {
        task::yield_now().await;
    }
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 201 Created\r\n"), "{reply}");
    let coordinator = served.coordinator.clone();
    served.ended().await.unwrap();
    assert_eq!(coordinator.agents().len(), 1);
}

#[tokio::test]
async fn a_request_that_never_finishes_is_cut_off_after_the_grace() {
    let served = Served::start(Options { grace: Duration::from_millis(20), ..Options::default() }).await;
    let stream = half_sent(&served, "{}").await;
    served.ended().await.unwrap();
    drop(stream);
}

#[test]
fn the_token_is_made_once_and_can_be_given() {
    let dir = tempfile::tempdir().unwrap();
    let made = on_disk(dir.path()).unwrap().token().to_owned();
    assert_eq!(fs::metadata(dir.path().join("token")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(on_disk(dir.path()).unwrap().token(), made);
    assert_eq!(token::read(dir.path()).unwrap(), made);
    let given = Options { token: Some("a-token-of-my-own".into()), ..Options::default() };
    assert_eq!(Coordinator::open(given, Clock::manual()).unwrap().token(), "a-token-of-my-own");
    assert_ne!(in_memory().token(), in_memory().token());
    fs::write(dir.path().join("token"), "oops\n").unwrap();
    assert!(on_disk(dir.path()).is_err());
}
