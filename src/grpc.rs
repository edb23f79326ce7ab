//! The apis over gRPC, server and client: the only file, with `wire`, that names the generated types.

mod client;
mod peer;
mod query;
mod ingest;

pub use client::{connect, connect_lazily, identify};
pub use ingest::{IngestApi, StreamError, UpdateStream};
pub use peer::follow_peers;
pub use query::{QueryApi, Who};

use crate::wire::pb;

/// The apis as routes: ingest where there is a collector, queries, and `grpc.health.v1`.
pub fn routes(ingest: Option<IngestApi>, query: QueryApi, max_message: usize) -> axum::Router {
    // Every api here answers as soon as it is reachable; readiness is HTTP's `/readyz`.
    let (_, health) = tonic_health::server::health_reporter();
    let mut routes = tonic::service::Routes::new(health).add_service(pb::query_server::QueryServer::new(query));
    if let Some(ingest) = ingest {
        let ingest = pb::ingest_server::IngestServer::new(ingest).max_decoding_message_size(max_message);
        routes = routes.add_service(ingest);
    }
    // An unknown path is HTTP's to refuse: gRPC clients read its 404 as UNIMPLEMENTED.
    routes.into_axum_router().reset_fallback()
}
