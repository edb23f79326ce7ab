//! One shipper of node `n1` and a few collectors, on one clock, with messages handed over by hand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use swarmstats::aggregate::{Aggregate, AggregateConfig, HelloError, Stored, StreamId};
use swarmstats::model::{Gen, Labels, MemberId, Nanos, NodeId, ServiceId, TaskId, TaskMeta, Values};
use swarmstats::outbox::{Ended, Outbox, OutboxConfig, Reading};
use swarmstats::shard::{Member, Ring};
use swarmstats::stat::{CPU, Level, Stat};
use swarmstats::view::{Ask, Holding, Previous, RowView, Selector, TaskView};

pub(crate) const SECOND: Nanos = 1_000_000_000;
/// The wall clock when the shipper starts.
pub(crate) const STARTED: u64 = 1_700_000_000_000;

pub(crate) fn member(id: &str) -> MemberId {
    MemberId::new(id).unwrap()
}

pub(crate) fn service(id: &str) -> ServiceId {
    ServiceId::new(id).unwrap()
}

pub(crate) fn ring(members: &[&str]) -> Arc<Ring> {
    ring_of(members, 1)
}

pub(crate) fn ring_of(members: &[&str], replicas: u8) -> Arc<Ring> {
    // A ring is dear to make, and made often.
    type Made = BTreeMap<(Vec<MemberId>, u8), Arc<Ring>>;
    static MADE: Mutex<Made> = Mutex::new(BTreeMap::new());
    let ids: Vec<MemberId> = members.iter().map(|id| member(id)).collect();
    let made = || {
        let members = ids.iter().map(|id| Member { id: id.clone(), node: None });
        Arc::new(Ring::new(members, replicas).unwrap())
    };
    MADE.lock().unwrap().entry((ids.clone(), replicas)).or_insert_with(made).clone()
}

pub(crate) fn shipper_of(node: &str, nonce: u64) -> OutboxConfig {
    OutboxConfig {
        node_id: NodeId::new(node).unwrap(),
        node_name: node.into(),
        started: STARTED,
        started_monotonic: 0,
        nonce,
        stats: Level::All.mask(),
        interval: SECOND,
        lease: 3 * SECOND,
        overlap: 10 * SECOND,
        row_keep: 3600 * SECOND,
        max_catch_up: 120 * SECOND,
    }
}

pub(crate) fn process(id: &str, gen_: u64, now: Nanos) -> Aggregate {
    process_of(id, gen_, now, 1)
}

pub(crate) fn process_of(id: &str, gen_: u64, now: Nanos, replicas: u8) -> Aggregate {
    Aggregate::new(config_of(id, gen_, replicas), ring(&[id]).id(), now)
}

pub(crate) fn config_of(id: &str, gen_: u64, replicas: u8) -> AggregateConfig {
    AggregateConfig {
        member: member(id),
        gen_: Gen(gen_),
        replicas: replicas.into(),
        points: 3,
        ended_keep: 600 * SECOND,
        stale_keep: 600 * SECOND,
        row_keep: 3600 * SECOND,
        max_round_trip: SECOND,
        max_tasks: 100,
        max_nodes: 10,
    }
}

/// A task that started so many seconds after the shipper (or before it).
pub(crate) fn task(id: &str, service_id: &str, started: i64) -> Arc<TaskMeta> {
    Arc::new(TaskMeta {
        task_id: TaskId::new(id).unwrap(),
        task_name: id.into(),
        slot: "".into(),
        service_id: service(service_id),
        service_name: service_id.into(),
        stack: "".into(),
        node_id: NodeId::new("n1").unwrap(),
        node_name: "n1".into(),
        container_id: format!("{id}-1").into(),
        image: "busybox".into(),
        started_at: STARTED.saturating_add_signed(started * 1000),
        labels: Labels::new(),
        shares_netns: false,
    })
}

pub(crate) fn read(meta: &Arc<TaskMeta>, values: &[(Stat, u64)]) -> Reading {
    Reading { meta: meta.clone(), values: Some(values.iter().copied().collect()), age: 0 }
}

pub(crate) fn unread(meta: &Arc<TaskMeta>) -> Reading {
    Reading { meta: meta.clone(), values: None, age: 0 }
}

/// A reading of CPU time alone, to be the one before.
pub(crate) fn before(monotonic: Nanos, cpu: u64) -> Option<Previous> {
    Previous::of(monotonic, &[(CPU, cpu)].into_iter().collect())
}

pub(crate) fn cpu(meta: &Arc<TaskMeta>, value: u64) -> Reading {
    read(meta, &[(CPU, value)])
}

pub(crate) struct Swarm {
    pub(crate) now: Nanos,
    pub(crate) outbox: Outbox,
    pub(crate) collectors: BTreeMap<MemberId, Aggregate>,
    streams: BTreeMap<MemberId, StreamId>,
    /// The machine's own figures, as next read.
    pub(crate) machine: Values,
}

impl Swarm {
    /// A shipper and these collectors, the first processes of their members.
    pub(crate) fn new(ids: &[&str]) -> Swarm {
        Swarm::with_replicas(ids, 1)
    }

    /// The same with so many copies of each key.
    pub(crate) fn with_replicas(ids: &[&str], replicas: u8) -> Swarm {
        Swarm {
            now: 10 * SECOND,
            outbox: Outbox::new(shipper_of("n1", 1), ring_of(ids, replicas)),
            collectors: ids.iter().map(|id| (member(id), process_of(id, 1, 0, replicas))).collect(),
            streams: BTreeMap::new(),
            machine: Values::default(),
        }
    }

    /// A second passes, the shipper reads its node.
    pub(crate) fn observe(&mut self, readings: Vec<Reading>, ended: Vec<Ended>) {
        self.now += SECOND;
        self.outbox.observe(self.now, self.machine.clone(), readings, ended);
    }

    /// Reads, and tells every collector.
    pub(crate) fn round(&mut self, readings: Vec<Reading>) {
        self.observe(readings, Vec::new());
        self.tell();
    }

    /// Every destination gets what is due, and its answer comes back.
    pub(crate) fn tell(&mut self) {
        for id in self.outbox.destinations() {
            if self.collectors.contains_key(&id) {
                self.tell_one(&id);
            }
        }
    }

    pub(crate) fn tell_one(&mut self, id: &MemberId) {
        if !self.streams.contains_key(id) {
            self.open(id).unwrap();
        }
        if let Some(Stored::Acked { ack, .. }) = self.send(id) {
            let k = self.streams[id].k;
            self.outbox.acked(id, k, &ack, self.now);
        }
    }

    /// A new stream; an earlier one is given up.
    pub(crate) fn open(&mut self, id: &MemberId) -> Result<(), HelloError> {
        let hello = self.outbox.hello(id);
        let hi = self.collectors.get_mut(id).unwrap().hello(&hello, self.now)?;
        self.outbox.greeted(id, hello.k, &Ok(hi), self.now, STARTED);
        self.streams.insert(id.clone(), StreamId::of(&hello));
        Ok(())
    }

    /// A batch, if one is due, without its answer.
    pub(crate) fn send(&mut self, id: &MemberId) -> Option<Stored> {
        let batch = self.outbox.next_batch(id, self.now)?;
        Some(self.collectors.get_mut(id).unwrap().batch(&self.streams[id], &batch, self.now).unwrap())
    }

    pub(crate) fn stream(&self, id: &MemberId) -> StreamId {
        self.streams[id].clone()
    }

    /// The connection is lost on both sides.
    pub(crate) fn cut(&mut self, id: &MemberId) {
        if let Some(stream) = self.streams.remove(id) {
            self.outbox.closed(id, stream.k);
            self.collectors.get_mut(id).unwrap().closed(&stream);
        }
    }

    /// The process dies and another one of the member starts.
    pub(crate) fn restart(&mut self, id: &MemberId, gen_: u64) {
        self.cut(id);
        self.collectors.insert(id.clone(), process(id.as_str(), gen_, self.now));
    }

    /// A scrape of one member, fully written: the CPU time it shows of a service.
    pub(crate) fn scrape(&mut self, id: &MemberId, of: &str) -> Option<u64> {
        let collector = self.collectors.get_mut(id).unwrap();
        let scrape = collector.scrape(self.now);
        collector.scraped(&scrape.mark, self.now);
        let found = scrape.services.iter().find(|shown| shown.service_id == service(of));
        found.and_then(|shown| shown.counters.get(CPU))
    }

    pub(crate) fn hold(&self, id: &MemberId) -> Holding {
        let ask = Ask::of(vec![Selector::everything()]);
        self.collectors[id].hold(&ask, self.now)
    }

    pub(crate) fn task(&self, id: &MemberId, task: &str) -> Option<TaskView> {
        self.hold(id).tasks.into_iter().find(|view| view.meta.task_id.as_str() == task)
    }

    pub(crate) fn row(&self, id: &MemberId, of: &str) -> Option<RowView> {
        self.hold(id).rows.into_iter().find(|row| row.meta.service_id == service(of))
    }

    /// CPU time in the ledger of a member.
    pub(crate) fn ledger(&self, id: &MemberId, of: &str) -> u64 {
        self.collectors[id].ledger().get(&service(of)).map_or(0, |values| values.or_zero(CPU))
    }

    /// CPU time that waits to be handed over.
    pub(crate) fn pooled(&self, of: &str) -> u64 {
        of_cpu(&self.outbox.pooled(), of)
    }

    pub(crate) fn dropped(&self, of: &str) -> u64 {
        of_cpu(&self.outbox.dropped(), of)
    }
}

fn of_cpu(amounts: &BTreeMap<ServiceId, Values>, of: &str) -> u64 {
    amounts.get(&service(of)).map_or(0, |values| values.or_zero(CPU))
}

/// Two collectors, the owner of task t1 first.
pub(crate) fn with_owner() -> (Swarm, [MemberId; 2], Arc<TaskMeta>) {
    let (mut swarm, burn) = (Swarm::new(&["a", "b"]), task("t1", "burn", 1));
    swarm.round(vec![cpu(&burn, 100)]);
    let [a, b] = [member("a"), member("b")];
    let pair = if swarm.task(&a, "t1").is_some() { [a, b] } else { [b, a] };
    (swarm, pair, burn)
}
