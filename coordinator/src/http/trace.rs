//! Requests as traces see them: a span each, which takes over the caller's ids from the header `traceparent`.
//!
//! It is opened around the router and not in a layer of it, which would cost each heartbeat an allocation. Spans of
//! heartbeats, probes and scrapes are made for whoever logs at `debug` or exports traces; while nobody does, a request
//! with the header costs reading it, and one without it a look. A refusal names the trace that it belongs to.

use std::{cell::LazyCell, convert::Infallible, future::Future, sync::LazyLock};

use axum::{
    body::Body,
    http::{HeaderName, Method, Request, Response},
};
use futures_util::future::Either;
use meanfield_common::trace::{Context, HEADER};
use tracing::{Instrument, Level, Span, field::Empty};

/// Made once: a name that is text is looked up anew each time.
const TRACEPARENT: HeaderName = HeaderName::from_static(HEADER);

tokio::task_local! {
    /// What the request of this task belongs to.
    static CURRENT: Option<Context>;
}

/// What the request that is being answered belongs to, if anybody knows.
pub(crate) fn current() -> Option<Context> {
    CURRENT.try_with(|context| *context).ok().flatten()
}

/// Answers a request within its span.
pub(crate) fn follow<B, F>(
    request: Request<B>,
    answer: impl FnOnce(Request<B>) -> F,
) -> impl Future<Output = Result<Response<Body>, Infallible>>
where
    F: Future<Output = Result<Response<Body>, Infallible>>,
{
    let caller = request.headers().get(TRACEPARENT).and_then(|header| Context::parse(header.as_bytes()));
    let (span, context) = open(request.method(), request.uri().path(), caller);
    let answer = answer(request);
    // Nobody looks, so nobody pays.
    if span.is_disabled() && context.is_none() {
        return Either::Left(answer);
    }
    let answer = CURRENT.scope(context, answer);
    let traced = async move {
        let answer = answer.await;
        if let Ok(response) = &answer {
            Span::current().record("status", response.status().as_u16());
        }
        answer
    };
    Either::Right(traced.instrument(span))
}

fn open(method: &Method, path: &str, caller: Option<Context>) -> (Span, Option<Context>) {
    let quiet = is_frequent(path);
    // Made only for a span that somebody wants.
    let own = LazyCell::new(|| match caller {
        Some(caller) => caller.child(random()),
        // Whoever reports without a trace is not asked to be followed; others come now and then.
        None => Context::new(random(), !quiet),
    });
    macro_rules! request {
        ($level:expr) => {
            tracing::span!(
                $level,
                "request",
                trace_id = %own.trace,
                span_id = %own.span,
                parent_id = caller.map(|caller| display(caller.span)),
                sampled = own.sampled,
                method = %method,
                route = route(path),
                status = Empty
            )
        };
    }
    let span = if quiet { request!(Level::DEBUG) } else { request!(Level::INFO) };
    let context = if span.is_disabled() { caller } else { Some(*own) };
    (span, context)
}

/// What comes all the time: heartbeats, probes and scrapes.
fn is_frequent(path: &str) -> bool {
    path.ends_with("/heartbeat") || path == "/v1/heartbeats" || !path.starts_with("/v1/")
}

/// The route that a path belongs to, which is the same for all agents and pools.
fn route(path: &str) -> &'static str {
    static ROUTES: LazyLock<Vec<String>> =
        LazyLock::new(|| super::documented().into_openapi().paths.paths.into_keys().collect());
    let fits = |route: &&String| {
        let mut parts = path.split('/');
        route.split('/').all(|known| parts.next().is_some_and(|part| part == known || known.starts_with('{')))
            && parts.next().is_none()
    };
    // Of two that fit, the one with fewer names in braces is meant.
    let found = ROUTES.iter().filter(fits).min_by_key(|route| route.matches('{').count());
    found.map_or("unknown", String::as_str)
}

/// Random bytes for an id. Without randomness ids are alike, which harms nothing but traces.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let _ = getrandom::fill(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use std::{
        fmt::Debug,
        sync::{Arc, Mutex},
    };

    use axum::{
        body::to_bytes,
        http::{StatusCode, header},
    };
    use meanfield_common::wire::Problem;
    use tower::ServiceExt;
    use tracing::{
        Event, Metadata,
        field::Visit,
        span,
        subscriber::{Interest, with_default},
    };

    use super::*;
    use crate::{Clock, Coordinator, Options};

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    fn heartbeat(coordinator: &Coordinator, trace: Option<&str>) -> Request<Body> {
        let path = "/v1/agents/00000000-0000-0000-0000-000000000000/heartbeat";
        let token = format!("Bearer {}", coordinator.token());
        let request = Request::post(path).header(header::AUTHORIZATION, token);
        let request = trace.into_iter().fold(request, |request, trace| request.header(HEADER, trace));
        request.header(header::CONTENT_TYPE, "application/json").body(Body::from("{}")).unwrap()
    }

    async fn refused(trace: Option<&str>) -> Problem {
        let coordinator = Coordinator::open(Options::default(), Clock::manual()).unwrap();
        let router = super::super::router(coordinator.clone());
        let answer = follow(heartbeat(&coordinator, trace), |request| router.oneshot(request)).await.unwrap();
        assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
        serde_json::from_slice(&to_bytes(answer.into_body(), 1 << 16).await.unwrap()).unwrap()
    }

    #[tokio::test]
    async fn a_refusal_names_the_caller_s_trace_and_a_bad_header_harms_nobody() {
        assert_eq!(refused(Some(GIVEN)).await.trace_id.as_deref(), Some(TRACE));
        for bad in [None, Some(""), Some("00-0-0-0"), Some(&GIVEN[1..])] {
            assert_eq!(refused(bad).await.trace_id, None, "{bad:?}");
        }
        assert_eq!(current(), None);
    }

    #[test]
    fn while_nobody_looks_a_trace_allocates_nothing() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answer = |trace: Option<&'static str>| {
            let coordinator = Coordinator::open(Options::default(), Clock::manual()).unwrap();
            let request = heartbeat(&coordinator, trace);
            let ready = Response::new(Body::empty());
            let mut ready = Some(ready);
            allocation_counter::measure(|| {
                runtime.block_on(async {
                    let answer = follow(request, |request| {
                        drop(request);
                        std::future::ready(Ok(ready.take().unwrap()))
                    });
                    answer.await.unwrap()
                });
            })
            .count_total
        };
        answer(None);
        assert_eq!([None, Some(GIVEN), Some("nonsense")].map(answer), [0; 3]);
    }

    #[test]
    fn routes_are_known_by_their_templates() {
        for (path, known) in [
            ("/v1/agents/5/heartbeat", "/v1/agents/{id}/heartbeat"),
            ("/v1/pools/a%2Fb", "/v1/pools/{pool}"),
            ("/v1/trajectories/samples", "/v1/trajectories/samples"),
            ("/v1/agents", "/v1/agents"),
            ("/v1/agents/", "/v1/agents/{id}"),
            ("/metrics", "/metrics"),
            ("/v1/nothing", "unknown"),
            ("", "unknown"),
        ] {
            assert_eq!(route(path), known, "{path}");
        }
    }

    /// Takes down the fields of all spans, and is interested in everything.
    #[derive(Clone, Default)]
    struct Notes(Arc<Mutex<Vec<(String, String)>>>);

    impl Visit for Notes {
        fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn Debug) {
            self.0.lock().unwrap().push((field.name().to_owned(), format!("{value:?}")));
        }
    }

    impl tracing::Subscriber for Notes {
        // Other tests, on other threads, have nobody who is interested.
        fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
            Interest::sometimes()
        }
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
            span.record(&mut self.clone());
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, values: &span::Record<'_>) {
            values.record(&mut self.clone());
        }
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, _: &Event<'_>) {}
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    #[test]
    fn a_span_takes_over_the_caller_s_ids_or_begins_a_trace() {
        let fields = |path: &str, caller: Option<Context>| {
            let notes = Notes::default();
            let (_, context) = with_default(notes.clone(), || open(&Method::POST, path, caller));
            let fields = notes.0.lock().unwrap().clone();
            let find = move |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.clone());
            (find, context.unwrap())
        };
        let caller = Context::parse(GIVEN.as_bytes()).unwrap();
        let (find, context) = fields("/v1/agents/5/heartbeat", Some(caller));
        assert_eq!((context.trace, context.sampled), (caller.trace, true));
        assert_ne!(context.span, caller.span);
        assert_eq!(find("trace_id").as_deref(), Some(TRACE));
        assert_eq!(find("parent_id").as_deref(), Some("b7ad6b7169203331"));
        assert_eq!(find("span_id"), Some(context.span.to_string()));
        // Heartbeats of agents that do not export are not exported here either; an operator's request is.
        let (find, context) = fields("/v1/agents/5/heartbeat", None);
        assert_eq!((find("parent_id"), context.sampled), (None, false));
        assert!(fields("/v1/pause", None).1.sampled);
    }
}
