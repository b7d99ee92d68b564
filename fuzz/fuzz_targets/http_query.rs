//! Everything of a request but its body: paths, queries with cursors and filters, and headers that are conditions, ids and
//! tokens. Lines of the input: the path with its query, `If-Match`, `Last-Event-ID`, `traceparent`, a second token.

#![no_main]

mod edge;

use axum::http::Method;
use libfuzzer_sys::fuzz_target;

const METHODS: [Method; 4] = [Method::GET, Method::POST, Method::PUT, Method::DELETE];
const BASES: [&str; 22] = [
    "",
    "/v1/agents",
    "/v1/agents/",
    "/v1/agents/{id}",
    "/v1/agents/{id}/rewards",
    "/v1/agents/{id}/pause",
    "/v1/agents/{id}/fallback",
    "/v1/pools/",
    "/v1/pools/default/capacity",
    "/v1/pools/default/budget",
    "/v1/models/",
    "/v1/tokens",
    "/v1/trajectories",
    "/v1/trajectories/samples",
    "/v1/audit",
    "/v1/events",
    "/v1/agents/{id}/entitlement",
    "/v1/models",
    "/v1/pools",
    "/v1/pools/default/cuts",
    "/v1/pools/default/scarcity",
    "/v1/trajectories/export",
];

fuzz_target!(|input: &[u8]| {
    let [method, base, rest @ ..] = input else { return };
    let mut lines = rest.split(|&byte| byte == b'\n');
    let path = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let path = format!("{}{path}", BASES[usize::from(*base) % BASES.len()]);
    let names = ["if-match", "last-event-id", "traceparent", "authorization"];
    let headers: Vec<_> = names.into_iter().zip(lines).filter(|(_, value)| !value.is_empty()).collect();
    let method = METHODS[usize::from(*method) % METHODS.len()].clone();
    edge::with(|edge| edge.ask(method, &path, &headers, Vec::new()));
});
