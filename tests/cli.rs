//! `docker-swarmstats` from outside: the real binary against a fake router, into pipes and on a terminal of its own.

#![allow(clippy::unwrap_used)] // a fake or a helper that fails is a failed test

#[path = "cli/complete.rs"]
mod complete;
#[path = "cli/fake.rs"]
mod fake;
#[path = "query/fixtures.rs"]
mod fixtures;
#[path = "cli/hosts.rs"]
mod hosts;
#[path = "cli/live.rs"]
mod live;
#[path = "cli/once.rs"]
mod once;
#[path = "cli/options.rs"]
mod options;
#[path = "cli/running.rs"]
mod running;
