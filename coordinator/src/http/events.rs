//! Server-sent events of everything that happens: `GET /v1/events`.
//!
//! Each event has an id; a reader that comes back with the last one in `Last-Event-ID` is told what came since, as far as it
//! is kept, and how much is not. A reader that is too slow is told so and let go.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::{FromRequestParts, State},
    http::request::Parts,
    response::{
        IntoResponse, Response,
        sse::{Event as Frame, KeepAlive, Sse},
    },
};
use futures_util::stream::{self, Stream, StreamExt};
use meanfield_common::invalid::Invalid;

use super::{auth::Reader, openapi::Watching, problem::Refusal, query};
use crate::{
    coordinator::Coordinator,
    events::{Event, Filter},
};

/// How often something is sent where nothing happens, so that nobody in between cuts the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Watch what happens, as server-sent events.
#[utoipa::path(
    get,
    path = "/v1/events",
    operation_id = "watch_events",
    tag = "events",
    params(
        ("pool" = Option<String>, Query, description = "Only of this pool, and what is about everybody"),
        ("kind" = Option<String>, Query, description = "Only of these kinds, with commas between them"),
        ("Last-Event-ID" = Option<u64>, Header, description = "Go on after this id"),
    ),
    responses(
        (status = 200, description = "Events, until the reader or the coordinator ends them", body = Event,
         content_type = "text/event-stream"),
        Watching
    ),
    security(("token" = ["reader"]))
)]
pub async fn watch(State(coordinator): State<Coordinator>, _: Reader, wish: Wish) -> Response {
    let frames = frames(coordinator, wish);
    Sse::new(frames).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

fn frames(coordinator: Coordinator, wish: Wish) -> impl Stream<Item = Result<Frame, Infallible>> {
    let reader = coordinator.events(wish.after, wish.filter);
    let batches = stream::unfold((coordinator, reader), |(coordinator, mut reader)| async move {
        let events = coordinator.next_events(&mut reader).await?;
        Some((events, (coordinator, reader)))
    });
    batches.flat_map(|events| stream::iter(events.into_iter().map(|event| Ok(frame(&event)))))
}

fn frame(event: &Event) -> Frame {
    // Events are made of numbers and checked names, which always serialise.
    let data = serde_json::to_string(event).unwrap_or_default();
    Frame::default().id(event.id.to_string()).event(event.kind.name()).data(data)
}

/// What a reader wants.
#[derive(Debug)]
pub struct Wish {
    filter: Filter,
    after: Option<u64>,
}

impl FromRequestParts<Coordinator> for Wish {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, coordinator: &Coordinator) -> Result<Self, Response> {
        Self::parse(parts, coordinator).map_err(|refusal| refusal.respond(coordinator))
    }
}

impl Wish {
    fn parse(parts: &Parts, coordinator: &Coordinator) -> Result<Self, Refusal> {
        let mut filter = Filter::default();
        for (key, value) in query::pairs(parts)? {
            match key.as_str() {
                "pool" => {
                    let pool = value.parse()?;
                    coordinator.pool(&pool)?;
                    filter.pool = Some(pool);
                }
                "kind" => {
                    for kind in value.split(',') {
                        filter.kinds.push(kind.parse()?);
                    }
                }
                _ => return Err(query::unknown(&key, "pool, kind")),
            }
        }
        let after = match parts.headers.get("last-event-id") {
            None => None,
            Some(id) => {
                let parsed = id.to_str().ok().and_then(|id| id.trim().parse().ok());
                let bound = "the id of an earlier event";
                Some(parsed.ok_or_else(|| Invalid::new("Last-Event-ID", format!("{id:?}"), bound))?)
            }
        };
        Ok(Self { filter, after })
    }
}
