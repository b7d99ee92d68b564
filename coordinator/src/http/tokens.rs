//! Tokens: `POST` and `GET /v1/tokens`, `GET` and `DELETE /v1/tokens/{id}`. For admins only.

use axum::{
    extract::{FromRequestParts, State},
    http::{StatusCode, header, request::Parts},
    response::Response,
};
use meanfield_common::invalid::Invalid;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    agents::encode,
    auth::Admin,
    body::{Json, Token},
    openapi::{Issuing, Revoking, TokenListing, TokenShowing},
    problem::{Refusal, respond},
    query,
    terms::{DryRun, IfMatch, answer, shown, tagged},
};
use crate::{
    access::{NewToken, TokenFilter, TokenId, TokenView},
    coordinator::{Coordinator, Made},
    orders::{Ordered, Terms},
};

/// A token that was just made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Issued {
    /// Its text, which is shown here and never again.
    pub token: String,
    /// What it stands for.
    #[serde(flatten)]
    pub view: TokenView,
}

/// Make a token. Its text is in the answer and nowhere else.
#[utoipa::path(
    post,
    path = "/v1/tokens",
    operation_id = "create_token",
    tag = "tokens",
    params(DryRun, IfMatch),
    request_body = NewToken,
    responses(
        (status = 201, description = "Made, durably", body = Issued, headers(("ETag" = String))),
        (status = 200, description = "A dry run: what would happen", body = Ordered),
        Issuing
    ),
    security(("token" = ["admin"]))
)]
pub async fn create(
    State(coordinator): State<Coordinator>,
    Admin(caller): Admin,
    terms: Terms,
    Json(new): Json<NewToken>,
) -> Response {
    let answer = coordinator.issue(new, terms.of(&caller)).await.map_err(Refusal::from).and_then(|made| match made {
        Made::Tried(ordered) => encode(StatusCode::OK, &ordered),
        Made::Token(text, view, tag) => {
            let answer = encode(StatusCode::CREATED, &Issued { token: text.expose().to_owned(), view })?;
            let mut answer = tagged(answer, Some(tag));
            answer.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
            Ok(answer)
        }
    });
    respond(&coordinator, answer)
}

/// One page of tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Tokens {
    /// In order of their ids.
    pub tokens: Vec<TokenView>,
    /// What to give as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<TokenId>,
}

/// List tokens, without their secrets.
#[utoipa::path(
    get,
    path = "/v1/tokens",
    operation_id = "list_tokens",
    tag = "tokens",
    params(
        ("limit" = Option<usize>, Query, description = "How many at most", minimum = 1, maximum = 1000),
        ("after" = Option<TokenId>, Query, description = "The `next` of the page before"),
        ("role" = Option<String>, Query, description = "Only tokens of this role: agent, reader, operator or admin"),
        ("pool" = Option<String>, Query, description = "Only agents' tokens of this pool, also if it is not there any more"),
        ("prefix" = Option<String>, Query, description = "Only tokens whose names begin so"),
    ),
    responses((status = 200, description = "A page", body = Tokens), TokenListing),
    security(("token" = ["admin"]))
)]
pub async fn list(State(coordinator): State<Coordinator>, _: Admin, selection: Selection) -> Response {
    let Selection { limit, after, filter } = selection;
    // One more than asked for tells whether there is another page.
    let mut tokens = coordinator.tokens(&filter, after, limit + 1);
    let more = tokens.len() > limit;
    tokens.truncate(limit);
    let next = tokens.last().filter(|_| more).map(|last| last.id);
    respond(&coordinator, encode(StatusCode::OK, &Tokens { tokens, next }))
}

/// Which tokens to list.
#[derive(Debug)]
pub struct Selection {
    limit: usize,
    after: Option<TokenId>,
    filter: TokenFilter,
}

impl FromRequestParts<Coordinator> for Selection {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, coordinator: &Coordinator) -> Result<Self, Response> {
        query::pairs(parts).and_then(Self::parse).map_err(|refusal| refusal.respond(coordinator))
    }
}

impl Selection {
    fn parse(pairs: Vec<(String, String)>) -> Result<Self, Refusal> {
        let mut selection = Self { limit: query::DEFAULT_LIMIT, after: None, filter: TokenFilter::default() };
        let filter = &mut selection.filter;
        for (key, value) in pairs {
            match key.as_str() {
                "limit" => selection.limit = query::limit(&value)?,
                "after" => {
                    let after = value.parse().map_err(|invalid: Invalid| Invalid { field: key, ..invalid });
                    selection.after = Some(after?);
                }
                "role" => filter.role = Some(value.parse()?),
                "pool" => filter.pool = Some(value.parse()?),
                "prefix" => filter.prefix = Some(value),
                _ => return Err(query::unknown(&key, "limit, after, role, pool, prefix")),
            }
        }
        Ok(selection)
    }
}

/// Show a token, without its secret.
#[utoipa::path(
    get,
    path = "/v1/tokens/{id}",
    operation_id = "show_token",
    tag = "tokens",
    params(("id" = TokenId, Path, description = "The token's id")),
    responses((status = 200, description = "The token", body = TokenView, headers(("ETag" = String))), TokenShowing),
    security(("token" = ["admin"]))
)]
pub async fn show(State(coordinator): State<Coordinator>, _: Admin, Token(token): Token) -> Response {
    let found = coordinator.token_view(token).map_err(Refusal::from);
    respond(&coordinator, found.and_then(|(view, tag)| shown(&view, Some(tag))))
}

/// Revoke a token: no request with it is taken any more.
#[utoipa::path(
    delete,
    path = "/v1/tokens/{id}",
    operation_id = "revoke_token",
    tag = "tokens",
    params(("id" = TokenId, Path, description = "The token's id"), DryRun, IfMatch),
    responses(Revoking),
    security(("token" = ["admin"]))
)]
pub async fn revoke(
    State(coordinator): State<Coordinator>,
    Admin(caller): Admin,
    Token(token): Token,
    terms: Terms,
) -> Response {
    let revoked = coordinator.revoke(token, terms.of(&caller)).await;
    respond(&coordinator, answer(revoked))
}
