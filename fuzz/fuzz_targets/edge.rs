//! A coordinator in memory behind its own routes: what every request that the targets make goes through.

use std::cell::RefCell;

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderValue, Method, Request, Uri},
};
use meanfield_common::{identity::AgentId, wire::Problem};
use meanfield_coordinator::{Clock, Coordinator, Options, http};
use tokio::runtime::Runtime;
use tower::ServiceExt;

/// So many requests go to one coordinator, which then makes room for a new one: members and episodes add up.
const REQUESTS: usize = 2000;
/// The largest answer that is read.
const LARGEST: usize = 64 << 20;

/// A coordinator with one member.
pub struct Edge {
    runtime: Runtime,
    coordinator: Coordinator,
    router: Router,
    member: AgentId,
    left: usize,
}

thread_local! {
    static EDGE: RefCell<Option<Edge>> = const { RefCell::new(None) };
}

/// Asks the coordinator of this thread.
pub fn with(ask: impl FnOnce(&Edge)) {
    EDGE.with_borrow_mut(|edge| {
        let edge = edge.get_or_insert_with(Edge::new);
        if edge.left == 0 {
            *edge = Edge::new();
        }
        edge.left -= 1;
        ask(edge);
        if edge.coordinator.agent(edge.member).is_err() {
            // It left, or was removed: nobody would answer its next messages.
            edge.left = 0;
        }
        assert!(edge.coordinator.ready(), "the store has failed");
        assert!(edge.coordinator.audit(), "the sums are not those of the members");
    });
}

impl Edge {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let coordinator = Coordinator::open(Options::default(), Clock::manual()).expect("defaults are good");
        let register = serde_json::json!({"name": "a", "pool": "default", "category": "cpu"});
        let register = serde_json::from_value(register).expect("a registration");
        let member = runtime.block_on(coordinator.register(register)).expect("a member").agent;
        let router = http::router(coordinator.clone());
        Self { runtime, coordinator, router, member, left: REQUESTS }
    }

    /// Makes a request and looks at the answer: never a failure of the server, and every refusal a problem that says the
    /// same status. A `{id}` in the path stands for the member.
    pub fn ask(&self, method: Method, path: &str, headers: &[(&str, &[u8])], body: Vec<u8>) {
        let Ok(uri) = path.replace("{id}", &self.member.to_string()).parse::<Uri>() else { return };
        let token = format!("Bearer {}", self.coordinator.token());
        let mut request = Request::builder().method(method).uri(uri).header("authorization", token);
        for (name, value) in headers {
            let Ok(value) = HeaderValue::from_bytes(value) else { return };
            request = request.header(*name, value);
        }
        let Ok(request) = request.body(Body::from(body)) else { return };
        self.runtime.block_on(async {
            let Ok(response) = self.router.clone().oneshot(request).await;
            let status = response.status();
            assert!(!status.is_server_error(), "{status}");
            if status.is_client_error() {
                let body = to_bytes(response.into_body(), LARGEST).await.expect("a whole body");
                let problem: Problem = serde_json::from_slice(&body).expect("a problem");
                assert_eq!(problem.status, status.as_u16());
                assert!(!problem.detail.is_empty());
            }
        });
    }
}
