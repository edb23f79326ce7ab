//! The embeddable collector: an [`Aggregate`] behind a lock, with the loops that keep it.
//!
//! `new` binds nothing and spawns nothing; the apis are mounted by whoever owns the server; `run` owns the loops. The
//! lock is a plain mutex, held for one batch, one query or one scrape's snapshot at a time and never across an await.
//! What it refuses is counted by reason and logged once an outage, as a thousand shippers may try again every few seconds.

mod farewell;
mod load;
mod recent;

pub use farewell::Leaving;

use crate::aggregate::{Aggregate, AggregateConfig, BatchError, HelloError, Mark, Stored, StreamId};
use crate::clock;
use crate::config;
use crate::discovery::Seen;
use crate::message::{Batch, Bequest, Hello, Hi};
use crate::metrics::own::{Bound, HelloRefused, Reason, StreamEnd};
use crate::metrics::{CollectorMetrics, LabelCache, Page, ProcessMetrics, Series};
use crate::model::{Gen, MemberId, Millis, Nanos, NodeId, RingId, TaskId};
use crate::router::Store;
use crate::view::{Ask, Holding, MemberState, Standing};
use farewell::Stage;
use load::Load;
use recent::Recent;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// How often what is over is forgotten.
const EXPIRE_EVERY: Duration = Duration::from_secs(5);
/// How often the load is weighed.
const WEIGH_EVERY: Duration = Duration::from_secs(2);
/// The most nodes whose refusals are told apart in the log.
const MAX_REFUSING: usize = 1000;

/// Why a stream is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAdmitted {
    /// The process leaves.
    Leaving,
    /// `limits.max_streams` are open.
    TooMany(usize),
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
    load: Mutex<Load>,
    recent: Mutex<Recent>,
    /// The nodes whose reports are refused, with the reason last logged.
    refusing: Mutex<BTreeMap<NodeId, &'static str>>,
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
            load: Mutex::default(),
            recent: Mutex::default(),
            refusing: Mutex::default(),
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
        match &greeting {
            Ok(hi) => {
                self.0.metrics.hellos.inc();
                if hello.ring_id.contradicts(hi.ring_id) {
                    self.other_ring();
                }
                tracing::info!(node = %hello.node_name, epoch = hello.epoch, k = hello.k, "stream opened");
            }
            Err(error) => {
                let reason = HelloRefused::from(error);
                self.0.metrics.hellos_refused.of(reason).inc();
                if matches!(error, HelloError::Full(_)) {
                    self.0.process.common.bounds_refused.of(Bound::MaxNodes).inc();
                }
                if self.is_news(&hello.node_id, reason.text()) {
                    tracing::warn!(node = %hello.node_name, epoch = hello.epoch, k = hello.k, %error, "hello refused");
                }
            }
        }
        greeting
    }

    /// Takes a batch of a stream.
    pub fn batch(&self, stream: &StreamId, batch: &Batch) -> Result<Stored, BatchError> {
        let (stored, held) = {
            let mut aggregate = self.aggregate();
            let begun = std::time::Instant::now();
            (aggregate.batch(stream, batch, clock::boottime()), begun.elapsed())
        };
        self.load().add(held);
        let metrics = &self.0.metrics;
        metrics.batch_seconds.inc_by(held.as_secs_f64());
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
        if let Ok(Stored::Acked { other_ring, .. }) = &stored {
            self.refusing().remove(&stream.node);
            if *other_ring {
                self.other_ring();
            }
        }
        stored
    }

    /// The nodes of which tasks are held.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.aggregate().nodes()
    }

    /// The older points of a node's tasks that go to another collector, in messages of a bounded size.
    pub fn bequests(&self, node: &NodeId, goes: impl Fn(&TaskId) -> bool) -> Vec<Bequest> {
        self.aggregate().bequests(node, goes)
    }

    /// Takes the older points of tasks that are held here, from a collector that leaves; of how many tasks.
    pub fn inherit(&self, bequest: &Bequest) -> usize {
        let n_tasks = self.aggregate().inherit(bequest);
        self.0.metrics.tasks_inherited.inc_by(n_tasks as u64);
        n_tasks
    }

    fn load(&self) -> MutexGuard<'_, Load> {
        self.0.load.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.0.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a shipper of this interval is advised to take instead; 0 is no advice.
    pub fn advice(&self, interval: Millis) -> Millis {
        let factor = self.load().factor();
        if factor > 1.0 { (interval as f64 * factor).round() as Millis } else { 0 }
    }

    fn refusing(&self) -> MutexGuard<'_, BTreeMap<NodeId, &'static str>> {
        self.0.refusing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a refusal is to be logged: it is another than the node's last one since something of it was stored.
    fn is_news(&self, node: &NodeId, reason: &'static str) -> bool {
        let mut refusing = self.refusing();
        let has_room = refusing.contains_key(node) || refusing.len() < MAX_REFUSING;
        has_room && refusing.insert(node.clone(), reason) != Some(reason)
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

    /// A stream ended whose hello was accepted; `said` is what its shipper was told, if anything.
    pub fn ended(&self, stream: &StreamId, end: StreamEnd, said: &str) {
        self.aggregate().closed(stream);
        self.0.metrics.streams_ended.of(end).inc();
        let node = &stream.node;
        match end {
            StreamEnd::Gone | StreamEnd::Bye => tracing::info!(%node, reason = end.text(), "stream ended"),
            // Its successor is there; or its shipper will be back.
            StreamEnd::Fenced | StreamEnd::Broken => {
                tracing::info!(%node, reason = end.text(), detail = said, "stream ended");
            }
            _ if self.is_news(node, end.text()) => {
                tracing::warn!(%node, reason = end.text(), detail = said, "stream refused");
            }
            _ => {}
        }
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
        let nodes = scrape.nodes.into_iter().map(Into::into).collect();
        let series = Series { tasks: labels.tasks(scrape.tasks), services, nodes, ..Series::default() };
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

    /// Why streams of shippers were refused, with how often.
    pub fn refused_hellos(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        self.0.metrics.hellos_refused.counts().map(|(reason, n)| (format!("hello_{reason}"), n))
    }

    /// How this collector is, and how much it carries; without its time.
    pub fn standing(&self) -> Standing {
        let (sizes, emitted, live, elsewhere) = {
            let (aggregate, now) = (self.aggregate(), clock::boottime());
            (aggregate.sizes(), aggregate.emitted_tasks(now), aggregate.live_tasks(), aggregate.elsewhere())
        };
        let samples = self.0.metrics.samples.get();
        Standing {
            state: if self.is_serving() { MemberState::Active } else { MemberState::Draining },
            tasks: live as u64,
            emitted: emitted as u64,
            rows: sizes.rows as u64,
            elsewhere: elsewhere as u64,
            samples,
            recent: self.recent().since(clock::boottime(), samples),
            uptime: 0,
        }
    }

    /// Sets the gauges to what is held now; before the process's own metrics are rendered.
    pub fn measure(&self) {
        let (sizes, unscraped, roles) = {
            let (aggregate, now) = (self.aggregate(), clock::boottime());
            (aggregate.sizes(), aggregate.unscraped_for(now), aggregate.roles(now))
        };
        let metrics = &self.0.metrics;
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        metrics.streams.set(count(self.0.max_streams - self.0.streams.available_permits()));
        metrics.nodes.set(count(sizes.nodes));
        metrics.tasks.set(count(sizes.tasks));
        metrics.tasks_ended.set(count(sizes.ended));
        metrics.rows.set(count(sizes.rows));
        metrics.roles.set(count(roles));
        metrics.ledger_services.set(count(sizes.ledger));
        metrics.draining.set(i64::from(!self.is_serving()));
        metrics.unscraped.set(unscraped as f64 / 1e9);
    }

    /// A place for one more stream, given back when dropped. While it drains streams are taken: their shippers settle on
    /// them what they owe.
    pub fn admit_stream(&self) -> Result<OwnedSemaphorePermit, NotAdmitted> {
        let refused = &self.0.metrics.hellos_refused;
        if *self.0.stage.borrow() >= Stage::LastScrapes {
            refused.of(HelloRefused::Leaving).inc();
            return Err(NotAdmitted::Leaving);
        }
        self.0.streams.clone().try_acquire_owned().map_err(|_| {
            self.0.process.common.bounds_refused.of(Bound::MaxStreams).inc();
            refused.of(HelloRefused::TooMany).inc();
            NotAdmitted::TooMany(self.0.max_streams)
        })
    }

    /// A stream's hello did not come before this process left.
    pub fn left_first(&self) {
        self.0.metrics.hellos_refused.of(HelloRefused::Leaving).inc();
    }

    /// The loops of the streams: [`Collector::leave`] waits for them.
    pub fn loops(&self) -> &TaskTracker {
        &self.0.loops
    }

    fn weigh(&self, passed: Duration) {
        let (before, now) = {
            let mut load = self.load();
            let before = load.factor();
            load.weigh(passed);
            (before, load.factor())
        };
        self.0.metrics.advised_factor.set(now);
        if before == 1.0 && now > 1.0 {
            tracing::warn!("batches keep this collector busy: shippers are advised to read less often; add collectors");
        }
    }

    /// Keeps the aggregate until stopped: follows the ring, forgets what is over.
    pub async fn run(self, mut seen: Seen, stop: CancellationToken) {
        let mut expire = tokio::time::interval(EXPIRE_EVERY);
        let (mut weigh, mut weighed) = (tokio::time::interval(WEIGH_EVERY), std::time::Instant::now());
        loop {
            let ring_id = seen.borrow_and_update().as_ref().map_or_else(RingId::default, |view| view.ring.id());
            self.aggregate().set_ring_id(ring_id);
            // Cancel-safe, all of them.
            tokio::select! {
                () = stop.cancelled() => return,
                _ = expire.tick() => self.aggregate().expire(clock::boottime()),
                _ = weigh.tick() => {
                    self.weigh(std::mem::replace(&mut weighed, std::time::Instant::now()).elapsed());
                    self.recent().look(clock::boottime(), self.0.metrics.samples.get());
                }
                changed = seen.changed() => if changed.is_err() {
                    stop.cancelled().await; // discovery has stopped, and so shall we
                    return;
                }
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Registry;

    pub(super) fn collector() -> Collector {
        let cfg = config::Collectord::parse("", &MemberId::new("c1").unwrap()).unwrap();
        let registry = Registry::new();
        let metrics = CollectorMetrics::register(&registry).unwrap();
        Collector::new(&cfg, Arc::default(), metrics, ProcessMetrics::register(&registry).unwrap())
    }
}
