//! Bodies as the coordinator's edge reads them: registrations, heartbeats, batches in both forms, steps in both forms,
//! orders, settings of pools and tokens. The first byte says which; any body is refused with a reason or taken.

#![no_main]

mod edge;

use axum::http::Method;
use libfuzzer_sys::fuzz_target;

const JSON: &str = "application/json";

const ROUTES: [(Method, &str, &str); 17] = [
    (Method::POST, "/v1/agents", JSON),
    (Method::POST, "/v1/agents/{id}/heartbeat", JSON),
    (Method::POST, "/v1/heartbeats", JSON),
    (Method::POST, "/v1/heartbeats", "application/vnd.meanfield.heartbeats"),
    (Method::POST, "/v1/agents/{id}/trajectories", JSON),
    (Method::POST, "/v1/agents/{id}/trajectories", "application/vnd.meanfield.steps"),
    (Method::PUT, "/v1/agents/{id}/lifecycle", JSON),
    (Method::PUT, "/v1/pools/default/capacity", JSON),
    (Method::PUT, "/v1/pools/default/budget", JSON),
    (Method::PUT, "/v1/models/cpu/serving", JSON),
    (Method::POST, "/v1/tokens", JSON),
    (Method::POST, "/v1/fallback", JSON),
    (Method::POST, "/v1/trajectories/import", "text/csv"),
    (Method::PUT, "/v1/pools/shop", JSON),
    (Method::PUT, "/v1/pools/default/scarcity", JSON),
    (Method::PUT, "/v1/agents/{id}/entitlement", JSON),
    // Last: whoever leaves is no member for the requests that follow.
    (Method::POST, "/v1/agents/{id}/leave", JSON),
];

fuzz_target!(|input: &[u8]| {
    let Some((&which, body)) = input.split_first() else { return };
    let (method, path, media_type) = &ROUTES[usize::from(which) % ROUTES.len()];
    edge::with(|edge| edge.ask(method.clone(), path, &[("content-type", media_type.as_bytes())], body.to_vec()));
});
