//! The apis over gRPC, server and client: the only file, with `wire`, that names the generated types.

mod bequest;
mod client;
mod peer;
mod query;
mod ingest;

pub use bequest::bequeath;
pub use client::{connect, connect_lazily, identify};
pub use ingest::{IngestApi, StreamError, UpdateStream};
pub use peer::follow_peers;
pub use query::{QueryApi, Who};

use crate::wire::pb;

/// What `grpc.health.v1` says of this process: serving, until it leaves. Readiness is HTTP's `/readyz`.
#[derive(Debug, Clone, Default)]
pub struct Health(tonic_health::server::HealthReporter);

impl Health {
    /// Not serving from here on.
    pub async fn leave(&self) {
        self.0.set_service_status("", tonic_health::ServingStatus::NotServing).await;
    }
}

/// The apis as routes: ingest where there is a collector, queries, and `grpc.health.v1`.
pub fn routes(ingest: Option<IngestApi>, query: QueryApi, health: &Health, max_message: usize) -> axum::Router {
    let health = tonic_health::server::HealthService::from_health_reporter(health.0.clone());
    let health = tonic_health::pb::health_server::HealthServer::new(health);
    let mut routes = tonic::service::Routes::new(health).add_service(pb::query_server::QueryServer::new(query));
    if let Some(ingest) = ingest {
        let ingest = pb::ingest_server::IngestServer::new(ingest).max_decoding_message_size(max_message);
        routes = routes.add_service(ingest);
    }
    // An unknown path is HTTP's to refuse: gRPC clients read its 404 as UNIMPLEMENTED.
    routes.into_axum_router().reset_fallback()
}
