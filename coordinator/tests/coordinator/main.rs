//! The coordinator's behaviour, in process and over HTTP.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests may fail as tests do

mod access;
mod allocation;
mod audit;
mod batch;
mod budget;
mod concurrency;
mod damage;
mod durability;
mod events;
mod forecast;
mod http_bad;
mod http_good;
mod layout;
mod lifecycle;
mod lockstep;
mod membership;
mod models;
mod openapi;
mod orders;
mod pools;
mod roles;
mod scarcity;
mod settings;
mod slow;
mod support;
mod team;
mod tls;
mod trajectories;
mod trajectory_damage;
mod trajectory_http;
