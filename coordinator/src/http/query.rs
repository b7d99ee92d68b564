//! Queries of lists: pairs that are read one by one, so that each refusal names its parameter.

use std::str::FromStr;

use axum::{
    extract::{FromRequestParts, Query},
    http::request::Parts,
    response::Response,
};
use meanfield_common::{identity::PoolName, invalid::Invalid};

use super::problem::{Kind, Refusal};
use crate::coordinator::Coordinator;

/// How many are listed when nothing is said, and at most.
pub(super) const DEFAULT_LIMIT: usize = 100;
pub(super) const LARGEST_LIMIT: usize = 1000;

/// The pairs of a request's query.
pub(super) fn pairs(parts: &Parts) -> Result<Vec<(String, String)>, Refusal> {
    let query = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
    let query = query.map_err(|error| Refusal::new(Kind::InvalidValue, error.to_string()).blame("query"))?;
    Ok(query.0)
}

/// A page of things that are listed in order of their names: `limit`, `after` and `prefix`.
#[derive(Debug)]
pub struct ByName {
    limit: usize,
    after: Option<PoolName>,
    prefix: Option<String>,
}

impl FromRequestParts<Coordinator> for ByName {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, coordinator: &Coordinator) -> Result<Self, Response> {
        pairs(parts).and_then(Self::parse).map_err(|refusal| refusal.respond(coordinator))
    }
}

impl ByName {
    fn parse(pairs: Vec<(String, String)>) -> Result<Self, Refusal> {
        // More of them than a page holds are rare.
        let mut page = Self { limit: LARGEST_LIMIT, after: None, prefix: None };
        for (key, value) in pairs {
            match key.as_str() {
                "limit" => page.limit = limit(&value)?,
                "after" => {
                    // All names are of one form.
                    let bound = "the `next` of an earlier page";
                    let place = value.parse().map_err(|_| Invalid::new("after", format!("{value:?}"), bound))?;
                    page.after = Some(place);
                }
                "prefix" => page.prefix = Some(value),
                _ => return Err(unknown(&key, "limit, after, prefix")),
            }
        }
        Ok(page)
    }

    /// Leaves the page of all that there are, in order of their names, and says whether there are more. The place stays good
    /// when what it names was removed.
    pub(super) fn of<T>(&self, all: &mut Vec<T>, name: impl Fn(&T) -> &str) -> bool {
        all.retain(|one| {
            let wanted = self.prefix.as_ref().is_none_or(|prefix| name(one).starts_with(prefix));
            wanted && self.after.as_ref().is_none_or(|after| after.as_str() < name(one))
        });
        let more = all.len() > self.limit;
        all.truncate(self.limit);
        more
    }
}

/// A parameter that does not exist.
pub(super) fn unknown(key: &str, known: &str) -> Refusal {
    Refusal::new(Kind::UnknownField, format!("there is no query parameter {key:?}"))
        .blame(key)
        .bound(if known.contains(',') { format!("one of {known}") } else { known.to_owned() })
}

/// How many to list.
pub(super) fn limit(value: &str) -> Result<usize, Refusal> {
    let limit = value.parse().ok().filter(|limit| (1..=LARGEST_LIMIT).contains(limit));
    let bound = || format!("a whole number within [1, {LARGEST_LIMIT}]");
    Ok(limit.ok_or_else(|| Invalid::new("limit", format!("{value:?}"), bound()))?)
}

/// A number.
pub(super) fn number<T: FromStr>(field: &str, value: &str) -> Result<T, Refusal> {
    let parsed = value.parse().map_err(|_| Invalid::new(field, format!("{value:?}"), "a whole number from 0 on"));
    Ok(parsed?)
}
