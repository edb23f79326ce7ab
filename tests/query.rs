//! The reading side: join, figures, documents, router and HTTP over real loopback sockets.
//!
//! Members, stores and peers here are in memory and named fake; sockets, clocks and the code under test are real.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "query/fixtures.rs"]
mod fixtures;

#[path = "query/join.rs"]
mod join;

#[path = "query/names.rs"]
mod names;

#[path = "query/figures.rs"]
mod figures;

#[path = "query/machine.rs"]
mod machine;

#[path = "query/subscriptions.rs"]
mod subscriptions;

#[path = "query/router.rs"]
mod router;

#[path = "query/http.rs"]
mod http;

#[path = "query/faults.rs"]
mod faults;

#[path = "query/join_swarm.rs"]
mod join_swarm;
