//! The shipper: reads its node once an interval, and keeps a stream to every member that owns some of its keys.
//!
//! One tick for the whole node, at a phase of its own; a loop per member; the pure outbox between them, behind a plain
//! mutex that is never held across an await. It answers the same questions as a collector, for its own node.

mod ended;
mod measure;
mod pace;
mod reach;
mod stream;

use crate::clock;
use crate::config::{self, Address};
use crate::discovery::Seen;
use crate::metrics::own::StreamFailed;
use crate::metrics::{Page, ProcessMetrics, Series, ShipperMetrics};
use crate::model::{Gen, MemberId, Millis, Nanos, NodeId, RingId};
use crate::outbox::{Ended, Outbox, OutboxConfig, Reading};
use crate::router::Store;
use crate::scrape::{Done, Scraped};
use crate::source::{self, Docker, Node};
use crate::view::{Ask, Holding};
use pace::Pace;
use reach::Reach;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// A shipper that is refused so often within a minute shares its node with another one.
const MAX_REFUSALS: usize = 2;
const REFUSALS_WITHIN: Nanos = 60_000_000_000;
/// For so long an old owner is told of a key beside the new ones: longer than discovery takes to have everybody know of a
/// new member.
const OVERLAP: Duration = Duration::from_secs(10);
/// How often the set of members that a stream is wanted to is looked at, beside each change of the ring.
const DESTINATIONS_EVERY: Duration = Duration::from_secs(1);
/// The first pause between attempts at a stream is up to an interval, and between these: nothing is new before the next
/// round, and the shippers of a collector that died all miss it at the same moment.
const FIRST_PAUSE: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(1);
/// A stream is opened anew at an age between half of this and this, so that a connection's state does not grow for ever and
/// what changed on the way (addresses, load balancers) is noticed.
pub const STREAM_AGE: Duration = Duration::from_secs(3600);

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
    stream_age: Duration,
    reach: Mutex<Reach>,
    pace: Mutex<Pace>,
    refusals: Mutex<VecDeque<Nanos>>,
    two_shippers: Notify,
    /// What of the outbox's counts is in the metrics already; its lock orders whoever sets them.
    counted: Mutex<measure::Counted>,
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
    /// A shipper for the node that its engine names; spawns nothing. `stream_age` is [`STREAM_AGE`], or for hosts whose
    /// connections last less long, less.
    pub fn new(
        cfg: config::Shipper,
        node: Node,
        stream_age: Duration,
        seen: Seen,
        nudge: Arc<Notify>,
        metrics: ShipperMetrics,
        process: ProcessMetrics,
    ) -> Shipper {
        let nonce = clock::process_nonce();
        let Node { node_id, node_name } = node;
        let outbox = OutboxConfig {
            node_id: node_id.clone(),
            node_name,
            started: clock::wall(),
            started_monotonic: clock::monotonic(),
            nonce,
            stats: cfg.level.mask(),
            interval: nanos(cfg.interval),
            lease: nanos(cfg.takeover_after),
            overlap: nanos(OVERLAP),
            row_keep: nanos(cfg.row_keep),
            max_catch_up: nanos(cfg.max_catch_up),
        };
        // A node id is as good an identity as any for a process that is no member of the ring.
        let member = MemberId::new(node_id.as_str()).expect("ids have the same rules");
        Shipper(Arc::new(Inner {
            outbox: Mutex::new(Outbox::new(outbox, None)),
            node_id,
            member,
            gen_: Gen(nonce),
            seen,
            addresses: Mutex::default(),
            nudge,
            round: watch::Sender::new(0),
            stream_age,
            pace: Mutex::new(Pace::new(cfg.interval)),
            reach: Mutex::new(Reach::new(clock::monotonic())),
            refusals: Mutex::default(),
            two_shippers: Notify::new(),
            counted: Mutex::default(),
            metrics,
            process,
            cfg,
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
        let mut interval = self.0.cfg.interval;
        let phase = Duration::from_nanos(self.0.gen_.0 % nanos(interval).max(1));
        let mut tick = tokio::time::interval_at(tokio::time::Instant::now() + phase, interval);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut faults = source::Faults::default();
        loop {
            let at = tokio::select! {
                () = stop.cancelled() => return,
                at = tick.tick() => at,
            };
            let pace = lock(&self.0.pace).interval();
            if pace != interval {
                tracing::info!(before = ?interval, now = ?pace, "the interval changes by the advice of collectors");
                interval = pace;
                tick = tokio::time::interval_at(at + interval, interval);
                tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
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
            self.outbox(|outbox| outbox.set_pace(nanos(interval)));
            self.observe(round);
        }
    }

    fn observe(&self, round: source::Round) {
        let readings = round.readings.into_iter().map(|(meta, reading)| match reading {
            source::Reading::Fresh(values) => Reading { meta, values: Some(values), age: 0 },
            source::Reading::Aged { values, age } => Reading { meta, values: Some(values), age },
            source::Reading::Unread(_) => Reading { meta, values: None, age: 0 },
        });
        let ended = round.ended.into_iter().map(|ended| Ended { meta: ended.meta.clone(), values: ended.values() });
        let q = self.outbox(|outbox| {
            outbox.observe(round.monotonic, round.machine, readings, ended);
            outbox.version().q
        });
        self.0.round.send_replace(q);
    }

    /// Keeps a loop for every member that a stream is wanted to.
    async fn streams(self, stop: CancellationToken) {
        let mut seen = self.0.seen.clone();
        let mut loops = JoinSet::new();
        let mut kept: BTreeMap<MemberId, (CancellationToken, AbortHandle)> = BTreeMap::new();
        loop {
            if let Some(view) = seen.borrow_and_update().clone() {
                self.outbox(|outbox| outbox.set_ring(view.ring.clone()));
                let addresses = view.members.values().map(|member| (member.id.clone(), member.addr.clone()));
                lock(&self.0.addresses).extend(addresses);
            }
            let wanted = self.outbox(Outbox::destinations);
            lock(&self.0.addresses).retain(|member, _| wanted.contains(member));
            kept.retain(|member, (stop, running)| {
                let is_wanted = wanted.contains(member);
                if !is_wanted {
                    stop.cancel();
                }
                // Only then nobody counts anything for it any more.
                if !is_wanted && running.is_finished() {
                    self.forget(member);
                }
                !running.is_finished()
            });
            for member in wanted {
                kept.entry(member.clone()).or_insert_with(|| {
                    let stop = stop.child_token();
                    (stop.clone(), loops.spawn(stream::keep(self.clone(), member, stop)))
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

    /// A member is gone, and with it what was told of it.
    fn forget(&self, member: &MemberId) {
        let _counted = lock(&self.0.counted);
        lock(&self.0.reach).forget(member);
        measure::forget(&self.0.metrics, member);
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

    fn first_pause(&self) -> Duration {
        self.0.cfg.interval.clamp(*FIRST_PAUSE.start(), *FIRST_PAUSE.end())
    }

    fn stream_age(&self) -> Duration {
        self.0.stream_age
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
        if theirs.contradicts(ours) {
            self.0.process.common.ring_mismatches.inc();
            self.0.nudge.notify_one();
        }
    }

    /// A member acknowledged a batch, and may advise another interval.
    fn acked(&self, member: &MemberId, advised: Millis) {
        lock(&self.0.pace).advise(member, advised);
        self.0.metrics.batches_acked.of(member).inc();
        lock(&self.0.reach).acked(member, clock::monotonic());
    }

    /// The stream to a member ended, however it did.
    fn closed(&self, member: &MemberId, k: u64) {
        self.outbox(|outbox| outbox.closed(member, k));
        lock(&self.0.pace).forget(member);
    }

    /// There is no stream to a member, or no longer.
    fn failed(&self, member: &MemberId, failed: StreamFailed, ended: &ended::Ended) {
        self.0.metrics.streams_failed.of(failed).inc();
        lock(&self.0.reach).failed(member, ended.to_string());
    }

    /// Why nobody has what this shipper reports, where nobody does: for longer than a takeover and three intervals.
    pub fn unheard(&self) -> Option<String> {
        let longest = nanos(self.0.cfg.takeover_after + 3 * self.0.cfg.interval);
        lock(&self.0.reach).unheard(clock::monotonic(), longest)
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
        let mut counted = lock(&self.0.counted);
        let held = self.outbox(|outbox| measure::Held::of(outbox, clock::monotonic()));
        measure::held(&self.0.metrics, &held, &mut counted);
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
