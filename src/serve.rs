//! Serving HTTP/1 and HTTP/2 (gRPC with it) on one port: bounded connections, deadlines, and an orderly end.
//!
//! It exists because a graceful end with a deadline and HTTP/2 keep-alive (a frozen peer is noticed) need the server's
//! own settings. It knows no routes.

use crate::metrics::own::{Bound, CommonMetrics};
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The most connections of one listener; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 4096;
/// How long a client has to send a request's head; of the first, also to begin it.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// An HTTP/2 peer that says nothing for so long is asked, and has as long to answer.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The most calls at once on one connection.
const MAX_CALLS: u32 = 256;
/// The largest head of a request.
const MAX_HEAD: usize = 32 * 1024;

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({what}): {error}{}", remedy(error))]
pub struct BindError {
    what: &'static str,
    address: SocketAddr,
    #[source]
    error: std::io::Error,
}

fn remedy(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => "; is another one running? choose another port or `none`",
        std::io::ErrorKind::PermissionDenied => "; ports below 1024 need root",
        std::io::ErrorKind::AddrNotAvailable => "; this machine does not have that address",
        _ => "",
    }
}

/// Takes an address; `what` is what it is for, as the config calls it.
pub async fn bind(what: &'static str, address: SocketAddr) -> Result<TcpListener, BindError> {
    if !address.ip().is_loopback() {
        tracing::warn!(%address, what, "listening beyond this machine without authentication or encryption");
    }
    TcpListener::bind(address).await.map_err(|error| BindError { what, address, error })
}

/// Serves `app` until stopped, then lets what is under way finish for `grace` at most. Counts each connection that broke,
/// spoke no HTTP or asked nothing, and how often one had to wait for a place.
pub async fn serve(
    listener: TcpListener,
    app: axum::Router,
    stop: CancellationToken,
    grace: Duration,
    common: CommonMetrics,
) {
    let mut server = Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_DEADLINE).max_buf_size(MAX_HEAD);
    server
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .max_concurrent_streams(MAX_CALLS)
        .max_header_list_size(MAX_HEAD as u32);
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let open = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = admitted(&listener, &places, &common) => accepted,
        };
        let (place, connection) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // No descriptor left, most likely: the ones in use come back.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let asked = CancellationToken::new();
        let service = app.clone().map_request({
            let asked = asked.clone();
            move |request: Request<Incoming>| {
                asked.cancel();
                request
            }
        });
        let service = TowerToHyperService::new(service);
        let connection = open.watch(server.serve_connection(TokioIo::new(connection), service).into_owned());
        let failed = common.connections_failed.clone();
        tokio::spawn(async move {
            let first = tokio::time::timeout(HEAD_DEADLINE, asked.cancelled());
            let silent = async {
                if first.await.is_ok() {
                    std::future::pending().await
                }
            };
            // hyper has no deadline before it knows which HTTP is spoken, nor for the first request of HTTP/2.
            tokio::select! {
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(error, "a connection ended early");
                    failed.inc();
                },
                () = silent => {
                    tracing::debug!("a connection that asked nothing is closed");
                    failed.inc();
                }
            }
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(grace, open.shutdown()).await.is_err() {
        tracing::warn!("some requests were still under way at the end");
    }
}

async fn admitted(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    common: &CommonMetrics,
) -> std::io::Result<(tokio::sync::OwnedSemaphorePermit, tokio::net::TcpStream)> {
    if places.available_permits() == 0 {
        common.bounds_refused.of(Bound::MaxConnections).inc();
    }
    // The semaphore is never closed.
    let place = places.clone().acquire_owned().await.map_err(std::io::Error::other)?;
    let (connection, _) = listener.accept().await?;
    connection.set_nodelay(true)?;
    Ok((place, connection))
}
