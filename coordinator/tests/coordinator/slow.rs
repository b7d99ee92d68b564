//! Clients that are slow, silent, large or many, by raw sockets. Each limit is tried with the others far away, so that
//! no other one can be what cut the connection.

use std::{future::Future, time::Duration};

use meanfield_coordinator::{Options, options::Limits};
use reqwest::StatusCode;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::support::*;

/// Far longer than anything takes that is not stuck.
const PATIENCE: Duration = Duration::from_mins(2);
const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_hours(1);

fn far() -> Limits {
    Limits { head_time: LONG, body_time: LONG, idle_time: LONG, write_time: LONG, ..Limits::default() }
}

async fn serving(limits: Limits) -> Served {
    Served::start(Options { limits, grace: SHORT, ..Options::default() }).await
}

async fn patiently<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("not within {PATIENCE:?}"))
}

/// All that comes until the server closes the connection, in whatever way.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = patiently(stream.read_to_end(&mut bytes)).await;
    String::from_utf8(bytes).unwrap()
}

/// Asks on a connection that is kept, and returns when the answer is there.
async fn ask(stream: &mut TcpStream) {
    stream.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"\r\n\r\nok\n") {
        assert_ne!(patiently(stream.read_buf(&mut seen)).await.unwrap(), 0, "{}", String::from_utf8_lossy(&seen));
    }
}

async fn cut(served: &Served) -> f64 {
    served.metric("meanfield_coordinator_connections_cut_total").await
}

#[tokio::test]
async fn a_head_that_trickles_is_cut_off() {
    let served = serving(Limits { head_time: SHORT, ..far() }).await;
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    assert_eq!(rest(&mut silent).await, "", "one that says nothing");

    // Also on a connection that was good before: the limit counts from the first byte of the head.
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    ask(&mut stream).await;
    stream.write_all(b"GET /livez HTTP/1.1\r\nx: ").await.unwrap();
    let mut byte = [0];
    // A byte now and then keeps no connection alive.
    while timeout(Duration::from_millis(10), stream.read(&mut byte)).await.is_err() {
        if stream.write_all(b"x").await.is_err() {
            break;
        }
    }
    assert!(cut(&served).await >= 2.0);
    served.ended().await.unwrap();
}

#[tokio::test]
async fn silence_between_requests_is_another_matter() {
    let served = serving(Limits { head_time: SHORT, ..far() }).await;
    let mut patient = TcpStream::connect(served.address).await.unwrap();
    ask(&mut patient).await;
    // Silent for several times as long as a head may take.
    let mut byte = [0];
    assert!(timeout(5 * SHORT, patient.read(&mut byte)).await.is_err(), "it is still there");
    ask(&mut patient).await;
    served.ended().await.unwrap();

    let served = serving(Limits { idle_time: SHORT, ..far() }).await;
    let mut idle = TcpStream::connect(served.address).await.unwrap();
    ask(&mut idle).await;
    assert_eq!(rest(&mut idle).await, "");
    served.ended().await.unwrap();
}

#[tokio::test]
async fn a_body_that_does_not_come_is_refused() {
    let served = serving(Limits { body_time: SHORT, ..far() }).await;
    for (path, media_type) in [("agents", "application/json"), ("trajectories/import", "text/csv")] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let head = format!(
            "POST /v1/{path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-type: {media_type}\r\n\
             content-length: 100\r\n\r\n{{\"name\"",
            served.coordinator.token(),
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("/problems/slow-body"), "{answer}");
    }
    served.ended().await.unwrap();
}

#[tokio::test]
async fn who_does_not_read_is_cut_off() {
    let served = serving(Limits { write_time: SHORT, ..far() }).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let questions = "GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(100);
    // Writing stops for good once the server waits for us to read, unless it hangs up.
    patiently(async { while stream.write_all(questions.as_bytes()).await.is_ok() {} }).await;
    assert_eq!(cut(&served).await, 1.0);
    served.ended().await.unwrap();
}

#[tokio::test]
async fn heads_have_a_size() {
    let served = serving(Limits { head: 2048, ..far() }).await;
    let one_long = format!("x: {}\r\n", "y".repeat(4000));
    let many: String = (0..120).map(|header| format!("h{header}: 1\r\n")).collect();
    let long_path = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "z".repeat(4000));
    let with = |headers: &str| format!("GET /livez HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
    for request in [with(&one_long), with(&many), long_path] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    served.ended().await.unwrap();
}

#[tokio::test]
async fn there_are_so_many_connections_and_no_more() {
    let served = serving(Limits { connections: 2, ..far() }).await;
    let (mut first, mut second) =
        (TcpStream::connect(served.address).await.unwrap(), TcpStream::connect(served.address).await.unwrap());
    ask(&mut first).await;
    ask(&mut second).await;
    let mut third = TcpStream::connect(served.address).await.unwrap();
    assert_eq!(rest(&mut third).await, "");
    ask(&mut first).await;
    // Who goes makes room.
    drop(second);
    patiently(async {
        while served.try_get("/livez").await != Some(StatusCode::OK) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(first);
    assert!(served.metric("meanfield_coordinator_connections_refused_total").await >= 1.0);
    served.ended().await.unwrap();
}
