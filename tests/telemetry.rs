//! Traces from outside: a step of an agent and what it causes in the coordinator share ids in the exported spans, in both
//! logs and in refusals; what nobody takes is given up and counted.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    thread,
};

use axum::{Router, http::StatusCode, routing::post};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio::{net::TcpListener, runtime::Builder};

use crate::support::{Coordinator, Process, eventually};

/// Somebody who collects traces, and answers with one status.
struct Collector {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    fn start(status: StatusCode) -> Self {
        let requests = Arc::<Mutex<Vec<Value>>>::default();
        let (taken, runtime) = (Arc::clone(&requests), Builder::new_current_thread().enable_all().build().unwrap());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let take = move |body: String| async move {
            taken.lock().unwrap().push(serde_json::from_str(&body).unwrap());
            (status, "{}")
        };
        let router = Router::new().route("/v1/traces", post(take));
        // It ends with the tests.
        thread::spawn(move || runtime.block_on(async { axum::serve(listener, router).await }));
        Self { address, requests }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The spans that a service has sent.
    fn spans(&self, service: &str) -> Vec<Value> {
        let mut spans = Vec::new();
        for request in self.requests.lock().unwrap().iter() {
            let resource = &request["resourceSpans"][0];
            if resource["resource"]["attributes"][0]["value"]["stringValue"] == service {
                spans.extend(resource["scopeSpans"][0]["spans"].as_array().unwrap().clone());
            }
        }
        spans
    }
}

/// Those of a name.
fn named<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

fn number(span: &Value, field: &str) -> u128 {
    span[field].as_str().unwrap().parse().unwrap()
}

/// The lines of a JSON log with this message.
fn lines(process: &Process, message: &str) -> Vec<Value> {
    let log = process.log();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{line}")));
    lines.filter(|line| line["fields"]["message"] == message).collect()
}

fn metric(metrics: &str, name: &str) -> u64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name}: {metrics}")).parse().unwrap()
}

const HEARTBEAT: &str = "POST /v1/agents/{id}/heartbeat";

#[test]
fn a_heartbeat_is_followed_from_the_agent_to_the_coordinator() {
    let (data, collector) = (tempdir().unwrap(), Collector::start(StatusCode::OK));
    let url = collector.url();
    let flags = ["--otlp-endpoint", &url, "--log-format", "json", "--log", "info,meanfield_coordinator=debug"];
    let mut coordinator = Coordinator::start(data.path(), &flags);
    let mut agent = coordinator.agent(&[&flags[..], &["--function", "primes", "--steps", "3"]].concat());
    assert!(agent.wait().success());
    // Flushed at its end: all of it is there now.
    let ours = collector.spans("meanfield-agent");
    assert!(coordinator.process.terminate().success());
    let theirs = collector.spans("meanfield-coordinator");

    let steps = named(&ours, "step");
    assert_eq!(steps.len(), 3, "{ours:?}");
    assert!(steps.iter().all(|step| step["kind"] == 1 && step["parentSpanId"] == Value::Null));
    let mut traces: Vec<_> = steps.iter().map(|step| step["traceId"].as_str().unwrap()).collect();
    for step in &steps {
        let of_it = |span: &&&Value| span["traceId"] == step["traceId"];
        let calls = named(&ours, HEARTBEAT);
        let call = calls.iter().find(of_it).unwrap();
        assert_eq!((&call["parentSpanId"], &call["kind"]), (&step["spanId"], &json!(3)));
        let served = named(&theirs, HEARTBEAT);
        let served = served.iter().find(of_it).unwrap();
        assert_eq!((&served["parentSpanId"], &served["kind"]), (&call["spanId"], &json!(2)));
        assert_ne!(served["spanId"], call["spanId"]);
        let status = json!({ "key": "http.response.status_code", "value": { "intValue": "200" } });
        for span in [call, served] {
            assert!(span["attributes"].as_array().unwrap().contains(&status), "{span}");
        }
        assert!(number(step, "startTimeUnixNano") <= number(call, "startTimeUnixNano"));
        assert!(number(call, "endTimeUnixNano") <= number(step, "endTimeUnixNano"));
    }
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len(), 3, "each step has a trace of its own");

    // The first step registers, which both sides know by the same id.
    let registered = lines(&agent, "registered");
    let trace = &registered[0]["span"]["trace_id"];
    let served = named(&theirs, "POST /v1/agents");
    assert_eq!((&served[0]["traceId"], served.len()), (trace, 1));
}

#[test]
fn a_refusal_and_its_line_in_the_log_have_the_caller_s_id() {
    let data = tempdir().unwrap();
    let flags = ["--log-format", "json", "--log", "info,meanfield_coordinator=debug"];
    let coordinator = Coordinator::start(data.path(), &flags);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let refused = |header: Option<&str>| -> Value {
        let path = "/v1/agents/00000000-0000-0000-0000-000000000000/heartbeat";
        let client = Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let request = client.request(Method::POST, coordinator.url() + path).bearer_auth(coordinator.token());
        let request = header.into_iter().fold(request, |request, header| request.header("traceparent", header));
        runtime.block_on(async { request.json(&json!({})).send().await?.json().await }).unwrap()
    };
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let problem = refused(Some(&format!("00-{trace}-b7ad6b7169203331-01")));
    assert_eq!(problem["trace_id"], trace, "{problem}");
    // One that is not as it should be is no reason to refuse anything else, and gets another.
    for bad in [None, Some("nonsense"), Some("00-0af7651916cd43dd8448eb211c80319C-b7ad6b7169203331-01")] {
        let other = refused(bad);
        assert_eq!(other["type"], problem["type"]);
        assert!(other["trace_id"].as_str().is_some_and(|id| id.len() == 32 && id != trace), "{other}");
    }
    let logged = lines(&coordinator.process, "refused");
    assert_eq!((logged.len(), &logged[0]["span"]["trace_id"]), (4, &json!(trace)), "{logged:?}");
    assert_eq!(logged[0]["span"]["parent_id"], "b7ad6b7169203331");
}

#[test]
fn traces_that_nobody_takes_are_given_up_and_counted_and_nobody_waits() {
    let (data, collector) = (tempdir().unwrap(), Collector::start(StatusCode::BAD_REQUEST));
    let url = collector.url();
    let coordinator = Coordinator::start(data.path(), &["--otlp-endpoint", &url]);
    // Nobody listens where this one sends its traces.
    let nobody = ["--otlp-endpoint", "http://127.0.0.1:9", "--metrics-listen", "127.0.0.1:0", "--function", "primes"];
    let mut agent = coordinator.agent(&nobody);
    coordinator.await_members(&["primes"], 5);
    eventually("what was refused is counted", || {
        let metrics = coordinator.metrics();
        assert_eq!(metric(&metrics, "meanfield_coordinator_spans_exported_total"), 0);
        (metric(&metrics, "meanfield_coordinator_spans_dropped_total") > 0).then_some(())
    });
    assert!(!collector.spans("meanfield-coordinator").is_empty());
    assert!(agent.terminate().success(), "it ends although its collector is away");
}
