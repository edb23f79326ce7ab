//! `/metrics` over HTTP: the process's own metrics, then the figures, streamed in chunks from one snapshot.
//!
//! A scrape changes no figure. When its body was fully written, whoever made the page is told (LEDGER 9); a reader that
//! leaves before the end, or has not taken it by a deadline, has been shown nothing. Each scrape under way holds a copy
//! of all figures, so there are few at a time and none stays.

use crate::metrics::own::{Bound, CommonMetrics};
use crate::metrics::{CONTENT_TYPE, Page, Registry, own};
use axum::body::Body;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::AbortOnDropHandle;

/// The most scrapes at once; more are refused.
const MAX_SCRAPES: usize = 16;
/// The same of the whole cluster's page, which waits for other members: it must not take the ledger's places.
const MAX_CLUSTER_SCRAPES: usize = 4;
/// How long a reader has to take the page. Prometheus gives up after 10 s by default.
const DEADLINE: Duration = Duration::from_secs(30);

/// Told once how a scrape ended: whether its body was fully written, and how many series it had.
pub type Done = Box<dyn FnOnce(bool, u64) + Send>;

/// What can be scraped.
pub trait Scraped: Send + Sync {
    /// Sets the own metrics' gauges to what is so now.
    fn measure(&self);
    /// A snapshot, or `None` where none may be shown any more.
    fn page(&self) -> Option<(Page, Done)>;
    /// The whole cluster's services, stacks and nodes, where this process is a router; `Err` why there is nothing now.
    fn cluster(&self) -> Option<Asked> {
        None
    }
}

/// A page of the whole cluster, in the making.
pub type Asked = Pin<Box<dyn Future<Output = Result<Page, String>> + Send>>;

/// The route `/metrics`, and a hint at `/`.
pub fn routes(registry: Registry, scraped: Arc<dyn Scraped>, common: &CommonMetrics) -> axum::Router {
    routes_within(DEADLINE, registry, scraped, common)
}

fn routes_within(
    deadline: Duration,
    registry: Registry,
    scraped: Arc<dyn Scraped>,
    common: &CommonMetrics,
) -> axum::Router {
    let places = [MAX_SCRAPES, MAX_CLUSTER_SCRAPES].map(|most| (most, Arc::new(Semaphore::new(most))));
    let refused = common.bounds_refused.of(Bound::MaxScrapes).clone();
    let metrics = move |uri: Uri| async move {
        let whole = match uri.query() {
            None | Some("") => false,
            Some("scope=cluster") => true,
            Some(other) => {
                let wrong = format!("{other:?} is not known here: there is scope=cluster, and nothing\n");
                return (StatusCode::BAD_REQUEST, wrong).into_response();
            }
        };
        let [of_process, of_cluster] = places;
        let (most, places) = if whole { of_cluster } else { of_process };
        let Ok(place) = places.try_acquire_owned() else {
            refused.inc();
            let busy = format!("{most} scrapes are under way, more are refused: try again\n");
            return (StatusCode::SERVICE_UNAVAILABLE, busy).into_response();
        };
        if whole {
            return cluster_page(scraped.as_ref(), place, deadline).await;
        }
        answer(&registry, scraped.as_ref(), place, deadline)
    };
    axum::Router::new()
        .route("/metrics", get(metrics))
        .fallback(|| async { (StatusCode::NOT_FOUND, "no such page: the metrics are at /metrics\n") })
}

fn answer(registry: &Registry, scraped: &dyn Scraped, place: OwnedSemaphorePermit, deadline: Duration) -> Response {
    scraped.measure();
    let own = match own::render(registry) {
        Ok(own) => own,
        Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    };
    let Some((page, done)) = scraped.page() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "this process is leaving\n").into_response();
    };
    let chunks = Chunks { own: Some(own), page, done: Some(done), _place: place };
    let body = Body::from_stream(tokio_stream::iter(until_deadline(chunks, deadline)));
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response()
}

/// The whole cluster's series alone: the process's own metrics are on the other page.
async fn cluster_page(scraped: &dyn Scraped, place: OwnedSemaphorePermit, deadline: Duration) -> Response {
    let Some(asked) = scraped.cluster() else {
        return (StatusCode::NOT_FOUND, "this process has no router role: ask one that has\n").into_response();
    };
    match asked.await {
        Ok(page) => {
            let chunks = Chunks { own: None, page, done: None, _place: place };
            let body = Body::from_stream(tokio_stream::iter(until_deadline(chunks, deadline)));
            ([(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response()
        }
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

/// The chunks, but those not taken by the deadline are dropped, and the body then ends with an error. A reader that takes
/// nothing is not asked again by the server, so that the body itself would never notice.
fn until_deadline(chunks: Chunks, deadline: Duration) -> impl Iterator<Item = io::Result<Vec<u8>>> {
    let chunks = Arc::new(Mutex::new(Some(chunks)));
    let take = |chunks: &Mutex<Option<Chunks>>| chunks.lock().unwrap_or_else(PoisonError::into_inner).take();
    let late = Arc::downgrade(&chunks);
    let clock = AbortOnDropHandle::new(tokio::spawn(async move {
        tokio::time::sleep(deadline).await;
        drop(late.upgrade().and_then(|chunks| take(&chunks)));
    }));
    std::iter::from_fn(move || {
        let _while_read = &clock;
        match chunks.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(chunks) => chunks.next().map(Ok),
            None => Some(Err(io::Error::new(io::ErrorKind::TimedOut, "the page was not read in time"))),
        }
    })
}

struct Chunks {
    own: Option<Vec<u8>>,
    page: Page,
    done: Option<Done>,
    _place: OwnedSemaphorePermit,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{ProcessMetrics, Series};
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Counts the scrapes that were whole, and those that were not.
    #[derive(Default, Clone)]
    struct Counted(Arc<[AtomicU32; 2]>);

    impl Counted {
        fn ended(&self) -> [u32; 2] {
            [0, 1].map(|i| self.0[i].load(Ordering::SeqCst))
        }
    }

    impl Scraped for Counted {
        fn measure(&self) {}
        fn page(&self) -> Option<(Page, Done)> {
            let counts = self.0.clone();
            let done = move |whole: bool, _| {
                counts[usize::from(!whole)].fetch_add(1, Ordering::SeqCst);
            };
            Some((Page::new(Series::default()), Box::new(done)))
        }
    }

    async fn get(routes: &axum::Router) -> Response {
        let request = axum::http::Request::get("/metrics").body(Body::empty()).unwrap();
        tower::ServiceExt::oneshot(routes.clone(), request).await.unwrap()
    }

    #[tokio::test]
    async fn scrapes_that_nobody_reads_are_few_and_do_not_stay() {
        let (counted, registry) = (Counted::default(), Registry::new());
        let process = ProcessMetrics::register(&registry).unwrap();
        let routes = routes_within(Duration::from_millis(300), registry, Arc::new(counted.clone()), &process.common);
        let mut unread = Vec::new();
        for _ in 0..MAX_SCRAPES {
            unread.push(get(&routes).await);
        }
        assert_eq!(get(&routes).await.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(process.common.bounds_refused.of(Bound::MaxScrapes).get(), 1);
        assert_eq!(counted.ended(), [0, 0]);

        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(counted.ended(), [0, 16], "the copies are given back while their readers are still connected");
        let cut_off = axum::body::to_bytes(unread.remove(0).into_body(), 1 << 20).await;
        assert!(cut_off.is_err(), "a reader must not take a part for the whole");
        let page = axum::body::to_bytes(get(&routes).await.into_body(), 1 << 20).await.unwrap();
        assert!(page.starts_with(b"# HELP"));
        assert_eq!(counted.ended(), [1, 16]);
    }
}
