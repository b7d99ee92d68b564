//! What a question about trajectories asks for, from its query parameters.

use axum::{
    extract::{FromRequestParts, Query},
    http::request::Parts,
    response::Response,
};
use meanfield_common::invalid::Invalid;

use super::super::problem::{Kind, Refusal};
use crate::{
    coordinator::Coordinator,
    trajectories::{
        export::Format,
        query::{Cursor, Filter},
    },
};

const DEFAULT_LIMIT: usize = 100;
const LARGEST_LIMIT: usize = 1000;

const FILTER: [&str; 5] = ["agent", "pool", "category", "since", "until"];

/// Which question: latest rewards.
pub(super) const REWARDS: u8 = 0;
/// A list of episodes.
pub(super) const LIST: u8 = 1;
/// Samples.
pub(super) const SAMPLES: u8 = 2;
/// An export.
pub(super) const EXPORT: u8 = 3;

/// In which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The oldest first.
    Time,
    /// The highest sum of rewards first.
    Best,
    /// The lowest sum of rewards first.
    Worst,
}

/// The parameters of one of the questions above.
#[derive(Debug)]
pub struct Question<const KIND: u8> {
    pub(super) limit: usize,
    pub(super) order: Order,
    pub(super) after: Option<Cursor>,
    pub(super) seed: u64,
    pub(super) format: Format,
    pub(super) filter: Filter,
}

impl<const KIND: u8> FromRequestParts<Coordinator> for Question<KIND> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, coordinator: &Coordinator) -> Result<Self, Response> {
        let query = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        query
            .map_err(|error| Refusal::new(Kind::InvalidValue, error.to_string()).blame("query"))
            .and_then(|Query(pairs)| Self::parse(&pairs))
            .map_err(|refusal| refusal.respond(coordinator))
    }
}

impl<const KIND: u8> Question<KIND> {
    fn known() -> Vec<&'static str> {
        let own: &[&str] = match KIND {
            REWARDS => return vec!["limit"],
            LIST => &["limit", "order", "after"],
            SAMPLES => &["limit", "seed"],
            _ => &["format"],
        };
        [own, &FILTER].concat()
    }

    fn parse(pairs: &[(String, String)]) -> Result<Self, Refusal> {
        let mut question = Self {
            limit: DEFAULT_LIMIT,
            order: Order::Time,
            after: None,
            seed: 0,
            format: Format::Csv,
            filter: Filter::default(),
        };
        let known = Self::known();
        for (key, value) in pairs {
            if !known.contains(&key.as_str()) {
                return Err(Refusal::new(Kind::UnknownField, format!("there is no query parameter {key:?}"))
                    .blame(key.clone())
                    .bound(format!("one of {}", known.join(", "))));
            }
            question.set(key, value)?;
        }
        if question.after.is_some() && question.order != Order::Time {
            return Err(Invalid::new("after", "a place in time", "possible in an order other than that of time").into());
        }
        Ok(question)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), Invalid> {
        let refused = |bound: String| Invalid::new(key, format!("{value:?}"), bound);
        let whole = || value.parse::<u64>().map_err(|_| refused(format!("a whole number within [0, {}]", u64::MAX)));
        match key {
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=LARGEST_LIMIT).contains(limit));
                self.limit = limit.ok_or_else(|| refused(format!("a whole number within [1, {LARGEST_LIMIT}]")))?;
            }
            "order" => {
                self.order = match value {
                    "time" => Order::Time,
                    "best" => Order::Best,
                    "worst" => Order::Worst,
                    _ => return Err(refused("one of time, best, worst".to_owned())),
                }
            }
            "after" => self.after = Some(value.parse()?),
            "seed" => self.seed = whole()?,
            "format" => self.format = value.parse()?,
            "agent" => self.filter.agent = Some(value.parse()?),
            "pool" => self.filter.pool = Some(value.parse()?),
            "category" => self.filter.category = Some(value.parse()?),
            "since" => self.filter.since = Some(whole()?),
            _ => self.filter.until = Some(whole()?),
        }
        Ok(())
    }
}
