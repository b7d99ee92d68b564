//! The frame of the OpenAPI document, and which route refuses for which reasons.
//!
//! Statuses and texts of refusals come from [`Kind`], so the document cannot drift from what is sent.

use std::collections::BTreeMap;

use meanfield_common::wire::Problem;
use utoipa::{
    IntoResponses, Modify, OpenApi, ToSchema,
    openapi::{
        self, ContentBuilder, HeaderBuilder, RefOr, ResponseBuilder,
        security::{Http, HttpAuthScheme, SecurityScheme},
    },
};

use super::problem::{CONTENT_TYPE, Kind};
use crate::orders::Ordered;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Meanfield coordinator",
        description = "Membership, mean field and control of Meanfield agents.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(Problem, Ordered)),
    modifiers(&Token)
)]
struct Frame;

struct Token;

impl Modify for Token {
    fn modify(&self, api: &mut openapi::OpenApi) {
        let components = api.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    }
}

pub(super) fn frame() -> openapi::OpenApi {
    Frame::openapi()
}

/// The document as it is served and committed.
pub(super) fn text(api: &openapi::OpenApi) -> String {
    // The document is made of strings, numbers and maps with string keys, which always serialise.
    let mut text = api.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// The responses for a set of kinds: one for each status.
fn responses(kinds: &[Kind]) -> BTreeMap<String, RefOr<openapi::Response>> {
    let mut titles: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for kind in kinds {
        titles.entry(kind.status().as_u16()).or_default().push(format!("`{}`: {}", kind.name(), kind.title()));
    }
    let schema = openapi::Ref::from_schema_name(Problem::name());
    let response = |titles: Vec<String>| {
        let content = ContentBuilder::new().schema(Some(schema.clone())).build();
        ResponseBuilder::new().description(titles.join("; ")).content(CONTENT_TYPE, content).build().into()
    };
    titles.into_iter().map(|(status, titles)| (status.to_string(), response(titles))).collect()
}

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident: $($kind:ident)*;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $name;

            impl IntoResponses for $name {
                fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
                    responses(&[Kind::Unauthorised, Kind::Forbidden, Kind::TooManyRequests, $(Kind::$kind),*])
                }
            }
        )*
    };
}

refusals! {
    /// Why a registration is refused.
    Registering: UnreadableBody SlowBody BodyTooLarge UnsupportedMediaType MalformedJson InvalidValue UnknownField MissingField
        Unavailable TooManyAgents;
    /// Why a heartbeat is refused.
    Heartbeating: UnreadableBody SlowBody BodyTooLarge UnsupportedMediaType MalformedJson InvalidValue UnknownField MissingField
        UnknownAgent StaleEpoch ReplayedSequence ConflictingSequence StaleRound;
    /// Why a batch of heartbeats is refused whole.
    Batching: UnreadableBody BodyTooLarge UnsupportedMediaType MalformedJson MalformedBatch InvalidValue UnknownField
        MissingField;
    /// Why a leave is refused.
    Leaving: UnreadableBody SlowBody BodyTooLarge UnsupportedMediaType MalformedJson InvalidValue UnknownField MissingField
        UnknownAgent StaleEpoch Unavailable;
    /// Why a request about one agent is refused.
    Naming: InvalidValue UnknownAgent Unavailable;
    /// Why a list of agents is refused.
    Listing: InvalidValue UnknownField UnknownPool Unavailable;
    /// Why a forecast network is not given out.
    Downloading: InvalidValue UnknownPool NoForecast;
    /// Why a version of a base model is refused.
    Teaching: UnreadableBody BodyTooLarge UnsupportedMediaType InvalidValue UnknownField PreconditionFailed Unavailable;
    /// Why it is refused to go back to what was served before.
    RollingBack: InvalidValue UnknownField UnknownModel NoPrevious PreconditionFailed Unavailable;
    /// Why a base model is not shown or given out.
    Modelling: InvalidValue UnknownField UnknownModel;
    /// Why what an agent has learnt is refused.
    Contributing: UnreadableBody BodyTooLarge UnsupportedMediaType InvalidValue UnknownField MissingField UnknownModel
        UnknownAgent;
    /// Why steps are refused.
    Appending: UnreadableBody BodyTooLarge UnsupportedMediaType MalformedJson InvalidValue UnknownField MissingField
        UnknownAgent StaleEpoch ConflictingStep Unavailable;
    /// Why a question about trajectories is refused.
    Asking: InvalidValue UnknownField Unavailable;
    /// Why no file of steps is given.
    Exporting: InvalidValue UnknownField TooManyTransfers Unavailable;
    /// Why a file of steps is refused.
    Importing: UnreadableBody SlowBody BodyTooLarge UnsupportedMediaType InvalidValue UnknownField ConflictingStep
        TooManyTransfers Unavailable;
    /// Why a look at one pool is refused.
    Pooling: InvalidValue UnknownPool;
    /// Why no token is made.
    Issuing: UnreadableBody SlowBody BodyTooLarge UnsupportedMediaType MalformedJson InvalidValue UnknownField MissingField
        TooManyTokens PreconditionFailed Unavailable;
    /// Why a list of tokens is refused.
    TokenListing: InvalidValue UnknownField;
    /// Why a token is not shown.
    TokenShowing: InvalidValue UnknownToken;
    /// Why a list of anything else is refused.
    Selecting: InvalidValue UnknownField;
    /// Why events are not shown.
    Watching: InvalidValue UnknownField UnknownPool;
    /// Why a look at anything else is refused.
    Viewing: ;
}

/// What an order answers: the new tag, or of a dry run what would happen.
fn ordered() -> BTreeMap<String, RefOr<openapi::Response>> {
    let tag = HeaderBuilder::new().description(Some("The tag of the new state, if there is one, in quotes")).build();
    let done = ResponseBuilder::new().description("Done, durably").header("ETag", tag).build();
    let schema = openapi::Ref::from_schema_name(Ordered::name());
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let tried = ResponseBuilder::new().description("A dry run: what would happen").content("application/json", content);
    [("204".to_owned(), done.into()), ("200".to_owned(), tried.build().into())].into()
}

macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident: $($kind:ident)*;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $name;

            impl IntoResponses for $name {
                fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
                    let mut all = responses(&[
                        Kind::Unauthorised, Kind::Forbidden, Kind::TooManyRequests, Kind::InvalidValue,
                        Kind::UnknownField, Kind::PreconditionFailed, Kind::Unavailable, $(Kind::$kind),*
                    ]);
                    all.extend(ordered());
                    all
                }
            }
        )*
    };
}

orders! {
    /// What an order to everybody answers.
    OrderingAll: ;
    /// What an order about an agent answers.
    AgentOrdering: UnknownAgent;
    /// What one with a body answers.
    AgentSetting: UnknownAgent UnreadableBody SlowBody BodyTooLarge UnsupportedMediaType MalformedJson MissingField;
    /// What an order about a pool answers.
    PoolOrdering: UnknownPool;
    /// What one with a body answers.
    PoolSetting: UnknownPool UnreadableBody SlowBody BodyTooLarge UnsupportedMediaType MalformedJson MissingField;
    /// What new settings of a pool are answered with.
    PoolMaking: TooManyPools UnreadableBody SlowBody BodyTooLarge UnsupportedMediaType MalformedJson MissingField;
    /// What the end of a pool is answered with.
    PoolRemoving: UnknownPool PoolInUse ConfiguredPool;
    /// What a new forecast network is answered with.
    Sharing: UnknownPool UnreadableBody SlowBody BodyTooLarge UnsupportedMediaType;
    /// What a word on what is served of a base model is answered with.
    ModelServing: UnknownModel UnreadableBody SlowBody BodyTooLarge UnsupportedMediaType MalformedJson MissingField;
    /// What the end of a base model is answered with.
    ModelRemoving: UnknownModel;
    /// What the end of a token is answered with.
    Revoking: UnknownToken;
}
