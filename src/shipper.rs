//! The shipper: reads its node once an interval, and keeps a stream to every member that owns some of its keys.
//!
//! One tick for the whole node, at a phase of its own; a loop per member; the pure outbox between them, behind a plain
//! mutex that is never held across an await. It answers the same questions as a collector, for its own node.

mod measure;
mod stream;

use crate::clock;
use crate::config::{self, Address};
use crate::discovery::Seen;
use crate::metrics::{Page, ProcessMetrics, Series, ShipperMetrics};
use crate::model::{Gen, MemberId, Nanos, NodeId, RingId};
use crate::outbox::{Ended, Outbox, OutboxConfig, Reading};
use crate::router::Store;
use crate::scrape::{Done, Scraped};
use crate::source::{self, Docker};
use crate::view::{Ask, Holding};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A shipper that is refused so often within a minute shares its node with another one.
const MAX_REFUSALS: usize = 2;
const REFUSALS_WITHIN: Nanos = 60_000_000_000;
/// How often the set of members that a stream is wanted to is looked at, beside each change of the ring.
const DESTINATIONS_EVERY: Duration = Duration::from_secs(1);

/// Why a shipper ends by itself.
#[derive(Debug, thiserror::Error)]
pub enum ShipperError {
    /// LEDGER 4: of two shippers that claim one node the loser of two refusals in a minute exits.
    #[error(
        "another shipper speaks for node {0}: collectors refused this one {MAX_REFUSALS} times within a minute. \
         Run one shipper a node; after cloning a machine, remove the engine's identity from the copy"
    )]
    TwoShippers(NodeId),
    /// A fault of this program.
    #[error("the loop that reads or sends ended early: this is a fault of the shipper, the log above says where")]
    Broken,
}

/// See the head of this file. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Shipper(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    outbox: Mutex<Outbox>,
    cfg: config::Shipper,
    node_id: NodeId,
    member: MemberId,
    gen_: Gen,
    seen: Seen,
    /// Where members answer, those included that left the ring while something is owed to them.
    addresses: Mutex<BTreeMap<MemberId, Address>>,
    nudge: Arc<Notify>,
    round: watch::Sender<u64>,
    refusals: Mutex<VecDeque<Nanos>>,
    two_shippers: Notify,
    metrics: ShipperMetrics,
    process: ProcessMetrics,
}

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// No code here panics with one of these locks held; if it did, the books could be half written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic while the shipper's books are locked")
}

impl Shipper {
    /// A shipper for the node that its engine names; spawns nothing.
    pub fn new(
        cfg: config::Shipper,
        node_id: NodeId,
        node_name: Arc<str>,
        seen: Seen,
        nudge: Arc<Notify>,
        metrics: ShipperMetrics,
        process: ProcessMetrics,
    ) -> Shipper {
        let nonce = clock::process_nonce();
        let outbox = OutboxConfig {
            node_id: node_id.clone(),
            node_name,
            started: clock::wall(),
            started_monotonic: clock::monotonic(),
            nonce,
            stats: cfg.level.mask(),
            interval: nanos(cfg.interval),
            lease: nanos(cfg.takeover_after),
            row_keep: nanos(cfg.row_keep),
            max_catch_up: nanos(cfg.max_catch_up),
        };
        // A node id is as good an identity as any for a process that is no member of the ring.
        let member = MemberId::new(node_id.as_str()).expect("ids have the same rules");
        Shipper(Arc::new(Inner {
            outbox: Mutex::new(Outbox::new(outbox, None)),
            cfg,
            node_id,
            member,
            gen_: Gen(nonce),
            seen,
            addresses: Mutex::default(),
            nudge,
            round: watch::Sender::new(0),
            refusals: Mutex::default(),
            two_shippers: Notify::new(),
            metrics,
            process,
        }))
    }

    /// How this process calls itself when asked.
    pub fn member(&self) -> &MemberId {
        &self.0.member
    }

    /// Runs until stopped: samples, and keeps the streams.
    pub async fn run(self, docker: Docker, stop: CancellationToken) -> Result<(), ShipperError> {
        let stop = stop.child_token();
        let _stop_all = stop.clone().drop_guard();
        let mut loops = JoinSet::new();
        loops.spawn(self.clone().sample(docker, stop.clone()));
        loops.spawn(self.clone().streams(stop.clone()));
        let ended = tokio::select! {
            () = stop.cancelled() => Ok(()),
            () = self.0.two_shippers.notified() => Err(ShipperError::TwoShippers(self.0.node_id.clone())),
            // Neither ends before it is told to, unless it panicked: figures would stand still with nobody knowing.
            Some(_) = loops.join_next() => Err(ShipperError::Broken),
        };
        stop.cancel();
        while loops.join_next().await.is_some() {}
        ended
    }

    /// The tick: at a phase of its own, so that a swarm's shippers do not all read and send at once.
    async fn sample(self, mut docker: Docker, stop: CancellationToken) {
        let interval = self.0.cfg.interval;
        let phase = Duration::from_nanos(self.0.gen_.0 % nanos(interval).max(1));
        let mut tick = tokio::time::interval_at(tokio::time::Instant::now() + phase, interval);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut faults = source::Faults::default();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            let begun = std::time::Instant::now();
            // Reading files of the kernel can block, and takes its time where there are many.
            let sampled = tokio::task::spawn_blocking(move || {
                let round = docker.sample();
                (docker, round)
            });
            let Ok((back, round)) = sampled.await else { return };
            docker = back;
            let now = docker.faults();
            measure::round(&self.0.metrics, &round, &now, &faults, begun.elapsed());
            faults = now;
            self.observe(round);
        }
    }

    fn observe(&self, round: source::Round) {
        let readings = round.readings.into_iter().map(|(meta, reading)| Reading {
            meta,
            values: match reading {
                source::Reading::Fresh(values) | source::Reading::Aged { values, .. } => Some(values),
                source::Reading::Unread(_) => None,
            },
        });
        let ended = round.ended.into_iter().map(|ended| Ended { meta: ended.meta, values: ended.last });
        let q = self.outbox(|outbox| {
            outbox.observe(round.monotonic, readings, ended);
            outbox.version().q
        });
        self.0.round.send_replace(q);
    }

    /// Keeps a loop for every member that a stream is wanted to.
    async fn streams(self, stop: CancellationToken) {
        let mut seen = self.0.seen.clone();
        let mut loops = JoinSet::new();
        let mut stops: BTreeMap<MemberId, CancellationToken> = BTreeMap::new();
        loop {
            if let Some(view) = seen.borrow_and_update().clone() {
                self.outbox(|outbox| outbox.set_ring(view.ring.clone()));
                let addresses = view.members.values().map(|member| (member.id.clone(), member.addr.clone()));
                lock(&self.0.addresses).extend(addresses);
            }
            let wanted = self.outbox(Outbox::destinations);
            lock(&self.0.addresses).retain(|member, _| wanted.contains(member));
            stops.retain(|member, stop| {
                let keep = wanted.contains(member);
                if !keep {
                    stop.cancel();
                }
                keep
            });
            for member in wanted {
                stops.entry(member.clone()).or_insert_with(|| {
                    let stop = stop.child_token();
                    loops.spawn(stream::keep(self.clone(), member, stop.clone()));
                    stop
                });
            }
            // Cancel-safe, all of them.
            tokio::select! {
                () = stop.cancelled() => break,
                changed = seen.changed() => if changed.is_err() { stop.cancelled().await; break },
                () = tokio::time::sleep(DESTINATIONS_EVERY) => {}
                Some(_) = loops.join_next() => {}
            }
        }
        while loops.join_next().await.is_some() {}
    }

    fn outbox<T>(&self, act: impl FnOnce(&mut Outbox) -> T) -> T {
        act(&mut lock(&self.0.outbox))
    }

    fn address(&self, member: &MemberId) -> Option<Address> {
        lock(&self.0.addresses).get(member).cloned()
    }

    fn rounds(&self) -> watch::Receiver<u64> {
        self.0.round.subscribe()
    }

    fn metrics(&self) -> &ShipperMetrics {
        &self.0.metrics
    }

    fn max_message(&self) -> usize {
        self.0.cfg.limits.max_message
    }

    /// A batch goes out at least this often (LEDGER 5).
    fn beat(&self) -> Duration {
        self.0.cfg.interval.min(self.0.cfg.takeover_after / 3)
    }

    fn longest_pause(&self) -> Duration {
        self.0.cfg.longest_pause()
    }

    /// A batch unanswered for so long ends its stream; reconnecting settles it.
    fn ack_deadline(&self) -> Duration {
        self.0.cfg.takeover_after.max(Duration::from_secs(3))
    }

    fn meet_ring(&self, theirs: RingId) {
        let ours = self.outbox(|outbox| outbox.ring_id());
        if theirs != ours && theirs != RingId::default() {
            self.0.process.common.ring_mismatches.inc();
            self.0.nudge.notify_one();
        }
    }

    fn refused(&self) {
        let now = clock::monotonic();
        let mut refusals = lock(&self.0.refusals);
        refusals.push_back(now);
        refusals.retain(|at| now - at < REFUSALS_WITHIN);
        if refusals.len() >= MAX_REFUSALS {
            self.0.two_shippers.notify_one();
        }
    }
}

impl Scraped for Shipper {
    fn measure(&self) {
        let held = self.outbox(|outbox| measure::Held::of(outbox));
        measure::held(&self.0.metrics, &held);
    }

    /// The node's own rows: exact with no protocol, for those who scrape every node.
    fn page(&self) -> Option<(Page, Done)> {
        let node_services = self.outbox(|outbox| outbox.rows()).iter().map(Into::into).collect();
        Some((Page::new(Series { node_services, ..Series::default() }), Box::new(|_, _| {})))
    }
}

impl Store for Shipper {
    fn hold(&self, ask: &Ask) -> Holding {
        let (member, gen_, now) = (self.0.member.clone(), self.0.gen_, clock::monotonic());
        self.outbox(|outbox| outbox.hold(ask, member, gen_, now))
    }
}
