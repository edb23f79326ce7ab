//! The embeddable collector: an [`Aggregate`] behind a lock, with the loops that keep it.
//!
//! `new` binds nothing and spawns nothing; the apis are mounted by whoever owns the server; `run` owns the loops. The
//! lock is a plain mutex, held for one batch, one query or one scrape's snapshot at a time and never across an await.

use crate::aggregate::{Aggregate, AggregateConfig, BatchError, HelloError, Scrape, Stored, StreamId};
use crate::clock;
use crate::config;
use crate::discovery::Seen;
use crate::message::{Batch, Bye, Hello, Hi};
use crate::model::{Gen, MemberId, Nanos, RingId};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

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
    /// Says Bye on every stream; no scrape is answered any more.
    Bye,
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
    nudge: Arc<Notify>,
}

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Collector {
    /// A collector of this config; `nudge` is discovery's, for a shipper that sees another ring.
    pub fn new(cfg: &config::Collectord, nudge: Arc<Notify>) -> Collector {
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
            nudge,
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
        let hi = self.aggregate().hello(hello, clock::boottime())?;
        if hello.ring_id != hi.ring_id {
            self.0.nudge.notify_one();
        }
        tracing::info!(node = %hello.node_name, epoch = hello.epoch, k = hello.k, "stream opened");
        Ok(hi)
    }

    /// Takes a batch of a stream.
    pub fn batch(&self, stream: &StreamId, batch: &Batch) -> Result<Stored, BatchError> {
        let stored = self.aggregate().batch(stream, batch, clock::boottime())?;
        if let Stored::Acked { other_ring: true, .. } = stored {
            self.0.nudge.notify_one();
        }
        Ok(stored)
    }

    /// A stream ended.
    pub fn closed(&self, stream: &StreamId) {
        self.aggregate().closed(stream);
    }

    /// The snapshot of one scrape, or `None` after Bye: what is shown then would be counted twice.
    pub fn scrape(&self) -> Option<Scrape> {
        let mut aggregate = self.aggregate();
        (*self.0.stage.borrow() < Stage::Bye).then(|| aggregate.scrape(clock::boottime()))
    }

    /// The body of a scrape was fully written.
    pub fn scraped(&self, mark: &crate::aggregate::Mark) {
        self.aggregate().scraped(mark, clock::boottime());
    }

    /// A place for one more stream, given back when dropped.
    pub fn admit_stream(&self) -> Result<OwnedSemaphorePermit, NotAdmitted> {
        if *self.0.stage.borrow() > Stage::Serving {
            return Err(NotAdmitted::Draining);
        }
        self.0.streams.clone().try_acquire_owned().map_err(|_| NotAdmitted::TooMany(self.0.max_streams))
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

    /// Says Bye on every stream and waits until each has been told, for `deadline` at most.
    pub async fn leave(&self, deadline: Duration) {
        self.0.stage.send_replace(Stage::Bye);
        self.0.loops.close();
        if tokio::time::timeout(deadline, self.0.loops.wait()).await.is_err() {
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

impl Leaving {
    /// Waits until it is time, then says how far the stream's batches were scraped.
    pub async fn bye(&mut self, stream: &StreamId) -> Bye {
        // The sender lives in the collector that this holds.
        drop(self.stage.wait_for(|stage| *stage == Stage::Bye).await);
        Bye { exposed: self.collector.aggregate().exposed(stream) }
    }
}
