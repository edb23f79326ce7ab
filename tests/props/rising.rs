//! Counters of the whole cluster: whatever reports a router gets, they never fall and never count a second twice.

use crate::fixtures::*;
use proptest::prelude::*;
use swarmstats::figures::Rising;
use swarmstats::model::Millis;
use swarmstats::stat::CPU;
use swarmstats::view::Report;

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const SERVICES: [&str; 3] = ["api", "db", "web"];
/// When the router starts.
const STARTED: Millis = 1_700_000_000_000;

/// One row as its shipper has it.
#[derive(Clone, Copy)]
struct Row {
    begun: Millis,
    total: u64,
    /// Of that, what its running task has used: all that a shipper that starts again knows.
    running: u64,
    /// When that task started.
    born: Millis,
    ended: u64,
}

/// One shipper and its rows.
#[derive(Clone, Copy, Default)]
struct Node {
    epoch: u64,
    q: u64,
    rows: [Option<Row>; 3],
}

/// What is so, and what has been used since the router started.
#[derive(Clone)]
struct World {
    now: Millis,
    nodes: [Option<Node>; 3],
    used: [u64; 3],
    restarted: bool,
}

#[derive(Clone, Debug)]
enum Step {
    /// A second passes and tasks work; a service that a node does not have comes to it where `works` says so.
    Work {
        node: usize,
        service: usize,
        by: u64,
    },
    /// A task ends and another one takes its place.
    Replaced {
        node: usize,
        service: usize,
    },
    /// A row is retired.
    Over {
        node: usize,
        service: usize,
    },
    ShipperStarts {
        node: usize,
    },
    Report,
    /// A report of this many reports ago once more.
    Again {
        ago: usize,
    },
    /// One that lacks some rows, by bits.
    Partial {
        lacks: u16,
    },
}

fn any_step() -> impl Strategy<Value = Step> {
    let (node, service) = (0..3usize, 0..3usize);
    prop_oneof![
        6 => (node.clone(), service.clone(), 1..1000u64)
            .prop_map(|(node, service, by)| Step::Work { node, service, by }),
        1 => (node.clone(), service.clone()).prop_map(|(node, service)| Step::Replaced { node, service }),
        1 => (node.clone(), service).prop_map(|(node, service)| Step::Over { node, service }),
        1 => node.prop_map(|node| Step::ShipperStarts { node }),
        4 => Just(Step::Report),
        2 => (1..6usize).prop_map(|ago| Step::Again { ago }),
        2 => (0..512u16).prop_map(|lacks| Step::Partial { lacks }),
    ]
}

impl World {
    /// Node n3 joins when it first works; the others have been there for hours.
    fn new() -> World {
        let old = Row { begun: STARTED - 9_000_000, total: 5_000, running: 3_000, born: STARTED - 8_000_000, ended: 4 };
        let there = Node { epoch: 1, q: 1, rows: [Some(old), Some(old), None] };
        World { now: STARTED, nodes: [Some(there), Some(there), None], used: [0; 3], restarted: false }
    }

    fn take(&mut self, step: &Step) {
        self.now += 1000;
        let now = self.now;
        match *step {
            Step::Work { node, service, by } => {
                let node = self.nodes[node].get_or_insert(Node { epoch: 1, ..Node::default() });
                let new = Row { begun: now, total: 0, running: 0, born: now, ended: 0 };
                let row = node.rows[service].get_or_insert(new);
                (row.total, row.running) = (row.total + by, row.running + by);
                node.q += 1;
                self.used[service] += by;
            }
            Step::Replaced { node, service } => {
                if let Some(node) = &mut self.nodes[node]
                    && let Some(row) = &mut node.rows[service]
                {
                    (row.running, row.born, row.ended) = (0, now, row.ended + 1);
                    node.q += 1;
                }
            }
            Step::Over { node, service } => {
                if let Some(node) = &mut self.nodes[node] {
                    node.rows[service] = None;
                    node.q += 1;
                }
            }
            Step::ShipperStarts { node } => {
                if let Some(node) = &mut self.nodes[node] {
                    (node.epoch, node.q, self.restarted) = (node.epoch + 1, 1, true);
                    for row in node.rows.iter_mut().flatten() {
                        (row.begun, row.total, row.ended) = (now, row.running, 0);
                    }
                }
            }
            Step::Report | Step::Again { .. } | Step::Partial { .. } => {}
        }
    }

    fn report(&self) -> Report {
        let mut report = Report::default();
        for (name, known) in NODES.iter().zip(&self.nodes) {
            let Some(known) = known else { continue };
            let at = version(known.epoch, known.q);
            let has = |s: &usize| known.rows[*s].is_some();
            let listed: Vec<&str> = (0..3).filter(has).map(|s| SERVICES[s]).collect();
            report.nodes.push(with(node(name, &listed), |node| node.version = at));
            for (s, held) in known.rows.iter().enumerate() {
                let Some(held) = held else { continue };
                report.rows.push(with(row(name, SERVICES[s], 1), |row| {
                    (row.version, row.counts.ended) = (at, held.ended);
                    row.values = [(CPU, held.total)].into_iter().collect();
                    std::sync::Arc::make_mut(&mut row.meta).since = held.begun;
                }));
                report.tasks.push(with(task(&format!("{name}-{s}"), SERVICES[s], name), |task| {
                    std::sync::Arc::make_mut(&mut task.meta).started_at = held.born;
                }));
            }
        }
        report
    }
}

/// The counters of the three services, and of their stack.
fn counters(rising: &Rising) -> [Option<u64>; 4] {
    let of_service = |s: usize| rising.of_service(&format!("id-{}", SERVICES[s])).and_then(|values| values.get(CPU));
    [of_service(0), of_service(1), of_service(2), rising.of_stack("demo").and_then(|values| values.get(CPU))]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn they_never_fall_never_run_ahead_and_are_exact_while_no_shipper_starts_again(
        steps in proptest::collection::vec(any_step(), 1..60),
    ) {
        let (mut world, mut rising) = (World::new(), Rising::new(STARTED));
        let mut reports = vec![world.report()];
        rising.take(&reports[0], world.now);
        // What a service without a row anywhere has used when it is begun anew counts from there.
        let mut before = counters(&rising);
        let mut unseen = false;
        for step in steps.iter().chain([&Step::Report]) {
            // What was used between the last report and the end of a row nobody can know, nor how old a task was that
            // ended on a node before it was first seen.
            unseen |= matches!(step, Step::Over { .. } | Step::Replaced { node: 2, .. });
            world.take(step);
            match step {
                Step::Report => {
                    reports.push(world.report());
                    rising.take(reports.last().unwrap(), world.now);
                }
                Step::Again { ago } => rising.take(&reports[reports.len().saturating_sub(*ago)], world.now),
                Step::Partial { lacks } => {
                    let mut partial = world.report();
                    let mut at = 0;
                    partial.rows.retain(|_| {
                        at += 1;
                        lacks & (1 << (at - 1)) == 0
                    });
                    rising.take(&partial, world.now);
                }
                _ => continue,
            }
            let now = counters(&rising);
            let used: u64 = world.used.iter().sum();
            for (s, (now, before)) in now.iter().zip(before).enumerate() {
                // Nothing is forgotten within two minutes, so that a service that is over everywhere stays as well.
                prop_assert!(*now >= before, "{now:?} after {before:?}");
                let bound = world.used.get(s).copied().unwrap_or(used);
                prop_assert!(now.unwrap_or(0) <= bound, "{now:?} of {bound}");
            }
            before = now;
        }
        if !world.restarted && !unseen {
            for (s, used) in world.used.iter().enumerate() {
                prop_assert_eq!(before[s].unwrap_or(0), *used, "{}", SERVICES[s]);
            }
        }
    }
}
