//! config/stack.yml as people deploy it, on three managers: real containers of a real swarm. `./dev lab up --stack` makes
//! it, `cargo test --test stack -- --test-threads=1 --nocapture` runs these; they disturb it in the order they stand in.
#![allow(clippy::unwrap_used)]
#![allow(dead_code, reason = "the parts are shared with tests/lab.rs")]

#[path = "lab/env.rs"]
mod env;
#[path = "lab/http.rs"]
mod http;
#[path = "lab/kernel.rs"]
mod kernel;
#[path = "lab/poller.rs"]
mod poller;

#[path = "stack/accounts.rs"]
mod accounts;
#[path = "stack/history.rs"]
mod history;
#[path = "stack/moves.rs"]
mod moves;
#[path = "stack/tier.rs"]
mod tier;
#[path = "stack/watch.rs"]
mod watch;

#[path = "stack/a_rights.rs"]
mod a_rights;
#[path = "stack/b_scaling.rs"]
mod b_scaling;
#[path = "stack/c_update.rs"]
mod c_update;
#[path = "stack/d_kill.rs"]
mod d_kill;
