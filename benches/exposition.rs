//! ns per series of `/metrics`, and the same series through the `prometheus` crate's `GaugeVec` in the same run.
//!
//! `cargo bench --bench exposition`. The budget (DESIGN §9) is 60 ns a series; the ratio is what compares machines.

use prometheus::{Encoder, GaugeVec, Opts, Registry, TextEncoder};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use swarmstats::aggregate::ScrapedTask;
use swarmstats::metrics::{LabelCache, Page, Series};
use swarmstats::model::{Labels, NodeId, ServiceId, TaskId, TaskMeta};
use swarmstats::stat::{Level, Stat, Unit};

const ROUNDS: usize = 7;

fn main() {
    println!("{:>7} {:>9} {:>10} {:>12} {:>12} {:>7}", "tasks", "series", "MB", "ns/series", "GaugeVec", "ratio");
    for n_tasks in [250, 2_500, 25_000] {
        let tasks: Vec<ScrapedTask> = (0..n_tasks).map(task).collect();
        let (ours, n_series, bytes) = ours(&tasks);
        // At 25,000 tasks the crate alone would take seconds and a gigabyte: its cost a series only grows with their number.
        let theirs = (n_tasks <= 2_500).then(|| theirs(&tasks));
        let ns = |time: Duration| time.as_nanos() as f64 / n_series as f64;
        let theirs = theirs.map_or((String::from("-"), String::from("-")), |theirs| {
            (format!("{:.1}", ns(theirs)), format!("{:.0}", ns(theirs) / ns(ours)))
        });
        let megabytes = bytes as f64 / 1e6;
        println!("{n_tasks:>7} {n_series:>9} {megabytes:>10.1} {:>12.1} {:>12} {:>7}", ns(ours), theirs.0, theirs.1);
    }
}

/// A task with every stat of level `standard`, with figures of a usual size.
fn task(i: u64) -> ScrapedTask {
    let id = format!("{:025}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (service, node) = (i % 40, i % 20);
    let meta = TaskMeta {
        task_name: format!("shop_service{service}.{}.{id}", i / 40 + 1).into(),
        task_id: TaskId::new(id).expect("digits"),
        slot: (i / 40 + 1).to_string().into(),
        service_id: ServiceId::new(format!("service{service}")).expect("a word"),
        service_name: format!("shop_service{service}").into(),
        stack: "shop".into(),
        node_id: NodeId::new(format!("node{node}")).expect("a word"),
        node_name: format!("worker-{node}").into(),
        container_id: "c0ffee".repeat(10).into(),
        image: "registry.example/shop/service:1.27.3".into(),
        started_at: 1_700_000_000_000,
        labels: Labels::new(),
        shares_netns: false,
    };
    let standard = Stat::all().filter(|stat| stat.row().level <= Level::Standard);
    let value = |stat: Stat| match stat.row().unit {
        Unit::Nanoseconds => 123_456_789_012 + i * 1_000_003,
        Unit::Nanocores => 1_500_000_000,
        Unit::Bytes => 234_567_890 + i * 4_096,
        Unit::Count | Unit::Thousandths => 1_234 + i,
    };
    ScrapedTask { meta: Arc::new(meta), values: standard.map(|stat| (stat, value(stat))).collect(), age: 1_250 }
}

/// The best round's time, from a core snapshot to the last byte, with the number of series and bytes.
fn ours(tasks: &[ScrapedTask]) -> (Duration, u64, usize) {
    let mut cache = LabelCache::default();
    let round = |_| {
        let snapshot = tasks.to_vec();
        let begin = Instant::now();
        let mut page = Page::new(Series { tasks: cache.tasks(snapshot), ..Series::default() });
        let bytes = page.by_ref().map(|chunk| black_box(chunk).len()).sum();
        (begin.elapsed(), page.n_series(), bytes)
    };
    (0..ROUNDS).map(round).min().expect("several rounds")
}

/// The best round's time of setting, gathering and encoding the same figures.
fn theirs(tasks: &[ScrapedTask]) -> Duration {
    let registry = Registry::new();
    let labels = ["task_id", "task_name", "service_name", "stack", "node_name"];
    let families: Vec<GaugeVec> = Stat::all()
        .map(|stat| {
            let family = GaugeVec::new(Opts::new(format!("swarmstats_task_{}", stat.name()), stat.row().help), &labels);
            let family = family.expect("a good name");
            registry.register(Box::new(family.clone())).expect("registered once");
            family
        })
        .collect();
    let round = |_| {
        let begin = Instant::now();
        for ScrapedTask { meta, values, .. } in tasks {
            for (stat, value) in values.iter() {
                let value = value as f64 / stat.row().unit.per_base() as f64;
                let labels = [meta.task_id.as_str(), &meta.task_name, &meta.service_name, &meta.stack, &meta.node_name];
                families[stat.number()].with_label_values(&labels).set(value);
            }
        }
        let mut text = Vec::new();
        TextEncoder::new().encode(&registry.gather(), &mut text).expect("valid families");
        black_box(text);
        begin.elapsed()
    };
    (0..ROUNDS).map(round).min().expect("several rounds")
}
