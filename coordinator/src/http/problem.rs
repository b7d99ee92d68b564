//! Refusals: a closed set of kinds, and the one place where errors become statuses.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use meanfield_common::{invalid::Invalid, wire::Problem};

use super::trace;
use crate::{access, coordinator::Coordinator, error::Error, models};

/// The media type of a refusal (RFC 9457).
pub const CONTENT_TYPE: &str = "application/problem+json";

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $status:ident, $title:literal;)*) => {
        /// Every kind of refusal.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// The name in the problem's type and in metrics.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name),* }
            }

            /// The HTTP status.
            #[must_use]
            pub fn status(self) -> StatusCode {
                match self { $(Self::$kind => StatusCode::$status),* }
            }

            /// The kind in words.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Self::$kind => $title),* }
            }
        }
    };
}

kinds! {
    /// No token, or a wrong one.
    Unauthorised = "unauthorised", UNAUTHORIZED, "The bearer token is missing or wrong";
    /// The token may not be used for this.
    Forbidden = "forbidden", FORBIDDEN, "The token may not be used for this";
    /// The token was used too often.
    TooManyRequests = "too-many-requests", TOO_MANY_REQUESTS, "The token was used too often";
    /// No such route.
    NotFound = "not-found", NOT_FOUND, "There is nothing here";
    /// The route exists, but not for this method.
    MethodNotAllowed = "method-not-allowed", METHOD_NOT_ALLOWED, "This method is not possible here";
    /// The body could not be read to its end.
    UnreadableBody = "unreadable-body", BAD_REQUEST, "The body could not be read";
    /// The body did not come to its end in time.
    SlowBody = "slow-body", REQUEST_TIMEOUT, "The body took too long";
    /// The body is larger than the configured bound.
    BodyTooLarge = "body-too-large", PAYLOAD_TOO_LARGE, "The body is too large";
    /// The body is not declared as what the route takes.
    UnsupportedMediaType = "unsupported-media-type", UNSUPPORTED_MEDIA_TYPE, "The body is of another media type";
    /// The body is not JSON.
    MalformedJson = "malformed-json", BAD_REQUEST, "The body is not JSON";
    /// The body is not a batch of heartbeats.
    MalformedBatch = "malformed-batch", BAD_REQUEST, "The body is not a batch of heartbeats";
    /// A value is outside its bound or of the wrong type.
    InvalidValue = "invalid-value", UNPROCESSABLE_ENTITY, "A value is outside its bound";
    /// A field that does not exist.
    UnknownField = "unknown-field", UNPROCESSABLE_ENTITY, "A field does not exist";
    /// A field that must be there is not.
    MissingField = "missing-field", UNPROCESSABLE_ENTITY, "A field is missing";
    /// No member has this id.
    UnknownAgent = "unknown-agent", NOT_FOUND, "The agent is not a member";
    /// No pool has this name.
    UnknownPool = "unknown-pool", NOT_FOUND, "There is no such pool";
    /// The pool has members.
    PoolInUse = "pool-in-use", CONFLICT, "The pool has members";
    /// The pool is one of the configuration's.
    ConfiguredPool = "configured-pool", CONFLICT, "The pool is configured at the start";
    /// There is no room for another pool.
    TooManyPools = "too-many-pools", CONFLICT, "There are too many pools";
    /// There is no room for another agent.
    TooManyAgents = "too-many-agents", CONFLICT, "Too many agents have registered";
    /// No token has this id.
    UnknownToken = "unknown-token", NOT_FOUND, "There is no such token";
    /// There is no room for another token.
    TooManyTokens = "too-many-tokens", CONFLICT, "There are too many tokens";
    /// The pool has no forecast network.
    NoForecast = "no-forecast", NOT_FOUND, "The pool has no forecast network";
    /// No base model has this name.
    UnknownModel = "unknown-model", NOT_FOUND, "There is no such base model";
    /// The base model was never served otherwise.
    NoPrevious = "no-previous", CONFLICT, "There is nothing to go back to";
    /// The order was made for another state.
    PreconditionFailed = "precondition-failed", PRECONDITION_FAILED, "The state is not the one that was named";
    /// Not the current registration.
    StaleEpoch = "stale-epoch", CONFLICT, "The epoch is not the current one";
    /// A later heartbeat was taken already.
    ReplayedSequence = "replayed-sequence", CONFLICT, "The sequence number is too low";
    /// The number was used with other content.
    ConflictingSequence = "conflicting-sequence", CONFLICT, "The sequence number was used with other content";
    /// The step was recorded with other content.
    ConflictingStep = "conflicting-step", CONFLICT, "The step was recorded with other content";
    /// The round is over.
    StaleRound = "stale-round", CONFLICT, "The round is over";
    /// As many files as may be are being sent or taken.
    TooManyTransfers = "too-many-transfers", TOO_MANY_REQUESTS, "Too many files are under way";
    /// The store failed or is closed.
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "The store cannot be written";
}

/// A request that is refused.
#[derive(Debug)]
pub struct Refusal {
    kind: Kind,
    detail: String,
    field: Option<String>,
    bound: Option<String>,
    /// After how many seconds to try again.
    retry_after: Option<u64>,
}

impl Refusal {
    /// A refusal that no field is to blame for.
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), field: None, bound: None, retry_after: None }
    }

    /// A refusal of a token that was used too often, until it has a permit again.
    pub(crate) fn too_often(wait: std::time::Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        let refusal = Self::new(Kind::TooManyRequests, format!("try again in {seconds} s"));
        Self { retry_after: Some(seconds), ..refusal }
    }

    /// A refusal while too many files are under way.
    pub(crate) fn busy(most: usize) -> Self {
        let refusal = Self::new(Kind::TooManyTransfers, format!("{most} exports and imports are under way"));
        Self { retry_after: Some(1), ..refusal }.bound(format!("at most {most} at once"))
    }

    pub(crate) fn blame(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    pub(crate) fn bound(mut self, bound: impl Into<String>) -> Self {
        self.bound = Some(bound.into());
        self
    }

    /// Its kind and what was wrong; counts the refusal.
    pub(crate) fn count(self, coordinator: &Coordinator) -> (Kind, String) {
        let (kind, problem) = self.problem(coordinator);
        (kind, problem.detail)
    }

    /// The problem as it is told; counts the refusal.
    pub(crate) fn problem(self, coordinator: &Coordinator) -> (Kind, Problem) {
        let Self { kind, detail, field, bound, retry_after: _ } = self;
        // A token that was put where it does not belong must not be repeated to whoever reads answers or logs.
        let own = coordinator.token();
        let (detail, field) = (access::hide(detail, own), field.map(|field| access::hide(field, own)));
        coordinator.metrics().refused(kind);
        tracing::debug!(kind = kind.name(), detail, "refused");
        let problem = Problem {
            kind: format!("/problems/{}", kind.name()),
            title: kind.title().to_owned(),
            status: kind.status().as_u16(),
            detail,
            field,
            bound,
            trace_id: None,
        };
        (kind, problem)
    }

    /// The response; counts the refusal.
    pub(crate) fn respond(self, coordinator: &Coordinator) -> Response {
        let retry_after = self.retry_after;
        let (kind, mut problem) = self.problem(coordinator);
        problem.trace_id = trace::current().map(|context| context.trace.to_string());
        // A problem is made of strings and numbers, which always serialise.
        let mut response = (kind.status(), serde_json::to_vec(&problem).unwrap_or_default()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        if kind == Kind::Unauthorised {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"meanfield\""));
        }
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Self {
        Self::new(Kind::InvalidValue, invalid.to_string()).blame(invalid.field).bound(invalid.bound)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        match error {
            Error::Invalid(invalid) => invalid.into(),
            Error::UnknownAgent(_) => Self::new(Kind::UnknownAgent, detail),
            Error::UnknownPool { known, .. } => {
                Self::new(Kind::UnknownPool, detail).blame("pool").bound(format!("one of {known}"))
            }
            Error::UnknownToken(_) => Self::new(Kind::UnknownToken, detail),
            Error::TooManyTokens(_) => Self::new(Kind::TooManyTokens, detail),
            Error::NoForecast(_) => Self::new(Kind::NoForecast, detail),
            Error::PoolInUse { .. } => Self::new(Kind::PoolInUse, detail),
            Error::ConfiguredPool(_) => Self::new(Kind::ConfiguredPool, detail),
            Error::TooManyAgents(_) => Self::new(Kind::TooManyAgents, detail),
            Error::TooManyPools(_) => Self::new(Kind::TooManyPools, detail),
            Error::Precondition { condition, current, .. } => {
                let tag = current.map(|tag| format!("\"{tag}\""));
                let bound = match (condition, tag) {
                    (_, None) => "nothing is there".to_owned(),
                    ("If-Match", Some(tag)) => tag,
                    (_, Some(tag)) => format!("another than {tag}, which is there"),
                };
                Self::new(Kind::PreconditionFailed, detail).blame(condition).bound(bound)
            }
            Error::StaleEpoch { current, .. } => {
                Self::new(Kind::StaleEpoch, detail).blame("epoch").bound(format!("equal to {}", current.0))
            }
            Error::Replayed { last, .. } => {
                Self::new(Kind::ReplayedSequence, detail).blame("sequence").bound(format!("at least {}", last.0))
            }
            Error::Conflict(sequence) => {
                let bound = format!("above {}, or with the same content", sequence.0);
                Self::new(Kind::ConflictingSequence, detail).blame("sequence").bound(bound)
            }
            Error::ConflictingStep { .. } => {
                Self::new(Kind::ConflictingStep, detail).blame("steps").bound("a new place, or the same content")
            }
            Error::StaleRound { current, .. } => {
                Self::new(Kind::StaleRound, detail).blame("round").bound(format!("at least {current}"))
            }
            Error::Models(models::Error::Invalid(invalid)) => invalid.into(),
            Error::Models(models::Error::Unknown(_)) => Self::new(Kind::UnknownModel, detail),
            Error::Models(models::Error::NoPrevious(_)) => Self::new(Kind::NoPrevious, detail),
            // Where files are is for the log, not for whoever has a token.
            Error::Models(models::Error::Io { reason, .. }) => unusable(&detail, &reason.to_string()),
            Error::Models(models::Error::Damaged { reason, .. }) => unusable(&detail, &reason),
            Error::Store(error) => unusable(&detail, &error.reason()),
            Error::Closed | Error::Token(_) | Error::Tls(_) | Error::Io { .. } => Self::new(Kind::Unavailable, detail),
        }
    }
}

fn unusable(detail: &str, reason: &str) -> Refusal {
    tracing::debug!(error = detail, "refused for the disk's sake");
    Refusal::new(Kind::Unavailable, format!("the disk cannot be used: {reason}"))
}

/// Turns what a handler came to into a response.
pub(crate) fn respond(coordinator: &Coordinator, result: Result<Response, Refusal>) -> Response {
    result.unwrap_or_else(|refusal| refusal.respond(coordinator))
}
