//! What breaks, breaks here: a seeded schedule of kills, freezes, cuts and restarts under real services, moves of
//! tasks under a real Prometheus, and how long the loss of a collector is seen.
//!
//! `./dev lab up --without-tier` makes the nodes, `cargo test --test chaos -- --test-threads=1 --nocapture` runs these;
//! `./dev chaos --minutes 10 [--seed S]` does both. Collectors and shippers are this test's own, as release
//! builds; expected values are the kernel's own counters, read by the test itself.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests/lab.rs")]
#[path = "lab/env.rs"]
mod env;
#[path = "lab/http.rs"]
#[allow(dead_code, reason = "shared with tests/lab.rs")]
mod http;
#[path = "sim/rng.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with tests/sim.rs")]
mod rng;

#[path = "chaos/books.rs"]
mod books;
#[path = "chaos/kernels.rs"]
mod kernels;
#[path = "chaos/page.rs"]
mod page;
#[path = "chaos/poller.rs"]
mod poller;
#[path = "chaos/prometheus.rs"]
mod prometheus;
#[path = "chaos/schedule.rs"]
mod schedule;
#[path = "chaos/tier.rs"]
mod tier;

#[path = "chaos/continuity.rs"]
mod continuity;
#[path = "chaos/loss.rs"]
mod loss;
#[path = "chaos/storm.rs"]
mod storm;
