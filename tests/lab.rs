//! The whole path on a real swarm: three engines, three shippers, three collectors, real tasks, two real Prometheus
//! servers. `./dev lab up` makes the lab, `cargo test --test lab -- --test-threads=1 --nocapture` runs these.
//!
//! Every test prints its figures beside the reference: the kernel's own files, the engine's own records, docker's and
//! Prometheus's answers. What a test stops, drains or kills it brings back. The modules are in the order in which cargo
//! runs them: what disturbs the tasks comes last.
#![allow(clippy::unwrap_used)]

#[path = "engine/mod.rs"]
mod engine;
#[path = "lab/env.rs"]
mod env;
#[path = "lab/http.rs"]
mod http;
#[path = "lab/kernel.rs"]
mod kernel;
#[path = "lab/poller.rs"]
mod poller;
#[path = "lab/servers.rs"]
mod servers;
#[path = "lab/observation.rs"]
mod observation;

#[path = "lab/answers.rs"]
mod answers;
#[path = "lab/container.rs"]
mod container;
#[path = "lab/derived.rs"]
mod derived;
#[path = "lab/live_restore.rs"]
mod live_restore;
#[path = "lab/prometheus.rs"]
mod prometheus;
#[path = "lab/steady.rs"]
mod steady;
#[path = "lab/surroundings.rs"]
mod surroundings;
#[path = "lab/terminal.rs"]
mod terminal;
#[path = "lab/unrest.rs"]
mod unrest;
