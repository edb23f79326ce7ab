//! `/metrics` over HTTP: the process's own metrics, then the figures, streamed in chunks from one snapshot.
//!
//! A scrape changes no figure. When its body was fully written, whoever made the page is told (LEDGER 9); a reader that
//! leaves before the end has been shown nothing.

use crate::metrics::{CONTENT_TYPE, Page, Registry, own};
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::convert::Infallible;
use std::sync::Arc;

/// Told once how a scrape ended: whether its body was fully written, and how many series it had.
pub type Done = Box<dyn FnOnce(bool, u64) + Send>;

/// What can be scraped.
pub trait Scraped: Send + Sync {
    /// Sets the own metrics' gauges to what is so now.
    fn measure(&self);
    /// A snapshot, or `None` where none may be shown any more.
    fn page(&self) -> Option<(Page, Done)>;
}

/// The route `/metrics`, and a hint at `/`.
pub fn routes(registry: Registry, scraped: Arc<dyn Scraped>) -> axum::Router {
    let metrics = move || async move { answer(&registry, scraped.as_ref()) };
    axum::Router::new()
        .route("/metrics", get(metrics))
        .fallback(|| async { (StatusCode::NOT_FOUND, "no such page: the metrics are at /metrics\n") })
}

fn answer(registry: &Registry, scraped: &dyn Scraped) -> Response {
    scraped.measure();
    let own = match own::render(registry) {
        Ok(own) => own,
        Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    };
    let Some((page, done)) = scraped.page() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "this process is leaving\n").into_response();
    };
    let chunks = Chunks { own: Some(own), page, done: Some(done) };
    let body = Body::from_stream(tokio_stream::iter(chunks.map(Ok::<_, Infallible>)));
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response()
}

struct Chunks {
    own: Option<Vec<u8>>,
    page: Page,
    done: Option<Done>,
}

impl Chunks {
    fn end(&mut self, whole: bool) {
        if let Some(done) = self.done.take() {
            done(whole, self.page.n_series());
        }
    }
}

impl Iterator for Chunks {
    type Item = Vec<u8>;
    fn next(&mut self) -> Option<Vec<u8>> {
        let chunk = self.own.take().or_else(|| self.page.next());
        if chunk.is_none() {
            self.end(true); // the server asks again only after it has taken the last one
        }
        chunk
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        self.end(false);
    }
}
