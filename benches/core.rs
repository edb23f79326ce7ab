//! What the pure core costs: bytes on the wire, the codec, taking batches, finding owners, memory; DESIGN §9's budgets.
//!
//! `cargo bench --bench core`, or some of it: `-- wire codec`. Each line has its baseline from the same run: plain protobuf with string ids and packed
//! varints, or what one would write without this crate.

mod common;

use common::{Budget, Mix, SECOND, SyntheticNode, line, median, thread_cpu};
use prost::Message as _;
use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};
use swarmstats::aggregate::{Aggregate, AggregateConfig, Stored, StreamId};
use swarmstats::codec::{Baseline, Decoded, Encoder, Layout};
use swarmstats::grpc::UpdateStream;
use swarmstats::message::{Batch, Hello, Hi};
use swarmstats::model::{Gen, Key, MemberId, RingId, TaskId, Values};
use swarmstats::outbox::{Outbox, Reading};
use swarmstats::shard::Ring;
use swarmstats::stat::Level;
use swarmstats::wire::{Answer, pb};

const TICKS: usize = 60;
const ROUNDS: usize = 7;
const MIXES: [(&str, Mix, Option<f64>); 4] = [
    ("idle", common::IDLE, None),
    ("10 % of fields change", common::USUAL, Some(0.45)),
    ("20 %", common::LIVELY, Some(0.8)),
    ("56 %", common::BUSY, Some(1.9)),
];

fn main() {
    println!("{} stats a task", n_stats());
    let sections: [(&str, fn()); 7] = [
        ("memory", memory),
        ("wire", wire),
        ("codec", codec),
        ("outbox", outbox),
        ("ingest", ingest),
        ("grpc", ingest_by_grpc),
        ("owners", owners),
    ];
    // cargo says `--bench`.
    let chosen: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for (_, section) in sections.iter().filter(|(name, _)| chosen.is_empty() || chosen.iter().any(|arg| arg == name)) {
        section();
    }
}

fn n_stats() -> usize {
    Level::Standard.mask().count_ones() as usize
}

/// A sample as one would write it first.
#[derive(Clone, PartialEq, prost::Message)]
struct PlainSample {
    #[prost(string, tag = "1")]
    task_id: String,
    #[prost(uint64, tag = "2")]
    monotonic_ns: u64,
    #[prost(uint64, repeated, tag = "3")]
    values: Vec<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PlainBatch {
    #[prost(message, repeated, tag = "1")]
    samples: Vec<PlainSample>,
}

fn plain(node: &SyntheticNode) -> PlainBatch {
    let sample = |(meta, values): &(_, Values)| {
        let meta: &std::sync::Arc<swarmstats::model::TaskMeta> = meta;
        let values = values.iter().map(|(_, value)| value).collect();
        PlainSample { task_id: meta.task_id.to_string(), monotonic_ns: node.clock(), values }
    };
    PlainBatch { samples: node.tasks.iter().map(sample).collect() }
}

/// A shipper's end of its streams, with members that take everything.
struct Shipping {
    node: SyntheticNode,
    outbox: Outbox,
    members: Vec<MemberId>,
}

impl Shipping {
    fn new(node: SyntheticNode, ring: &std::sync::Arc<Ring>) -> Shipping {
        let outbox = common::outbox(&node, ring, SECOND);
        Shipping { outbox, node, members: ring.members().iter().map(|member| member.id.clone()).collect() }
    }

    fn hello(&mut self, member: &MemberId, hi: impl FnOnce(&Hello) -> Hi) -> Hello {
        let hello = self.outbox.hello(member);
        self.outbox.greeted(member, hello.k, &Ok(hi(&hello)), self.node.clock(), common::WALL);
        hello
    }

    fn hello_to_all(&mut self) {
        for member in self.members.clone() {
            self.hello(&member, hi);
        }
    }

    /// One sample round; what goes to each member.
    fn round(&mut self) -> Vec<Batch> {
        let readings = self.node.tick();
        self.take(readings)
    }

    fn take(&mut self, readings: Vec<Reading>) -> Vec<Batch> {
        let now = self.node.clock();
        self.outbox.observe(now, Values::default(), readings, None);
        let batches: Vec<Batch> =
            self.members.iter().filter_map(|member| self.outbox.next_batch(member, now)).collect();
        for (member, batch) in self.members.iter().zip(&batches) {
            self.outbox.acked(member, batch.k, &common::ack(batch, swarmstats::clock::boottime()), now);
        }
        batches
    }
}

/// The greeting of a process that knows nothing yet.
fn hi(hello: &Hello) -> Hi {
    Hi { gen_: Gen(1), stored: 0, exposed: 0, token: 1, draining: false, ring_id: hello.ring_id }
}

/// As it goes over a connection, gRPC's five bytes included.
fn bytes(batch: &Batch) -> Vec<u8> {
    let message = pb::update_stats_request::Message::Batch(batch.into());
    let mut bytes = vec![0; 5];
    pb::UpdateStatsRequest { message: Some(message) }.encode(&mut bytes).expect("a Vec grows");
    bytes
}

fn batch_of(bytes: &[u8]) -> Batch {
    match pb::UpdateStatsRequest::decode(&bytes[5..]).expect("just encoded").message {
        Some(pb::update_stats_request::Message::Batch(batch)) => batch.try_into().expect("a good batch"),
        _ => unreachable!("only batches are encoded"),
    }
}

/// Bytes per stat and sample after the full picture, rows and everything else included.
fn wire() {
    println!("\nwire bytes per stat and sample, {TICKS} ticks; baseline: protobuf, string ids, packed varints");
    for (n_tasks, n_services, n_members, holds) in [(1000, 40, 1, true), (50, 10, 1, false), (50, 10, 3, false)] {
        for (what, mix, budget) in MIXES {
            let mut shipping = Shipping::new(SyntheticNode::new(0, n_tasks, n_services, mix), &common::ring(n_members));
            shipping.hello_to_all();
            // The second batch still carries the first one's amounts, the third is the steady state.
            shipping.round();
            shipping.round();
            let (mut ours, mut theirs, mut changed) = (0, 0, 0);
            for _ in 0..TICKS {
                let before: Vec<Values> = shipping.node.tasks.iter().map(|(_, values)| values.clone()).collect();
                ours += shipping.round().iter().map(|batch| bytes(batch).len()).sum::<usize>();
                theirs += plain(&shipping.node).encoded_len() + 5;
                let pairs = before.iter().zip(&shipping.node.tasks);
                changed += pairs.map(|(before, (_, now))| n_changed(before, now)).sum::<usize>();
            }
            let n = (TICKS * n_tasks * n_stats()) as f64;
            let what = format!("{n_tasks} tasks to {n_members}, {what} ({:.1} %)", 100.0 * changed as f64 / n);
            let budget = budget.filter(|_| holds).map(Budget::AtMost);
            line(&what, ours as f64 / n, "B", ("plain", theirs as f64 / n), budget);
        }
    }
}

fn n_changed(before: &Values, now: &Values) -> usize {
    now.iter().filter(|(stat, value)| before.or_zero(*stat) != *value).count()
}

/// The best of several rounds.
fn best(mut round: impl FnMut() -> Duration) -> f64 {
    (0..ROUNDS).map(|_| round()).min().expect("several rounds").as_nanos() as f64
}

fn codec() {
    println!("\ncodec, ns per stat of 1000 tasks; baseline: the same as plain protobuf");
    for (what, mix, _) in MIXES {
        let mut node = SyntheticNode::new(0, 1000, 40, mix);
        node.tick();
        let before: Vec<Values> = node.tasks.iter().map(|(_, values)| values.clone()).collect();
        node.tick();
        let layout = Layout::of_mask(Level::Standard.mask());
        let (mut block, mut plain_bytes, mut decoded) = (Vec::new(), Vec::new(), Decoded::default());
        let (mut encode, mut decode, mut plain_encode, mut plain_decode) = (vec![], vec![], vec![], vec![]);
        for _ in 0..ROUNDS {
            encode.push(best(|| {
                let begun = thread_cpu();
                let mut encoder = Encoder::new(&layout);
                for (handle, (before, (_, now))) in before.iter().zip(&node.tasks).enumerate() {
                    encoder.entry(handle as u32, before, now, None, None);
                }
                block = encoder.finish();
                thread_cpu() - begun
            }));
            plain_encode.push(best(|| {
                let begun = thread_cpu();
                plain_bytes = plain(&node).encode_to_vec();
                thread_cpu() - begun
            }));
            decode.push(best(|| {
                let begun = thread_cpu();
                let baseline = |handle: u32| before.get(handle as usize).map(Baseline::Plain);
                decoded.read(&layout, &block, baseline).expect("just encoded");
                thread_cpu() - begun
            }));
            plain_decode.push(best(|| {
                let begun = thread_cpu();
                black_box(PlainBatch::decode(plain_bytes.as_slice()).expect("just encoded"));
                thread_cpu() - begun
            }));
        }
        let per_stat = |all: Vec<f64>| median(all) / (1000 * n_stats()) as f64;
        let budget = Some(Budget::AtMost(5.0));
        line(&format!("encode, {what}"), per_stat(encode), "ns", ("plain", per_stat(plain_encode)), budget);
        line(&format!("decode, {what}"), per_stat(decode), "ns", ("plain", per_stat(plain_decode)), budget);
    }
}

/// The shipper's side of a round without reading and sending, of a node with 50 tasks.
fn outbox() {
    println!("\nthe outbox's round and batch, µs per task of 50; baseline: the same as plain protobuf");
    for (n_services, services) in [(10, "10 services"), (50, "a service each")] {
        for (what, mix, _) in MIXES {
            let mut shipping = Shipping::new(SyntheticNode::new(0, 50, n_services, mix), &common::ring(1));
            shipping.hello_to_all();
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..5 * TICKS {
                let readings = shipping.node.tick();
                let begun = thread_cpu();
                black_box(shipping.take(readings).iter().map(bytes).collect::<Vec<_>>());
                let done = thread_cpu();
                black_box(plain(&shipping.node).encode_to_vec());
                theirs.push((thread_cpu() - done).as_nanos() as f64);
                ours.push((done - begun).as_nanos() as f64);
            }
            let (ours, theirs) = (median(ours) / 50_000.0, median(theirs) / 50_000.0);
            line(&format!("{what}, {services}"), ours, "µs", ("plain", theirs), None);
        }
    }
}

fn aggregate() -> Aggregate {
    let cfg = AggregateConfig {
        member: common::members(1).remove(0),
        gen_: Gen(1),
        replicas: 1,
        points: 0,
        ended_keep: 600 * SECOND,
        stale_keep: 600 * SECOND,
        row_keep: 86_400 * SECOND,
        max_round_trip: SECOND,
        max_tasks: 1_000_000,
        max_nodes: 100_000,
    };
    Aggregate::new(cfg, RingId(1), 1)
}

fn store(aggregate: &mut Aggregate, stream: &StreamId, batch: &Batch, now: u64) {
    let stored = aggregate.batch(stream, batch, now).expect("a good batch");
    assert!(matches!(stored, Stored::Acked { repeat: false, .. }), "{stored:?}");
}

/// The same through gRPC on loopback: CPU time of the collectord's thread, which does all its work.
fn ingest_by_grpc() {
    let served = common::served::start(1).remove(0);
    let (ring, runtime) = (common::ring(1), common::served::runtime());
    for (what, mix, _) in MIXES {
        let mut nodes = Vec::new();
        for number in 0..20 {
            let mut shipping = Shipping::new(SyntheticNode::new(number, 50, 10, mix), &ring);
            let hello = shipping.outbox.hello(&served.member);
            let hello = Hello { epoch: swarmstats::clock::boottime(), ..hello };
            let opened = runtime.block_on(async {
                let channel = swarmstats::grpc::connect(&served.address()).await.expect("it listens");
                let mut stream = UpdateStream::open(channel, &hello, 8 << 20).await.expect("it answers");
                (stream.next().await.expect("it answers"), stream)
            });
            let (Answer::Greeting(greeting), stream) = opened else { panic!("no greeting: {:?}", opened.0) };
            shipping.outbox.greeted(&served.member, hello.k, &greeting, 0, common::WALL);
            nodes.push((shipping, stream));
        }
        let mut cpu = Vec::new();
        for _ in 0..TICKS {
            let batches: Vec<Batch> = nodes.iter_mut().map(|(shipping, _)| shipping.round().remove(0)).collect();
            let before = served.cpu();
            runtime.block_on(async {
                for ((_, stream), batch) in nodes.iter_mut().zip(&batches) {
                    stream.send(batch).await.expect("it reads");
                }
                for (_, stream) in &mut nodes {
                    let answer = stream.next().await;
                    assert!(matches!(answer, Ok(Answer::Ack(_))), "{answer:?}");
                }
            });
            cpu.push((served.cpu() - before).as_nanos() as f64);
        }
        let millions = 1000.0 * 1000.0 / median(cpu);
        line(&format!("gRPC, {what}"), millions, "M/s", ("budget", 0.3), Some(Budget::AtLeast(0.3)));
    }
}

/// Million samples a second and core, of 20 nodes with 50 tasks each; every task of a batch counts, changed or not.
fn ingest() {
    println!("\ntaking batches, M task samples a second and core; baseline: plain protobuf into a HashMap");
    for (what, mix, _) in MIXES {
        let mut aggregate = aggregate();
        let ring = common::ring(1);
        let member = common::members(1).remove(0);
        let mut nodes: Vec<(StreamId, Shipping)> = Vec::new();
        for number in 0..20 {
            let mut shipping = Shipping::new(SyntheticNode::new(number, 50, 10, mix), &ring);
            let hello = shipping.hello(&member, |hello| aggregate.hello(hello, 1).expect("a good hello"));
            nodes.push((StreamId::of(&hello), shipping));
        }
        let mut map: HashMap<String, (u64, Vec<u64>)> = HashMap::new();
        let (mut core, mut whole, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
        for tick in 0..TICKS as u64 {
            let now = (tick + 1) * SECOND;
            let rounds: Vec<_> = nodes.iter_mut().map(|(stream, node)| (&*stream, bytes(&node.round()[0]))).collect();
            let begun = thread_cpu();
            let rounds: Vec<_> = rounds.iter().map(|(stream, bytes)| (*stream, batch_of(bytes))).collect();
            let read = thread_cpu();
            rounds.iter().for_each(|(stream, batch)| store(&mut aggregate, stream, batch, now));
            let stored = thread_cpu();
            core.push((stored - read).as_nanos() as f64);
            whole.push((stored - begun).as_nanos() as f64);
            let plains: Vec<_> = nodes.iter().map(|(_, node)| plain(&node.node).encode_to_vec()).collect();
            let begun = thread_cpu();
            for bytes in &plains {
                let batch = PlainBatch::decode(bytes.as_slice()).expect("just encoded");
                map.extend(
                    batch.samples.into_iter().map(|sample| (sample.task_id, (sample.monotonic_ns, sample.values))),
                );
            }
            theirs.push((thread_cpu() - begun).as_nanos() as f64);
        }
        let millions = |all: Vec<f64>| 1000.0 * 1000.0 / median(all);
        let theirs = millions(theirs);
        line(&format!("core, {what}"), millions(core), "M/s", ("plain", theirs), Some(Budget::AtLeast(1.0)));
        line(&format!("protobuf and core, {what}"), millions(whole), "M/s", ("plain", theirs), None);
    }
}

fn owners() {
    println!("\nowners of a key; baseline: a HashMap of all task ids");
    let ring = common::ring(3);
    let node = SyntheticNode::new(0, 10_000, 40, common::IDLE);
    let keys: Vec<Key> = node.tasks.iter().map(|(meta, _)| Key::Task(meta.task_id.clone())).collect();
    let map: HashMap<TaskId, &MemberId> = node
        .tasks
        .iter()
        .map(|(meta, _)| (meta.task_id.clone(), ring.primary(&Key::Task(meta.task_id.clone()))))
        .collect();
    let ours = best(|| {
        let begun = Instant::now();
        for key in &keys {
            black_box(ring.primary(key));
        }
        begun.elapsed()
    });
    let theirs = best(|| {
        let begun = Instant::now();
        for (meta, _) in &node.tasks {
            black_box(map.get(meta.task_id.as_str()));
        }
        begun.elapsed()
    });
    line("look-up", ours / 10_000.0, "ns", ("HashMap", theirs / 10_000.0), None);
}

/// Resident bytes without history at level `all`, everything read off the wire and every figure met twice, so that there
/// is a reading before the newest. A node of one service and one of ten tell what a task and what a row takes.
fn memory() {
    const NODES: usize = 400;
    let per_node = |n_services: usize| {
        let ring = common::ring(1);
        let member = common::members(1).remove(0);
        let told = |number| {
            let node = SyntheticNode::new(number, 50, n_services, common::BUSY).at_level_all();
            let mut shipping = Shipping::new(node, &ring);
            let hello = shipping.hello(&member, hi);
            (hello, [(); 2].map(|()| bytes(&shipping.round()[0])))
        };
        let sent: Vec<(Hello, [Vec<u8>; 2])> = (0..NODES).map(told).collect();
        let n_bytes: usize = sent.iter().map(|(_, [first, _])| first.len()).sum();
        let mut aggregate = aggregate();
        let before = resident();
        for (hello, rounds) in &sent {
            aggregate.hello(hello, 1).expect("a good hello");
            for bytes in rounds {
                store(&mut aggregate, &StreamId::of(hello), &batch_of(bytes), 2);
            }
        }
        let held = resident().saturating_sub(before);
        // Kept, so that the next world does not live in this one's memory.
        std::mem::forget(aggregate);
        (held as f64 / NODES as f64, n_bytes as f64 / NODES as f64)
    };
    let ((one, wire), (ten, _)) = (per_node(1), per_node(10));
    let row = (ten - one) / 9.0;
    println!("\nmemory of {} tasks on {NODES} nodes, no history; baseline: their first batches' bytes", 50 * NODES);
    let task = (one - row) / 50.0;
    line("a task with its texts and indexes", task, "B", ("wire", wire / 50.0), Some(Budget::AtMost(1024.0)));
    println!("a row (one node × service): {row:.0} B");
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("statm's second number");
    pages * rustix::param::page_size()
}
