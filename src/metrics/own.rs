//! Each process's own metrics; the only file that names the `prometheus` crate.
//!
//! A metric is one line in a table below: field, kind, name, help. Labels are closed enums ([`Reason`]), so that their
//! number is bounded by the type and every series is there with 0 from the start, or members ([`PerMember`]), bounded by
//! the ring; the crate's label vectors take two label values that read the same when joined for one, so none has two
//! labels.
//!
//! Everything is registered on a registry that the caller brings, never on a global one: a host that embeds a
//! collector scrapes it with its own.

use super::process;
use crate::model::{MemberId, RingId};
pub use prometheus::Registry;
use prometheus::core::{Collector, Desc, MetricVec, MetricVecBuilder};
use prometheus::proto::MetricFamily;
use prometheus::{
    Counter, Encoder, Gauge, GaugeVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, TextEncoder,
};
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

/// Why metrics are not to be had.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The registry has one of the same name.
    #[error("metric {0} cannot be registered: use one registry a process")]
    Register(String, #[source] prometheus::Error),
    /// The crate could not write them.
    #[error("the process's own metrics cannot be rendered")]
    Render(#[from] prometheus::Error),
}

/// The text of everything registered.
pub fn render(registry: &Registry) -> Result<Vec<u8>, MetricsError> {
    let mut text = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut text)?;
    Ok(text)
}

/// The values of one label.
pub trait Reason: Copy + Sized + 'static {
    /// The label's name.
    const LABEL: &'static str;
    /// Every value, in order of [`Reason::place`].
    const TEXTS: &'static [&'static str];
    /// Its place among them.
    fn place(self) -> usize;
    /// Its text.
    fn text(self) -> &'static str {
        Self::TEXTS[self.place()]
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $label:literal { $($variant:ident $text:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name {
            $(#[doc = concat!("`", $text, "`")] $variant,)*
        }

        impl Reason for $name {
            const LABEL: &'static str = $label;
            const TEXTS: &'static [&'static str] = &[$($text),*];
            fn place(self) -> usize {
                self as usize
            }
        }
    )*};
}

reasons! {
    /// Why a shipper's hello was refused.
    HelloRefused "reason" {
        Old "old", Incompatible "incompatible", Full "full", Malformed "malformed", Silent "silent",
        TooMany "too_many_streams", Leaving "leaving",
    }
    /// How a stream ended whose hello was accepted, as the collector saw it; to it a connection that is lost looks like one
    /// that is closed: `gone`.
    StreamEnd "reason" {
        Gone "gone", Bye "bye", Fenced "fenced", Malformed "malformed", TooLong "too_long", DataLoss "data_loss",
        Foreign "foreign", Full "full", Idle "idle", Unread "unread", Broken "broken",
    }
    /// Why a shipper has no stream to a collector, or lost it before its time.
    StreamFailed "reason" {
        Connect "connect", HelloLate "hello_late", HelloOld "hello_old", Incompatible "incompatible", Full "full",
        Leaving "leaving", BatchLate "batch_late", DataLoss "data_loss", Foreign "foreign", Malformed "malformed",
        Fenced "fenced", Closed "closed", Broken "broken", Unreadable "unreadable", NewEpoch "new_epoch",
    }
    /// Why something of a node was not read or not understood; `source` names them alike.
    Fault "reason" {
        Malformed "malformed", Unreadable "unreadable", Denied "denied", OpenFiles "open_files", Gone "gone",
        Unseen "unseen", OtherProcess "other_process", Bounds "bounds", UnseenTail "unseen_tail", Engine "engine",
        Event "event", Identity "identity", NoController "no_controller",
    }
    /// Why a task could not be read in a round; `source` names them alike.
    Unread "reason" { Gone "gone", NoRecord "no_record", Restarting "restarting", NoAnswer "no_answer", }
    /// A limit that refused something; the texts are the keys under `limits`, or the names of what cannot be configured.
    Bound "bound" {
        MaxTasks "max_tasks", MaxNodes "max_nodes", MaxMessage "max_message", MaxStreams "max_streams",
        MaxSubscriptions "max_subscriptions", MaxQueries "max_queries", MaxRemembered "max_remembered",
        MaxScrapes "max_scrapes", MaxConnections "max_connections", MaxMetrics "max_metrics",
    }
    /// A thing that listens.
    Endpoint "endpoint" { Api "api", Metrics "metrics", }
}

/// One counter a reason.
#[derive(Debug, Clone)]
pub struct Each<R> {
    counters: Vec<IntCounter>,
    reason: PhantomData<R>,
}

impl<R: Reason> Each<R> {
    /// The counter of a reason by its text.
    pub fn named(&self, text: &str) -> Option<&IntCounter> {
        R::TEXTS.iter().position(|known| *known == text).map(|place| &self.counters[place])
    }
    /// The reasons that happened, with how often.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let counts = R::TEXTS.iter().copied().zip(self.counters.iter().map(IntCounter::get));
        counts.filter(|(_, count)| *count > 0)
    }
    /// The counter of a reason.
    pub fn of(&self, reason: R) -> &IntCounter {
        &self.counters[reason.place()]
    }
}

/// One metric a member of the ring; those of a member that is gone are taken away with [`PerMember::forget`].
#[derive(Debug, Clone)]
pub struct PerMember<V>(V);

impl<B: MetricVecBuilder> PerMember<MetricVec<B>> {
    /// The metric of a member.
    pub fn of(&self, member: &MemberId) -> B::M {
        self.0.with_label_values(&[member.as_str()])
    }
    /// The member is gone.
    pub fn forget(&self, member: &MemberId) {
        // There may be none yet.
        drop(self.0.remove_label_values(&[member.as_str()]));
    }
}

/// A kind of metric that can be registered by name.
trait Registered: Sized {
    fn register(registry: &Registry, name: &str, help: &str) -> Result<Self, prometheus::Error>;
}

macro_rules! registered {
    ($($kind:ty: $make:expr;)*) => {$(
        impl Registered for $kind {
            fn register(registry: &Registry, name: &str, help: &str) -> Result<Self, prometheus::Error> {
                let make: fn(&str, &str) -> Result<$kind, prometheus::Error> = $make;
                let metric = make(name, help)?;
                registry.register(Box::new(metric.clone()))?;
                Ok(metric)
            }
        }
    )*};
}

registered! {
    IntCounter: |name, help| IntCounter::new(name, help);
    Counter: |name, help| Counter::new(name, help);
    IntGauge: |name, help| IntGauge::new(name, help);
    Gauge: |name, help| Gauge::new(name, help);
    IntCounterVec: |name, help| IntCounterVec::new(Opts::new(name, help), &["member"]);
    GaugeVec: |name, help| GaugeVec::new(Opts::new(name, help), &["member"]);
}

impl<V: Registered> Registered for PerMember<V> {
    fn register(registry: &Registry, name: &str, help: &str) -> Result<Self, prometheus::Error> {
        V::register(registry, name, help).map(PerMember)
    }
}

impl<R: Reason> Registered for Each<R> {
    fn register(registry: &Registry, name: &str, help: &str) -> Result<Self, prometheus::Error> {
        let family = IntCounterVec::new(Opts::new(name, help), &[R::LABEL])?;
        registry.register(Box::new(family.clone()))?;
        let counters = R::TEXTS.iter().map(|text| family.with_label_values(&[text])).collect();
        Ok(Each { counters, reason: PhantomData })
    }
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $set:ident $prefix:literal { $($field:ident: $kind:ty, $name:literal $help:literal;)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $set {
            $(#[doc = $help] pub $field: $kind,)*
        }

        impl $set {
            /// Registers them all, with 0.
            pub fn register(registry: &Registry) -> Result<$set, MetricsError> {
                Ok($set {$(
                    $field: Registered::register(registry, concat!($prefix, $name), $help)
                        .map_err(|err| MetricsError::Register(concat!($prefix, $name).to_owned(), err))?,
                )*})
            }
        }
    )*};
}

metrics! {
    /// A shipper's own metrics.
    ShipperMetrics "swarmstats_shipper_" {
        rounds: IntCounter, "rounds_total" "Sample rounds made";
        round_seconds: Counter, "round_seconds_total" "Time spent in sample rounds";
        effective_interval: Gauge, "effective_interval_seconds" "Time between the two newest sample rounds";
        samples: IntCounter, "samples_total" "Task samples read";
        samples_by_engine: IntCounter, "samples_by_engine_total" "Task samples the engine gave because the cgroup cannot be seen";
        unread: Each<Unread>, "unread_total" "Task samples that could not be read in their round, by reason";
        faults: Each<Fault>, "faults_total" "What was not read or not understood, by reason";
        unseen_tail_seconds: Counter, "unseen_tail_seconds_total" "Time before tasks' ends that no reading saw";
        tasks: IntGauge, "tasks" "Tasks read on this node";
        rows: IntGauge, "rows" "Rows kept of this node's services";
        streams: IntGauge, "streams" "Streams to collectors that are open";
        streams_opened: IntCounter, "streams_opened_total" "Streams to collectors that were opened";
        streams_failed: Each<StreamFailed>, "streams_failed_total" "Streams to collectors that were refused, broke or could not be opened, by reason";
        streams_renewed: IntCounter, "streams_renewed_total" "Streams to collectors ended and opened again because of their age";
        members_usable: IntGauge, "usable_members" "Members of the ring that accept this shipper's reports";
        batches_sent: PerMember<IntCounterVec>, "batches_sent_total" "Batches sent, by member";
        batches_acked: PerMember<IntCounterVec>, "batches_acked_total" "Batches that a collector said it stored, by member";
        batches_unacked: PerMember<IntCounterVec>, "batches_unacknowledged_total" "Batches whose stream ended before the collector said it stored them, by member";
        bytes_sent: IntCounter, "sent_bytes_total" "Bytes of batches sent";
        batches_owed: PerMember<GaugeVec>, "owed_batches" "Batches with increments that are in flight or not known to be scraped, by member";
        owed_seconds: PerMember<GaugeVec>, "owed_seconds" "For how long the oldest increments are in flight or not known to be scraped, by member";
        moves: IntCounter, "moves_total" "Keys (tasks, rows, nodes) sent to another member than before";
        takeovers: IntCounter, "takeovers_total" "Keys granted to another process because their holder was dead, gone or unheard of";
        returned_batches: IntCounter, "returned_batches_total" "Batches whose increments were handed on because their process had died";
        returned_cpu: Counter, "returned_cpu_seconds_total" "CPU time handed on because its process had died: at most so much is counted twice";
        pooled_rows: IntGauge, "pooled_rows" "Rows with increments that no collector has taken yet";
        batches_unexposed: IntGauge, "batches_unexposed" "Batches stored by a collector but not known to be scraped";
        unconfirmed_batches: IntCounter, "unconfirmed_batches_total" "Batches stored by a collector and forgotten here because no scrape showed them within max_catch_up";
        unconfirmed_cpu: Counter, "unconfirmed_cpu_seconds_total" "CPU time of such batches: shown by the collector's next scrape, missing in service counters if it died before";
        dropped_cpu: Counter, "dropped_cpu_seconds_total" "CPU time too old to be handed over, missing in service counters";
    }
    /// A collector's own metrics.
    CollectorMetrics "swarmstats_collector_" {
        hellos: IntCounter, "hellos_total" "Streams of shippers accepted";
        hellos_refused: Each<HelloRefused>, "hellos_refused_total" "Streams of shippers refused, by reason";
        batches_stored: IntCounter, "batches_stored_total" "Batches applied";
        batches_repeated: IntCounter, "batches_repeated_total" "Batches that were stored before and only acknowledged";
        batches_fenced: IntCounter, "batches_fenced_total" "Batches ignored because their stream is not the node's current one";
        batches_malformed: IntCounter, "batches_malformed_total" "Streams ended because a message after the hello could not be read or was no batch";
        data_losses: IntCounter, "data_losses_total" "Streams ended because a batch did not fit its baselines";
        foreign_reports: IntCounter, "foreign_reports_total" "Streams ended because they spoke of another node";
        streams_ended: Each<StreamEnd>, "streams_ended_total" "Streams of shippers that ended, by reason";
        samples: IntCounter, "samples_total" "Task samples taken in";
        tasks_inherited: IntCounter, "tasks_inherited_total" "Tasks whose older points a collector that left gave to this one";
        batch_seconds: Counter, "batch_seconds_total" "Time that batches held the figures";
        advised_factor: Gauge, "advised_interval_factor" "By how much shippers are advised to lengthen their intervals; up to 1 is no advice";
        bytes_received: IntCounter, "received_bytes_total" "Bytes of batches received";
        streams: IntGauge, "streams" "Streams of shippers that are open";
        nodes: IntGauge, "nodes" "Nodes held";
        tasks: IntGauge, "tasks" "Tasks held, live or stale";
        tasks_ended: IntGauge, "tasks_ended" "Ended tasks remembered";
        rows: IntGauge, "rows" "Rows held";
        roles: IntGauge, "roles" "Keys (tasks, rows, nodes) that this collector may show now";
        ledger_services: IntGauge, "ledger_services" "Services with counters in the ledger";
        draining: IntGauge, "draining" "1 while this collector wants to leave";
        scrapes: IntCounter, "scrapes_total" "Scrapes fully written";
        scrapes_broken: IntCounter, "scrapes_broken_total" "Scrapes whose reader left before the end or took too long";
        series: IntCounter, "series_rendered_total" "Series of tasks and services rendered";
        unscraped: Gauge, "unscraped_seconds" "For how long nobody scraped; after max_catch_up shippers forget what it would have shown";
    }
    /// A router's own metrics.
    RouterMetrics "swarmstats_router_" {
        queries: IntCounter, "queries_total" "Questions answered";
        queries_incomplete: IntCounter, "queries_incomplete_total" "Answers that lacked something";
        unanswered: IntCounter, "member_failures_total" "Questions to members that got no answer in time";
        suspected: IntGauge, "suspected_members" "Members that missed their last deadline and are asked in the background";
        nodes: IntGauge, "nodes" "Nodes remembered";
        rows: IntGauge, "rows" "Rows remembered";
        joining: IntGauge, "members_joining" "Other members that see no ring yet";
        active: IntGauge, "members_active" "Other members that take samples and answer";
        draining: IntGauge, "members_draining" "Other members that want to leave";
        gone: IntGauge, "members_gone" "Other members on the ring that did not answer three times in a row";
    }
    /// Of a process that lists what Swarm says.
    SwarmMetrics "swarmstats_swarm_" {
        lists: IntCounter, "lists_total" "Lists of services, tasks and nodes taken from a manager's engine";
        failures: IntCounter, "list_failures_total" "Attempts to list that failed";
        age: Gauge, "list_age_seconds" "Age of the newest list; before the first, of the process";
        services: IntGauge, "services" "Services on the newest list";
        tasks: IntGauge, "tasks" "Tasks on the newest list";
        nodes: IntGauge, "nodes" "Nodes on the newest list";
    }
    /// What every process of this project has, whatever its roles.
    CommonMetrics "swarmstats_" {
        bounds_refused: Each<Bound>, "bound_refusals_total" "What a limit refused, by the limit's name; max_connections makes wait instead";
        ring_mismatches: IntCounter, "ring_mismatches_total" "Messages from a process that sees another ring";
        ring_changes: IntCounter, "ring_changes_total" "Changes of the ring since the first one";
        discovery_failures: IntCounter, "discovery_failures_total" "Look-ups of the members that failed or found nobody";
        connections_failed: IntCounter, "connections_failed_total" "Connections to this process that broke, spoke no HTTP or asked nothing";
        requests_refused: IntCounter, "requests_refused_total" "HTTP requests that were wrong: answered with 4xx";
        replicas_missing: IntGauge, "replicas_missing" "Copies of each key that are wanted but that the ring has no members for";
        members_refused: IntCounter, "members_refused_total" "Members not taken because their replicas or hash version differ, or another has their id";
    }
}

/// The metrics of the process as a whole, once a registry: see [`CommonMetrics`], and the facts below.
#[derive(Debug, Clone)]
pub struct ProcessMetrics {
    /// Counters.
    pub common: CommonMetrics,
    ring: IntGaugeVec,
    insecure: IntGaugeVec,
}

impl ProcessMetrics {
    /// Registers them, with `swarmstats_build_info`.
    pub fn register(registry: &Registry) -> Result<ProcessMetrics, MetricsError> {
        let common = CommonMetrics::register(registry)?;
        let facts = |name: &str, help: &str, label: &str| {
            let family = IntGaugeVec::new(Opts::new(name, help), &[label]);
            let registered = family.and_then(|family| registry.register(Box::new(family.clone())).map(|()| family));
            registered.map_err(|err| MetricsError::Register(name.to_owned(), err))
        };
        let build = facts("swarmstats_build_info", "The version of this program, always 1", "version")?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let ring = facts("swarmstats_ring_info", "The ring this process sees, always 1", "ring_id")?;
        let help = "1 where an endpoint listens beyond this machine without mutual TLS";
        let insecure = facts("swarmstats_insecure_listen", help, Endpoint::LABEL)?;
        Endpoint::TEXTS.iter().for_each(|endpoint| insecure.with_label_values(&[endpoint]).set(0));
        Ok(ProcessMetrics { common, ring, insecure })
    }
    /// Says which ring is in use.
    pub fn set_ring(&self, ring: RingId) {
        self.ring.reset();
        self.ring.with_label_values(&[&ring.to_string()]).set(1);
    }
    /// Says that an endpoint listens beyond this machine without mutual TLS.
    pub fn set_insecure(&self, endpoint: Endpoint) {
        self.insecure.with_label_values(&[endpoint.text()]).set(1);
    }
}

/// The `process_…` metrics; a host that embeds a collector has its own.
#[derive(Debug)]
struct OfKernel {
    cpu: Counter,
    resident: IntGauge,
    open_fds: IntGauge,
    started: Gauge,
    turn: Mutex<()>,
}

/// Registers `process_…`: CPU time, memory, descriptors and start of this process, read at each scrape.
pub fn register_process(registry: &Registry) -> Result<(), MetricsError> {
    let of_kernel = || -> Result<_, prometheus::Error> {
        let metrics = OfKernel {
            cpu: Counter::new("process_cpu_seconds_total", "CPU time used by this process")?,
            resident: IntGauge::new("process_resident_memory_bytes", "Resident memory of this process")?,
            open_fds: IntGauge::new("process_open_fds", "Open file descriptors of this process")?,
            started: Gauge::new("process_start_time_seconds", "When this process was started, Unix time")?,
            turn: Mutex::new(()),
        };
        registry.register(Box::new(metrics))
    };
    of_kernel().map_err(|err| MetricsError::Register("process_*".to_owned(), err))
}

impl Collector for OfKernel {
    fn desc(&self) -> Vec<&Desc> {
        [self.cpu.desc(), self.resident.desc(), self.open_fds.desc(), self.started.desc()].concat()
    }

    /// A figure that cannot be read is left out.
    fn collect(&self) -> Vec<MetricFamily> {
        // Of two scrapes at once only one may add the difference.
        let _one = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let now = process::read();
        let integer = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let cpu = now.cpu.map(|cpu| {
            self.cpu.inc_by((cpu.as_secs_f64() - self.cpu.get()).max(0.0));
            self.cpu.collect()
        });
        let gauge = |gauge: &IntGauge, value: Option<u64>| {
            value.map(|value| {
                gauge.set(integer(value));
                gauge.collect()
            })
        };
        let started = now.started.map(|at| {
            self.started.set(at.as_secs_f64());
            self.started.collect()
        });
        let parts = [cpu, gauge(&self.resident, now.resident), gauge(&self.open_fds, now.open_fds), started];
        parts.into_iter().flatten().flatten().collect()
    }
}
