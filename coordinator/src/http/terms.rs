//! The terms of an order, as a request states them: `If-Match`, `If-None-Match` and `?dry_run=true`; who asks is known by the token.
//!
//! A query parameter that does not exist is refused: whoever mistypes `dry_run` must not find the change made.

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use meanfield_common::{digest::Digest, invalid::Invalid};
use serde::Serialize;
use utoipa::IntoParams;

use super::{
    agents::encode,
    problem::{Refusal, respond},
    query::{pairs, unknown},
};
use crate::{
    access::Caller,
    coordinator::Coordinator,
    error::Error,
    orders::{Match, Order, Ordered, Resource, Terms},
    view::Standing,
};

/// In the document: the query of every change.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DryRun {
    /// Check the change and answer what would happen, without doing it.
    #[allow(dead_code)] // read from the query by hand, so that refusals name the parameter
    dry_run: Option<bool>,
}

/// In the document: the condition of every change.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
pub struct IfMatch {
    /// Make the change only if the state has one of these entity tags; `*` is for any.
    #[allow(dead_code)] // read from the headers by hand
    #[param(rename = "If-Match")]
    if_match: Option<String>,
    /// Make the change only if the state has none of these entity tags; `*` is for what is not there yet.
    #[allow(dead_code)] // read from the headers by hand
    #[param(rename = "If-None-Match")]
    if_none_match: Option<String>,
}

impl FromRequestParts<Coordinator> for Terms {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, coordinator: &Coordinator) -> Result<Self, Response> {
        let Dry(dry_run) = Dry::from_request_parts(parts, coordinator).await?;
        let [if_match, if_none_match] =
            [header::IF_MATCH, header::IF_NONE_MATCH].map(|name| condition(&parts.headers, &name));
        Ok(Self { actor: None, if_match, if_none_match, dry_run })
    }
}

/// The one term of a change of what has no entity tag: whether it shall only be tried.
#[derive(Debug, Clone, Copy)]
pub struct Dry(pub bool);

impl FromRequestParts<Coordinator> for Dry {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, coordinator: &Coordinator) -> Result<Self, Response> {
        dry_run(parts).map(Self).map_err(|refusal| refusal.respond(coordinator))
    }
}

fn dry_run(parts: &Parts) -> Result<bool, Refusal> {
    let mut dry_run = false;
    for (key, value) in pairs(parts)? {
        if key != "dry_run" {
            return Err(unknown(&key, "dry_run"));
        }
        let parsed = value.parse();
        dry_run = parsed.map_err(|_| Invalid::new("dry_run", format!("{value:?}"), "true or false"))?;
    }
    Ok(dry_run)
}

/// The tags of all headers of a name. Those that are not of our making match nothing, nor do weak ones in `If-Match`
/// (RFC 9110, 13.1.1 and 13.1.2).
fn condition(headers: &HeaderMap, name: &HeaderName) -> Option<Match> {
    let given: Vec<_> = headers.get_all(name).iter().collect();
    if given.is_empty() {
        return None;
    }
    let values = given.iter().filter_map(|value| value.to_str().ok());
    let tags: Vec<&str> = values.flat_map(|value| value.split(',')).map(str::trim).collect();
    if tags.contains(&"*") {
        return Some(Match::Any);
    }
    let strong = |tag: &str| tag.strip_prefix('"')?.strip_suffix('"')?.parse::<Digest>().ok();
    let tag = |tag: &&str| match tag.strip_prefix("W/") {
        Some(weak) => strong(weak).filter(|_| *name == header::IF_NONE_MATCH),
        None => strong(tag),
    };
    Some(Match::Tags(tags.iter().filter_map(tag).collect()))
}

/// Carries out an order and answers: nothing but the new tag, or, of a dry run, what would happen.
pub(super) async fn order(coordinator: &Coordinator, caller: &Caller, order: Order, terms: Terms) -> Response {
    let ordered = coordinator.order(order, terms.of(caller)).await;
    respond(coordinator, answer(ordered))
}

pub(super) fn answer(ordered: Result<Ordered, Error>) -> Result<Response, Refusal> {
    let ordered = ordered.map_err(Refusal::from)?;
    if ordered.dry_run {
        return encode(StatusCode::OK, &ordered);
    }
    Ok(tagged(StatusCode::NO_CONTENT.into_response(), ordered.etag))
}

/// The same for what has more to say than that it is done.
pub(super) fn detailed<B: Serialize>(
    ordered: Result<Ordered, Error>,
    status: StatusCode,
    body: impl FnOnce(&Ordered) -> B,
) -> Result<Response, Refusal> {
    let ordered = ordered.map_err(Refusal::from)?;
    if ordered.dry_run {
        return encode(StatusCode::OK, &ordered);
    }
    Ok(tagged(encode(status, &body(&ordered))?, ordered.etag))
}

/// Answers with a state and its tag.
pub(super) fn standing(coordinator: &Coordinator, resource: &Resource) -> Response {
    let found = coordinator.standing(resource).map_err(Refusal::from);
    respond(coordinator, found.and_then(|(standing, tag): (Standing, _)| shown(&standing, tag)))
}

/// Answers with a view of what can be ordered, and the tag of its state.
pub(super) fn show<V: Serialize>(
    coordinator: &Coordinator,
    resource: &Resource,
    view: impl FnOnce() -> Result<V, Error>,
) -> Response {
    let found: Result<_, Error> = coordinator.at_once(|| Ok((view()?, coordinator.standing(resource)?.1)));
    respond(coordinator, found.map_err(Refusal::from).and_then(|(view, tag)| shown(&view, tag)))
}

/// A body with its state's tag.
pub(super) fn shown(body: &impl Serialize, tag: Option<Digest>) -> Result<Response, Refusal> {
    Ok(tagged(encode(StatusCode::OK, body)?, tag))
}

pub(super) fn tagged(mut response: Response, tag: Option<Digest>) -> Response {
    let value = tag.and_then(|tag| HeaderValue::from_str(&format!("\"{tag}\"")).ok());
    if let Some(value) = value {
        response.headers_mut().insert(header::ETAG, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_header(name: &HeaderName, values: &[&str]) -> Option<Match> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, value.parse().unwrap());
        }
        condition(&headers, name)
    }

    fn conditions(values: &[&str]) -> Option<Match> {
        of_header(&header::IF_MATCH, values)
    }

    #[test]
    fn only_strong_tags_of_ours_match() {
        let digest = Digest::of(b"a");
        assert_eq!(conditions(&[]), None);
        assert_eq!(conditions(&["\"other\", *"]), Some(Match::Any));
        assert_eq!(conditions(&[&format!("\"other\", \"{digest}\"")]), Some(Match::Tags(vec![digest])));
        assert_eq!(conditions(&[&format!("W/\"{digest}\"")]), Some(Match::Tags(vec![])));
        assert_eq!(conditions(&["", &format!("\"{digest}\"")]), Some(Match::Tags(vec![digest])));
        let weak = of_header(&header::IF_NONE_MATCH, &[&format!("W/\"{digest}\"")]);
        assert_eq!(weak, Some(Match::Tags(vec![digest])), "what is much the same is no reason to make it again");
        assert_eq!(of_header(&header::IF_NONE_MATCH, &["*"]), Some(Match::Any));
    }
}
