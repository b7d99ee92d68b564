//! temp
#![allow(clippy::unwrap_used)]
use std::io::{Read, Write};
use std::time::Instant;
use axum::{Router, routing::post};
use bytes::Bytes;
use meanfield_common::wire::*;
use meanfield_common::{action::Action, identity::*, reward::Reward, state::*};
use meanfield_coordinator::*;
fn beat(e: Epoch, s: u64) -> Heartbeat {
    let u = |x: f64| Unit::clamped(x);
    Heartbeat { epoch: e, sequence: Sequence(s), round: None, state: LocalState { slo_preservation: u(0.987654), cpu_utilisation: u(0.4321), memory_utilisation: u(0.6123), arrival_change: u(-0.0123), cpu_limit: u(0.25), memory_limit: u(0.5), replicas: u(0.3) }, action: Action::HOLD, reward: Reward::try_from(0.7312).unwrap() }
}
fn drive(addr: std::net::SocketAddr, paths: &[(String, Epoch)], token: &str, n: u64, base: u64) -> f64 {
    let t = Instant::now();
    std::thread::scope(|s| for (path, e) in paths { s.spawn(move || {
        let mut st = std::net::TcpStream::connect(addr).unwrap(); st.set_nodelay(true).unwrap();
        let mut buf = vec![0u8; 8192];
        for i in 0..n {
            let body = serde_json::to_string(&beat(*e, base + i)).unwrap();
            let req = format!("POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            st.write_all(req.as_bytes()).unwrap();
            let mut have = 0;
            loop {
                have += st.read(&mut buf[have..]).unwrap();
                let text = &buf[..have];
                if let Some(h) = text.windows(4).position(|w| w == b"\r\n\r\n") {
                    let head = std::str::from_utf8(&text[..h]).unwrap();
                    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
                    let len: usize = head.lines().find_map(|l| l.strip_prefix("content-length: ")).unwrap().parse().unwrap();
                    if have >= h + 4 + len { break; }
                }
            }
        }
    }); });
    (n * paths.len() as u64) as f64 / t.elapsed().as_secs_f64()
}
fn main() {
    let rt = tokio::runtime::Runtime::new().unwrap();
    let c = Coordinator::open(Options::default(), Clock::system()).unwrap();
    let l = rt.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap(); let a1 = l.local_addr().unwrap();
    let c2 = c.clone(); rt.spawn(async move { serve(c2, l, std::future::pending()).await });
    let l = rt.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap(); let a2 = l.local_addr().unwrap();
    let big = "x".repeat(1100);
    let echo = Router::new().route("/v1/agents/{id}/heartbeat", post(|b: Bytes| async move { let h: Heartbeat = serde_json::from_slice(&b).unwrap(); std::hint::black_box(h); b }));
    let echo = echo.route("/big/{id}/heartbeat", post(move |b: Bytes| { let big = big.clone(); async move { let h: Heartbeat = serde_json::from_slice(&b).unwrap(); std::hint::black_box(h); big }}));
    use axum::serve::ListenerExt;
    rt.spawn(async move { axum::serve(l.tap_io(|s| { let _ = s.set_nodelay(true); }), echo).await });
    let m: Vec<_> = (0..16).map(|i| rt.block_on(c.register(Register { name: format!("a{i}").parse().unwrap(), pool: "default".parse().unwrap(), category: Category::Cpu })).unwrap()).collect();
    let paths: Vec<_> = m.iter().map(|r| (format!("/v1/agents/{}/heartbeat", r.agent), r.epoch)).collect();
    let bigp: Vec<_> = m.iter().map(|r| (format!("/big/{}/heartbeat", r.agent), r.epoch)).collect();
    for k in 0..5 {
        let x = drive(a1, &paths, c.token(), 3000, k * 3000 + 1);
        let y = drive(a2, &paths, c.token(), 3000, k * 3000 + 1);
        let z = drive(a2, &bigp, c.token(), 3000, k * 3000 + 1);
        println!("ours {x:.0} echo {y:.0} ratio {:.3}; echo 1100 B {z:.0} ratio {:.3}", x / y, x / z);
    }
    // registrations
    let dir = std::env::temp_dir().join("mf-reg"); let _ = std::fs::remove_dir_all(&dir);
    let d = Coordinator::open(Options { data_dir: Some(dir.clone()), ..Options::default() }, Clock::system()).unwrap();
    let t = Instant::now();
    rt.block_on(async { futures_util::future::join_all((0..10000).map(|i| d.register(Register { name: format!("a{i}").parse().unwrap(), pool: "default".parse().unwrap(), category: Category::Cpu }))).await.into_iter().for_each(|r| { r.unwrap(); }) });
    println!("10000 registrations durable in {:?}", t.elapsed());
    drop(d); let _ = std::fs::remove_dir_all(&dir); std::process::exit(0);
}
