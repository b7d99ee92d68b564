//! What a request brings: a JSON body, a file, an id or a pool in the path. Each refuses with the field and the bound.

use std::{
    future::{Future, poll_fn},
    mem,
    pin::pin,
    str::FromStr,
    task::Poll,
    time::Duration,
};

use axum::{
    BoxError,
    body::{Bytes, HttpBody},
    extract::{FromRequest, FromRequestParts, Path, Request},
    http::{HeaderMap, header, request::Parts},
    response::Response,
};
use http_body_util::{BodyExt, Collected, LengthLimitError, Limited};
use meanfield_common::{
    identity::{AgentId, ModelName, PoolName},
    invalid::Invalid,
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::problem::{Kind, Refusal};
use crate::{access::TokenId, coordinator::Coordinator, options::Limits};

/// A JSON body of bounded size.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Coordinator> for Json<T> {
    type Rejection = Response;

    async fn from_request(request: Request, coordinator: &Coordinator) -> Result<Self, Response> {
        read(request, &coordinator.options().limits).await.map(Self).map_err(|refusal| refusal.respond(coordinator))
    }
}

/// A file of at most so many bytes.
#[derive(Debug)]
pub struct File<const LIMIT: usize>(pub Bytes);

impl<const LIMIT: usize> FromRequest<Coordinator> for File<LIMIT> {
    type Rejection = Response;

    async fn from_request(request: Request, coordinator: &Coordinator) -> Result<Self, Response> {
        let time = coordinator.options().limits.body_time;
        let bytes = bytes(request, "application/octet-stream", LIMIT, time).await;
        bytes.map(Self).map_err(|refusal| refusal.respond(coordinator))
    }
}

pub(super) async fn read<T, B>(request: Request<B>, limits: &Limits) -> Result<T, Refusal>
where
    T: DeserializeOwned,
    B: HttpBody<Error: Into<BoxError>>,
{
    let bytes = bytes(request, "application/json", limits.body, limits.body_time).await?;
    serde_json::from_slice(&bytes).map_err(|_| explain::<T>(&bytes))
}

/// A body of one media type, of bounded size, and there within some time.
pub(super) async fn bytes<B: HttpBody<Error: Into<BoxError>>>(
    request: Request<B>,
    media_type: &'static str,
    limit: usize,
    time: Duration,
) -> Result<Bytes, Refusal> {
    let too_large = |size: String| {
        let refusal = Refusal::new(Kind::BodyTooLarge, format!("the body has {size} bytes"));
        refusal.blame("body").bound(format!("at most {limit} bytes"))
    };
    let headers = request.headers();
    if !is(headers, media_type) {
        let given = headers.get(header::CONTENT_TYPE).map_or("none".into(), |value| format!("{value:?}"));
        return Err(Refusal::new(Kind::UnsupportedMediaType, format!("the content type is {given}"))
            .blame("content-type")
            .bound(media_type));
    }
    // What the head announces, if it does.
    let announced = request.body().size_hint().exact();
    if let Some(length) = announced.filter(|length| *length > limit as u64) {
        return Err(too_large(length.to_string()));
    }
    let Some(read) = within(time, Limited::new(request.into_body(), limit).collect()).await else {
        return Err(slow(time));
    };
    read.map(Collected::to_bytes).map_err(|error| {
        if error.is::<LengthLimitError>() {
            too_large(format!("more than {limit}"))
        } else {
            Refusal::new(Kind::UnreadableBody, format!("the body cannot be read: {error}"))
        }
    })
}

/// That a body, or a part of it, was not there in time.
pub(super) fn slow(time: Duration) -> Refusal {
    let refusal = Refusal::new(Kind::SlowBody, "the body did not come to its end in time");
    refusal.blame("body").bound(format!("there within {} s", time.as_secs_f64()))
}

/// What comes of some work, if it is done in time. A body that has come with its head is handed over when it is asked for
/// a second time, so only then is a timer set up, which costs more than to read a heartbeat. One that has not come
/// is asked for again when anything of it does, or when the connection looks after itself, which it does within its
/// own shortest limit ([`crate::server`]).
async fn within<T>(time: Duration, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut asked) = (pin!(work), false);
    let first = poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if mem::replace(&mut asked, true) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    });
    match first.await {
        Some(done) => Some(done),
        None => timeout(time, work).await.ok(),
    }
}

pub(super) fn is(headers: &HeaderMap, media_type: &str) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return false };
    let essence = value.as_bytes().split(|&byte| byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(media_type.as_bytes())
}

/// Why a body cannot be read: parses it again, this time keeping track of where in it we are.
pub(super) fn explain<T: DeserializeOwned>(bytes: &[u8]) -> Refusal {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Ok(_) => match reader.end() {
            Ok(()) => Refusal::new(Kind::MalformedJson, "the body is not JSON"),
            Err(error) => Refusal::new(Kind::MalformedJson, error.to_string()),
        },
        Err(error) => {
            let path = error.path().to_string();
            classify(&path, &error.into_inner())
        }
    }
}

fn classify(path: &str, error: &serde_json::Error) -> Refusal {
    let text = error.to_string();
    // JSON has no bound for numbers, but a float has: that is a bad value in a well-formed text.
    let too_big = text.starts_with("number out of range");
    if !error.is_data() && !too_big {
        return Refusal::new(Kind::MalformedJson, text);
    }
    let place = format!(" at line {} column {}", error.line(), error.column());
    let reason = text.strip_suffix(&place).unwrap_or(&text);
    let named = |kind, name: &str| Refusal::new(kind, text.clone()).blame(join(path, name));
    if let Some(name) = backticked(reason, "missing field ") {
        return named(Kind::MissingField, name);
    }
    if let Some(name) = backticked(reason, "unknown field ") {
        let refusal = named(Kind::UnknownField, name);
        return match reason.rsplit_once(", expected ") {
            Some((_, expected)) => refusal.bound(expected),
            None => refusal,
        };
    }
    if let Some(name) = backticked(reason, "duplicate field ") {
        return named(Kind::InvalidValue, name).bound("given once");
    }
    let bound = if too_big {
        Some("a finite number")
    } else {
        // The value comes first and may hold any words, so the last ones count: serde's own, or else an `Invalid`'s.
        let from_serde = ["invalid ", "unknown variant "].iter().any(|phrase| reason.starts_with(phrase));
        reason.rsplit_once(if from_serde { ", expected " } else { " is not " }).map(|(_, bound)| bound)
    };
    let refusal = Refusal::new(Kind::InvalidValue, text.clone()).blame(path);
    match bound {
        Some(bound) => refusal.bound(bound),
        None => refusal,
    }
}

/// The name in backticks behind a phrase.
fn backticked<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    text.strip_prefix(phrase)?.strip_prefix('`')?.split('`').next()
}

/// A field's path, given that of its object. Some errors are raised with the field already in the path.
fn join(path: &str, name: &str) -> String {
    if path == "." || path.is_empty() {
        name.to_owned()
    } else if path == name || path.ends_with(&format!(".{name}")) {
        path.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// The agent in the path.
#[derive(Debug, Clone, Copy)]
pub struct Agent(pub AgentId);

impl FromRequestParts<Coordinator> for Agent {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, coordinator: &Coordinator) -> Result<Self, Response> {
        match Path::<AgentId>::from_request_parts(parts, coordinator).await {
            Ok(Path(id)) => Ok(Self(id)),
            Err(_) => segment(parts, coordinator).await.map(Self),
        }
    }
}

/// The pool in the path.
#[derive(Debug, Clone)]
pub struct Pool(pub PoolName);

impl FromRequestParts<Coordinator> for Pool {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, coordinator: &Coordinator) -> Result<Self, Response> {
        segment(parts, coordinator).await.map(Self)
    }
}

/// The base model in the path.
#[derive(Debug, Clone)]
pub struct Model(pub ModelName);

impl FromRequestParts<Coordinator> for Model {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, coordinator: &Coordinator) -> Result<Self, Response> {
        segment(parts, coordinator).await.map(Self)
    }
}

/// The token's id in the path.
#[derive(Debug, Clone, Copy)]
pub struct Token(pub TokenId);

impl FromRequestParts<Coordinator> for Token {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, coordinator: &Coordinator) -> Result<Self, Response> {
        segment(parts, coordinator).await.map(Self)
    }
}

async fn segment<T>(parts: &mut Parts, coordinator: &Coordinator) -> Result<T, Response>
where
    T: FromStr<Err = Invalid>,
{
    let text = Path::<String>::from_request_parts(parts, coordinator).await;
    text.map_err(|error| Refusal::new(Kind::InvalidValue, error.to_string()).blame("path").bound("UTF-8"))
        .and_then(|Path(text)| text.parse().map_err(Refusal::from))
        .map_err(|refusal| refusal.respond(coordinator))
}
