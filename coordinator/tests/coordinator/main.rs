//! The coordinator's behaviour, in process and over HTTP.

mod allocation;
mod concurrency;
mod damage;
mod durability;
mod http_bad;
mod http_good;
mod lifecycle;
mod lockstep;
mod membership;
mod openapi;
mod support;
