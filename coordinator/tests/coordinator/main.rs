//! The coordinator's behaviour, in process and over HTTP.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests may fail as tests do

mod allocation;
mod audit;
mod budget;
mod concurrency;
mod damage;
mod durability;
mod events;
mod forecast;
mod http_bad;
mod http_good;
mod lifecycle;
mod lockstep;
mod membership;
mod openapi;
mod orders;
mod scarcity;
mod support;
