//! The audit log: `GET /v1/audit`.

use axum::{
    extract::{FromRequestParts, State},
    http::{StatusCode, request::Parts},
    response::Response,
};

use super::{agents::encode, auth::Reader, openapi::Selecting, problem::respond, query};
use crate::{
    audit::{Filter, Page},
    coordinator::Coordinator,
    http::problem::Refusal,
};

/// List who ordered what, oldest first.
///
/// Without a filter, `meanfield ctl audit verify` follows the chain from the anchor to the head.
#[utoipa::path(
    get,
    path = "/v1/audit",
    operation_id = "list_audit",
    tag = "audit",
    params(
        ("limit" = Option<usize>, Query, description = "How many at most", minimum = 1, maximum = 1000),
        ("after" = Option<u64>, Query, description = "The `next` of the page before"),
        ("since" = Option<u64>, Query, description = "Only from then on, in milliseconds since 1970"),
        ("actor" = Option<String>, Query, description = "Only of this caller"),
        ("action" = Option<String>, Query, description = "Only this action, such as `capacity.set`"),
        ("target" = Option<String>, Query, description = "Only about this, or what is below it, such as `pools/default`"),
    ),
    responses((status = 200, description = "A page", body = Page), Selecting),
    security(("token" = ["reader"]))
)]
pub async fn list(State(coordinator): State<Coordinator>, _: Reader, selection: Selection) -> Response {
    let Selection { filter, after, limit } = selection;
    respond(&coordinator, encode(StatusCode::OK, &coordinator.audit_log(&filter, after, limit)))
}

/// Which entries to list.
#[derive(Debug)]
pub struct Selection {
    filter: Filter,
    after: u64,
    limit: usize,
}

impl FromRequestParts<Coordinator> for Selection {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, coordinator: &Coordinator) -> Result<Self, Response> {
        let parsed = query::pairs(parts).and_then(Self::parse);
        parsed.map_err(|refusal| refusal.respond(coordinator))
    }
}

impl Selection {
    fn parse(pairs: Vec<(String, String)>) -> Result<Self, Refusal> {
        let mut selection = Self { filter: Filter::default(), after: 0, limit: query::DEFAULT_LIMIT };
        let filter = &mut selection.filter;
        for (key, value) in pairs {
            match key.as_str() {
                "limit" => selection.limit = query::limit(&value)?,
                "after" => selection.after = query::number("after", &value)?,
                "since" => filter.since = Some(query::number("since", &value)?),
                "actor" => filter.actor = Some(value),
                "action" => filter.action = Some(value),
                "target" => filter.target = Some(value),
                _ => return Err(query::unknown(&key, "limit, after, since, actor, action, target")),
            }
        }
        Ok(selection)
    }
}
