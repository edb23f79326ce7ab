//! The embeddable collector: an [`Aggregate`] behind a lock, with the loops that keep it.
//!
//! `new` binds nothing and spawns nothing; the apis are mounted by whoever owns the server; `run` owns the loops. The
//! lock is a plain mutex, held for one batch, one query or one scrape's snapshot at a time and never across an await.

use crate::aggregate::{Aggregate, AggregateConfig, BatchError, HelloError, Mark, Stored, StreamId};
use crate::clock;
use crate::config;
use crate::discovery::Seen;
use crate::message::{Batch, Bye, Hello, Hi};
use crate::metrics::own::{Bound, HelloRefused};
use crate::metrics::{CollectorMetrics, LabelCache, Page, ProcessMetrics, Series};
use crate::model::{Gen, MemberId, Nanos, RingId};
use crate::router::Store;
use crate::view::{Ask, Holding};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// How often what is over is forgotten.
const EXPIRE_EVERY: Duration = Duration::from_secs(5);

/// Why a stream is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAdmitted {
    /// The process leaves.
    Draining,
    /// `limits.max_streams` are open.
    TooMany(usize),
}

/// How far a process is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Serving,
    /// Not ready, takes no new streams, goes on answering.
    Draining,
    /// No scrape is answered any more; those under way may still end.
    LastScrapes,
    /// Says Bye on every stream.
    Bye,
}

/// A scrape under way: what its page shows. Bye waits for it.
#[derive(Debug)]
pub struct Showing {
    mark: Mark,
    _under_way: TaskTrackerToken,
}

/// See the head of this file. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Collector(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    aggregate: Mutex<Aggregate>,
    member: MemberId,
    gen_: Gen,
    max_streams: usize,
    streams: Arc<Semaphore>,
    stage: watch::Sender<Stage>,
    loops: TaskTracker,
    /// Scrapes under way.
    pages: TaskTracker,
    nudge: Arc<Notify>,
    labels: Mutex<LabelCache>,
    metrics: CollectorMetrics,
    process: ProcessMetrics,
}

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Collector {
    /// A collector of this config; `nudge` is discovery's, for a shipper that sees another ring.
    pub fn new(
        cfg: &config::Collectord,
        nudge: Arc<Notify>,
        metrics: CollectorMetrics,
        process: ProcessMetrics,
    ) -> Collector {
        let gen_ = Gen(clock::process_nonce());
        let aggregate = AggregateConfig {
            member: cfg.member.clone(),
            gen_,
            replicas: u32::from(cfg.replicas),
            points: cfg.points,
            ended_keep: nanos(cfg.ended_keep),
            stale_keep: nanos(cfg.stale_keep),
            row_keep: nanos(cfg.row_keep),
            max_round_trip: nanos(cfg.max_round_trip),
            max_tasks: cfg.limits.max_tasks,
            max_nodes: cfg.limits.max_nodes,
        };
        Collector(Arc::new(Inner {
            aggregate: Mutex::new(Aggregate::new(aggregate, RingId::default(), clock::boottime())),
            member: cfg.member.clone(),
            gen_,
            max_streams: cfg.limits.max_streams,
            streams: Arc::new(Semaphore::new(cfg.limits.max_streams)),
            stage: watch::Sender::new(Stage::Serving),
            loops: TaskTracker::new(),
            pages: TaskTracker::new(),
            nudge,
            labels: Mutex::default(),
            metrics,
            process,
        }))
    }

    /// The member's identity.
    pub fn member(&self) -> &MemberId {
        &self.0.member
    }

    /// This process of it.
    pub fn gen_(&self) -> Gen {
        self.0.gen_
    }

    /// A panic while the lock was held would have left half a batch: nothing here panics on input, and the process
    /// must not go on with it.
    fn aggregate(&self) -> MutexGuard<'_, Aggregate> {
        self.0.aggregate.lock().expect("no panic while the aggregate is locked")
    }

    /// Opens a stream.
    pub fn hello(&self, hello: &Hello) -> Result<Hi, HelloError> {
        let greeting = self.aggregate().hello(hello, clock::boottime());
        let refused = &self.0.metrics.hellos_refused;
        match &greeting {
            Ok(hi) => {
                self.0.metrics.hellos.inc();
                if hello.ring_id != hi.ring_id {
                    self.other_ring();
                }
                tracing::info!(node = %hello.node_name, epoch = hello.epoch, k = hello.k, "stream opened");
            }
            Err(error) => {
                refused.of(HelloRefused::from(error)).inc();
                if matches!(error, HelloError::Full(_)) {
                    self.0.process.common.bounds_refused.of(Bound::MaxNodes).inc();
                }
                tracing::warn!(node = %hello.node_name, epoch = hello.epoch, k = hello.k, %error, "hello refused");
            }
        }
        greeting
    }

    /// Takes a batch of a stream.
    pub fn batch(&self, stream: &StreamId, batch: &Batch) -> Result<Stored, BatchError> {
        let stored = self.aggregate().batch(stream, batch, clock::boottime());
        let metrics = &self.0.metrics;
        match &stored {
            Ok(Stored::Void) => metrics.batches_fenced.inc(),
            Ok(Stored::Acked { repeat: true, .. }) => metrics.batches_repeated.inc(),
            Ok(Stored::Acked { n_samples, .. }) => {
                metrics.batches_stored.inc();
                metrics.samples.inc_by(*n_samples as u64);
            }
            Err(BatchError::Foreign(..)) => metrics.foreign_reports.inc(),
            Err(BatchError::Full(_)) => self.0.process.common.bounds_refused.of(Bound::MaxTasks).inc(),
            Err(_) => metrics.data_losses.inc(),
        }
        if matches!(&stored, Ok(Stored::Acked { other_ring: true, .. })) {
            self.other_ring();
        }
        stored
    }

    fn other_ring(&self) {
        self.0.process.common.ring_mismatches.inc();
        self.0.nudge.notify_one();
    }

    /// The first message of a stream could not be read, or is no Hello.
    pub fn malformed_hello(&self) {
        self.0.metrics.hellos_refused.of(HelloRefused::Malformed).inc();
    }

    /// A later message of a stream could not be read, or is no batch.
    pub fn malformed_batch(&self) {
        self.0.metrics.batches_malformed.inc();
    }

    /// A stream that said no Hello in time.
    pub fn silent(&self) {
        self.0.metrics.hellos_refused.of(HelloRefused::Silent).inc();
    }

    /// A message beyond `limits.max_message`.
    pub fn too_long(&self) {
        self.0.process.common.bounds_refused.of(Bound::MaxMessage).inc();
    }

    /// A message of a stream came in, so many bytes long.
    pub fn received(&self, n_bytes: usize) {
        self.0.metrics.bytes_received.inc_by(n_bytes as u64);
    }

    /// A stream ended.
    pub fn closed(&self, stream: &StreamId) {
        self.aggregate().closed(stream);
    }

    /// The text of one scrape, or `None` once Bye is near: what is shown then would be counted twice. Tell
    /// [`Collector::scraped`] how it ended.
    pub fn page(&self) -> Option<(Page, Showing)> {
        let (scrape, _under_way) = {
            let mut aggregate = self.aggregate();
            let open = *self.0.stage.borrow() < Stage::LastScrapes;
            open.then(|| (aggregate.scrape(clock::boottime()), self.0.pages.token()))?
        };
        let services = scrape.services.iter().map(Into::into).collect();
        let mut labels = self.0.labels.lock().unwrap_or_else(PoisonError::into_inner);
        let series = Series { tasks: labels.tasks(scrape.tasks), services, node_services: Vec::new() };
        Some((Page::new(series), Showing { mark: scrape.mark, _under_way }))
    }

    /// The body of a scrape (`n_series` of it) was fully written, or not `whole`: its reader left before the end.
    pub fn scraped(&self, showing: Showing, whole: bool, n_series: u64) {
        self.0.metrics.series.inc_by(n_series);
        if whole {
            self.0.metrics.scrapes.inc();
            self.aggregate().scraped(&showing.mark, clock::boottime());
        } else {
            self.0.metrics.scrapes_broken.inc();
        }
    }

    /// Sets the gauges to what is held now; before the process's own metrics are rendered.
    pub fn measure(&self) {
        let (sizes, unscraped) = {
            let aggregate = self.aggregate();
            (aggregate.sizes(), aggregate.unscraped_for(clock::boottime()))
        };
        let metrics = &self.0.metrics;
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        metrics.streams.set(count(self.0.max_streams - self.0.streams.available_permits()));
        metrics.nodes.set(count(sizes.nodes));
        metrics.tasks.set(count(sizes.tasks));
        metrics.tasks_ended.set(count(sizes.ended));
        metrics.rows.set(count(sizes.rows));
        metrics.ledger_services.set(count(sizes.ledger));
        metrics.draining.set(i64::from(!self.is_serving()));
        metrics.unscraped.set(unscraped as f64 / 1e9);
    }

    /// A place for one more stream, given back when dropped.
    pub fn admit_stream(&self) -> Result<OwnedSemaphorePermit, NotAdmitted> {
        if *self.0.stage.borrow() > Stage::Serving {
            return Err(NotAdmitted::Draining);
        }
        self.0.streams.clone().try_acquire_owned().map_err(|_| {
            self.0.process.common.bounds_refused.of(Bound::MaxStreams).inc();
            NotAdmitted::TooMany(self.0.max_streams)
        })
    }

    /// The loops of the streams: [`Collector::leave`] waits for them.
    pub fn loops(&self) -> &TaskTracker {
        &self.0.loops
    }

    /// Told when to say Bye.
    pub fn leaving(&self) -> Leaving {
        Leaving { stage: self.0.stage.subscribe(), collector: self.clone() }
    }

    /// Whether new streams are taken.
    pub fn is_serving(&self) -> bool {
        *self.0.stage.borrow() == Stage::Serving
    }

    /// Not ready any more, and no new streams; queries and scrapes go on.
    pub fn drain(&self) {
        self.0.stage.send_replace(Stage::Draining);
        self.aggregate().drain();
    }

    /// Lets the scrapes under way end, says Bye on every stream and waits until each has been told, for `deadline` at
    /// most.
    pub async fn leave(&self, deadline: Duration) {
        let until = Instant::now() + deadline;
        {
            // Under the lock, so that a page either is counted already or is not made.
            let _aggregate = self.aggregate();
            self.0.stage.send_replace(Stage::LastScrapes);
        }
        self.0.pages.close();
        if timeout(deadline / 2, self.0.pages.wait()).await.is_err() {
            tracing::warn!("a scrape did not end in time: what it shows after all may be shown again elsewhere");
        }
        self.0.stage.send_replace(Stage::Bye);
        self.0.loops.close();
        if timeout_at(until, self.0.loops.wait()).await.is_err() {
            tracing::warn!("some shippers could not be told bye in time");
        }
    }

    /// Keeps the aggregate until stopped: follows the ring, forgets what is over.
    pub async fn run(self, mut seen: Seen, stop: CancellationToken) {
        let mut expire = tokio::time::interval(EXPIRE_EVERY);
        loop {
            let ring_id = seen.borrow_and_update().as_ref().map_or_else(RingId::default, |view| view.ring.id());
            self.aggregate().set_ring_id(ring_id);
            // Cancel-safe, all three.
            tokio::select! {
                () = stop.cancelled() => return,
                _ = expire.tick() => self.aggregate().expire(clock::boottime()),
                changed = seen.changed() => if changed.is_err() {
                    stop.cancelled().await; // discovery has stopped, and so shall we
                    return;
                }
            }
        }
    }
}

/// A stream's ear for the process's end.
#[derive(Debug)]
pub struct Leaving {
    stage: watch::Receiver<Stage>,
    collector: Collector,
}

impl From<&HelloError> for HelloRefused {
    fn from(error: &HelloError) -> Self {
        match error {
            HelloError::Old(_) => HelloRefused::Old,
            HelloError::Incompatible(_) => HelloRefused::Incompatible,
            HelloError::Full(_) => HelloRefused::Full,
        }
    }
}

impl Store for Collector {
    fn hold(&self, ask: &Ask) -> Holding {
        self.aggregate().hold(ask, clock::boottime())
    }
}

impl Leaving {
    /// Waits until it is time, then says how far the stream's batches were scraped.
    pub async fn bye(&mut self, stream: &StreamId) -> Bye {
        // The sender lives in the collector that this holds.
        drop(self.stage.wait_for(|stage| *stage == Stage::Bye).await);
        Bye { exposed: self.collector.aggregate().exposed(stream) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Registry;

    fn collector() -> Collector {
        let cfg = config::Collectord::parse("", &MemberId::new("c1").unwrap()).unwrap();
        let registry = Registry::new();
        let metrics = CollectorMetrics::register(&registry).unwrap();
        Collector::new(&cfg, Arc::default(), metrics, ProcessMetrics::register(&registry).unwrap())
    }

    #[tokio::test]
    async fn bye_waits_for_the_scrapes_under_way_and_no_other_begins() {
        let collector = collector();
        let (_page, showing) = collector.page().unwrap();
        let leaving = tokio::spawn({
            let collector = collector.clone();
            async move { collector.leave(Duration::from_secs(4)).await }
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(collector.page().is_none());
        assert_eq!(*collector.0.stage.borrow(), Stage::LastScrapes);
        collector.scraped(showing, true, 0);
        leaving.await.unwrap();
        assert_eq!(*collector.0.stage.borrow(), Stage::Bye);
    }

    #[tokio::test]
    async fn a_scrape_that_never_ends_does_not_hold_up_bye() {
        let collector = collector();
        let _showing = collector.page().unwrap();
        timeout(Duration::from_secs(2), collector.leave(Duration::from_millis(200))).await.unwrap();
        assert_eq!(*collector.0.stage.borrow(), Stage::Bye);
    }
}
