//! The apis over gRPC, server and client: the only file, with `wire`, that names the generated types.

mod ingest;

pub use ingest::{IngestApi, StreamError, UpdateStream};
