//! The apis over gRPC, server and client: the only file, with `wire`, that names the generated types.

mod client;
mod peer;
mod query;
mod ingest;

pub use client::{connect, connect_lazily, identify};
pub use ingest::{IngestApi, StreamError, UpdateStream};
pub use peer::follow_peers;
pub use query::{QueryApi, Who};
