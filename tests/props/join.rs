//! The join's laws: order, repetition and partition of answers change nothing, and "complete" is never said in vain.

use crate::fixtures::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;
use swarmstats::join::{Answers, Bounds, Join};
use swarmstats::model::{MemberId, NodeId, ServiceId, Version};
use swarmstats::stat;
use swarmstats::view::{Ask, Holding, NodeView, Point, Report, RowView, Selector, TaskView};

const MEMBERS: [&str; 4] = ["c1", "c2", "c3", "c4"];
const NODES: [&str; 3] = ["n1", "n2", "n3"];
const SERVICES: [&str; 3] = ["burn", "idle", "web"];

/// A row's life within its node's epoch, in sample rounds. What a shipper says of a key is a function of key and version,
/// for it is the only writer; an ended row does not come back, and an older reading is never the younger one.
fn lives(service: usize, at: Version) -> bool {
    let life = [0..5, 3..8, 0..8][(service + at.epoch as usize) % 3].clone();
    life.contains(&at.q)
}

fn aged(at: Version, extra: u64) -> u64 {
    (2 - at.epoch) * 1_600 + (7 - at.q) * 200 + extra
}

fn any_version() -> impl Strategy<Value = Version> {
    (1..3u64, 0..8u64).prop_map(|(epoch, q)| Version { epoch, q })
}

fn any_task() -> impl Strategy<Value = TaskView> {
    (0..6usize, any_version(), any::<[bool; 4]>(), 0..200u64).prop_map(
        |(i, at, [fresh, over, first, primary], extra)| {
            with(task(&format!("task{i}"), SERVICES[i % 3], NODES[i / 3]), |task| {
                task.version = at;
                task.values.set(stat::CPU, at.epoch * 100 + at.q);
                (task.fresh, task.ended, task.age, task.primary) = (fresh && !over, over, aged(at, extra), primary);
                task.previous = before(at.q, at.epoch).filter(|_| !first);
            })
        },
    )
}

fn any_row() -> impl Strategy<Value = RowView> {
    (0..2usize, 0..3usize, any_version(), any::<bool>(), 0..200u64).prop_filter_map(
        "rows in their life",
        |(n, s, at, fresh, extra)| {
            lives(s, at).then(|| {
                with(row(NODES[n], SERVICES[s], at.q % 3), |row| {
                    row.values.set(stat::CPU, at.epoch * 100 + at.q);
                    (row.version, row.fresh, row.age) = (at, fresh, aged(at, extra));
                })
            })
        },
    )
}

fn any_node() -> impl Strategy<Value = NodeView> {
    (0..2usize, any_version(), any::<bool>(), 0..200u64).prop_map(|(n, at, fresh, extra)| {
        let services: Vec<_> = (0..3).filter(|s| lives(*s, at)).map(|s| SERVICES[s]).collect();
        with(node(NODES[n], &services), |node| (node.version, node.fresh, node.age) = (at, fresh, aged(at, extra)))
    })
}

fn any_answer() -> impl Strategy<Value = (MemberId, Result<Holding, String>)> {
    let held = (vec(any_task(), 0..5), vec(any_row(), 0..5), vec(any_node(), 0..3));
    (0..4usize, proptest::option::weighted(0.8, held)).prop_map(|(m, held)| match held {
        Some((tasks, rows, nodes)) => says(holding(MEMBERS[m], tasks, rows, nodes)),
        None => silent(MEMBERS[m]),
    })
}

fn any_ask() -> impl Strategy<Value = Ask> {
    let names = ["burn", "id-idle", "nosuch"].map(service);
    let others = [everything(), single("task1"), of_node("host-n1"), ask_stack("demo")];
    let both = Ask::of([service("web").selectors, single("task4").selectors].concat());
    proptest::sample::select([names.to_vec(), others.to_vec(), vec![both]].concat())
}

fn ask_stack(name: &str) -> Ask {
    ask(Selector { stack: Some(name.into()), ..Selector::default() })
}

/// Names are learned first, as the router does it.
fn tell_names(join: &mut Join, answers: &Answers) {
    let holdings = answers.iter().filter_map(|(_, answer)| answer.as_ref().ok());
    assert!(join.unnamed(holdings, &service("web"), NOW).is_empty());
}

/// Short enough that some of the ages above are beyond it.
fn join() -> Join {
    Join::new(Bounds { row_keep: 2_500, ..Bounds::default() })
}

/// What is left when nobody says anything: the memory itself.
fn memory(join: &mut Join) -> Report {
    join.read(vec![], &everything(), NOW)
}

proptest! {
    #[test]
    fn order_and_repetition_of_answers_change_nothing(
        (answers, shuffled) in vec(any_answer(), 0..6).prop_flat_map(|answers| {
            let again = [answers.clone(), answers.clone()].concat();
            (Just(answers), Just(again).prop_shuffle())
        }),
        ask in any_ask(),
    ) {
        let (mut one, mut other) = (join(), join());
        let report = one.read(narrowed(answers, &ask), &ask, NOW);
        prop_assert_eq!(&report, &other.read(narrowed(shuffled, &ask), &ask, NOW));
        prop_assert_eq!(memory(&mut one), memory(&mut other));
    }

    #[test]
    fn answers_taken_up_in_turn_are_remembered_as_if_taken_up_together(
        first in vec(any_answer(), 0..4),
        second in vec(any_answer(), 0..4),
    ) {
        let (mut turns, mut together) = (join(), join());
        turns.read(first.clone(), &everything(), NOW);
        turns.read(second.clone(), &everything(), NOW);
        together.read([first, second].concat(), &everything(), NOW);
        prop_assert_eq!(memory(&mut turns), memory(&mut together));
    }

    #[test]
    fn within_an_epoch_a_remembered_row_never_goes_back(answers in vec(any_answer(), 1..8)) {
        let mut join = join();
        let mut before: Vec<RowView> = Vec::new();
        for answer in answers {
            let report = join.read(vec![answer], &everything(), NOW);
            for old in &before {
                let same = |row: &&RowView| row.meta == old.meta && row.version.epoch == old.version.epoch;
                if let Some(new) = report.rows.iter().find(same) {
                    prop_assert!(new.version >= old.version && new.values.or_zero(stat::CPU) >= old.values.or_zero(stat::CPU));
                }
            }
            before = report.rows;
        }
    }
}

/// What each of some copies holds of one task's twelve rounds: any of them, for each may be new or have been away.
fn any_copies() -> impl Strategy<Value = Vec<BTreeSet<u64>>> {
    vec(proptest::collection::btree_set(1..13u64, 1..13), 1..5)
}

proptest! {
    #[test]
    fn points_of_copies_are_united_without_a_hole_in_order_and_once(
        (copies, shuffled) in any_copies().prop_flat_map(|copies| {
            let numbered: Vec<_> = copies.iter().cloned().enumerate().collect();
            let again = [numbered.clone(), numbered].concat();
            (Just(copies), Just(again).prop_shuffle())
        }),
        asked in 1..15usize,
    ) {
        let held = |(m, rounds): (usize, BTreeSet<u64>)| {
            let newest = *rounds.last().unwrap();
            let task = with(task("task1", "web", "n1"), |task| {
                (task.version, task.monotonic, task.previous) = (version(1, newest), newest, None);
                task.values.set(stat::CPU, newest * 10);
                let point = |at: u64| Point { monotonic: at, values: [(stat::CPU, at * 10)].into_iter().collect() };
                // A member sends the newest of its points, as many as are asked for.
                task.points = rounds.iter().rev().take(asked).rev().map(|at| point(*at)).collect();
            });
            says(holding(MEMBERS[m], vec![task], vec![], vec![]))
        };
        let ask = Ask { points: asked, ..everything() };
        let read = |answers: Vec<(usize, BTreeSet<u64>)>| join().read(answers.into_iter().map(held).collect(), &ask, NOW);
        let one = read(copies.iter().cloned().enumerate().collect());
        prop_assert_eq!(&one.tasks, &read(shuffled).tasks);
        let found: Vec<(u64, u64)> =
            one.tasks[0].points.iter().map(|point| (point.monotonic, point.values.or_zero(stat::CPU))).collect();
        let all: BTreeSet<u64> = copies.iter().flatten().copied().collect();
        let expected: Vec<(u64, u64)> = all.iter().rev().take(asked).rev().map(|at| (*at, at * 10)).collect();
        prop_assert_eq!(found, expected);
    }
}

/// A quiet swarm: which service each of some tasks on each node is of, and which members hold each key.
#[derive(Clone, Debug)]
struct Swarm {
    tasks: Vec<(usize, usize)>,
    holders: Vec<BTreeSet<usize>>,
    silent: BTreeSet<usize>,
}

fn any_swarm(copies: usize) -> impl Strategy<Value = Swarm> {
    let owners = || proptest::sample::subsequence(vec![0, 1, 2, 3], copies).prop_map(BTreeSet::from_iter);
    let silent = proptest::sample::subsequence(vec![0, 1, 2, 3], 0..4).prop_map(BTreeSet::from_iter);
    (vec((0..2usize, 0..3usize), 0..10), vec(owners(), 10 + 9 + 3), silent).prop_map(|(tasks, holders, silent)| Swarm {
        tasks,
        holders,
        silent,
    })
}

impl Swarm {
    /// All of it, as one process would hold it.
    fn whole(&self, of: &str) -> Holding {
        let count = |n: usize, s: usize| self.tasks.iter().filter(|task| **task == (n, s)).count() as u64;
        let task = |(i, (n, s)): (usize, &(usize, usize))| task(&format!("task{i}"), SERVICES[*s], NODES[*n]);
        let rows = (0..9).map(|i| row(NODES[i / 3], SERVICES[i % 3], count(i / 3, i % 3)));
        let listed = |n: usize| (0..3).filter(move |s| count(n, *s) > 0).map(|s| SERVICES[s]).collect::<Vec<_>>();
        let nodes = (0..3).map(|n| node(NODES[n], &listed(n)));
        holding(
            of,
            self.tasks.iter().enumerate().map(task).collect(),
            rows.filter(|r| r.counts.running > 0).collect(),
            nodes.collect(),
        )
    }

    /// The same cut up over members as `holders` says.
    fn answers(&self, silent_ones: &BTreeSet<usize>) -> Answers {
        let at = |key: usize, m: usize| self.holders[key].contains(&m);
        let row_key = |node: &NodeId, service: &ServiceId| {
            let s = SERVICES.iter().position(|s| service.as_str() == format!("id-{s}")).unwrap();
            10 + node_key(node) * 3 + s
        };
        let answer = |m: usize| {
            if silent_ones.contains(&m) {
                return silent(MEMBERS[m]);
            }
            let mut held = self.whole(MEMBERS[m]);
            held.tasks.retain(|task| at(task.meta.task_id.as_str()[4..].parse().unwrap(), m));
            held.rows.retain(|row| at(row_key(&row.meta.node_id, &row.meta.service_id), m));
            held.nodes.retain(|node| at(19 + node_key(&node.meta.node_id), m));
            says(held)
        };
        (0..4).map(answer).collect()
    }
}

fn node_key(node: &NodeId) -> usize {
    NODES.iter().position(|n| node.as_str() == *n).unwrap()
}

fn same_figures(mut report: Report) -> Report {
    report.warnings.clear();
    report
}

proptest! {
    #[test]
    fn sharding_is_invisible(swarm in any_swarm(1), ask in any_ask()) {
        let read = |answers: Answers| {
            let mut join = Join::new(Bounds::default());
            tell_names(&mut join, &answers);
            join.read(narrowed(answers, &ask), &ask, NOW)
        };
        let (whole, cut) = (read(vec![says(swarm.whole("one"))]), read(swarm.answers(&BTreeSet::new())));
        prop_assert!(whole.complete && cut.complete);
        prop_assert_eq!(same_figures(whole), same_figures(cut));
    }

    #[test]
    fn complete_is_never_said_in_vain(swarm in any_swarm(1), ask in any_ask(), known_before in any::<bool>()) {
        let mut join = Join::new(Bounds::default());
        if known_before {
            join.read(swarm.answers(&BTreeSet::new()), &everything(), NOW);
        }
        let report = join.read(narrowed(swarm.answers(&swarm.silent), &ask), &ask, NOW);
        if report.complete {
            let whole = read_once(vec![says(swarm.whole("one"))], &ask);
            prop_assert_eq!((&report.tasks, &report.rows), (&whole.tasks, &whole.rows));
        } else {
            prop_assert!(!report.missing.is_empty() && report.missing.iter().all(|m| !m.why.is_empty()));
        }
    }

    #[test]
    fn with_two_copies_one_silent_member_hides_nothing(swarm in any_swarm(2), ask in any_ask(), of in 0..4usize) {
        let mut join = Join::new(Bounds { replicas: 2, ..Bounds::default() });
        let answers = swarm.answers(&[of].into());
        tell_names(&mut join, &answers);
        let report = join.read(narrowed(answers, &ask), &ask, NOW);
        let is_single = ask.selectors.iter().any(|selector| selector.task.is_some());
        prop_assert!(report.complete || (is_single && report.tasks.is_empty()), "{:?}", report.missing);
    }

    #[test]
    fn silence_that_hides_nothing_of_the_question_leaves_it_complete(swarm in any_swarm(1), of in 0..4usize) {
        let mut swarm = swarm;
        swarm.holders.iter_mut().for_each(|holders| if holders.remove(&of) { holders.insert((of + 1) % 4); });
        let mut join = Join::new(Bounds::default());
        join.read(swarm.answers(&BTreeSet::new()), &everything(), NOW);
        let report = join.read(swarm.answers(&[of].into()), &everything(), NOW);
        prop_assert!(report.complete);
        prop_assert_eq!(report.warnings.len(), 1);
    }
}
