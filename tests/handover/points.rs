//! A task's older points: one for every round in which it was read, also where those who had them leave.

use crate::fixture::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use swarmstats::aggregate::{Aggregate, AggregateConfig};
use swarmstats::message::Bequest;
use swarmstats::model::{Key, MemberId, NodeId, TaskMeta};
use swarmstats::stat::CPU;
use swarmstats::view::{Ask, Selector};

/// The points of tasks that a member has: when, in seconds, and how much CPU.
fn all_points(swarm: &Swarm, of: &MemberId) -> BTreeMap<String, Vec<(u64, u64)>> {
    let ask = Ask { points: 9, ..Ask::of(vec![Selector::everything()]) };
    let tasks = swarm.collectors[of].hold(&ask, swarm.now).tasks.into_iter();
    let points = tasks.map(|task| {
        let points = task.points.iter().map(|point| (point.monotonic / SECOND, point.values.get(CPU).unwrap()));
        (task.meta.task_id.to_string(), points.collect())
    });
    points.collect()
}

fn points(swarm: &Swarm, of: &MemberId) -> Vec<(u64, u64)> {
    all_points(swarm, of).into_values().next().unwrap()
}

#[test]
fn a_point_is_there_for_every_round_in_which_a_task_was_read_and_for_no_other() {
    let (mut swarm, [owner, other], burn) = with_owner();
    assert_eq!(points(&swarm, &owner), [(11, 100)]);
    swarm.round(vec![cpu(&burn, 100)]);
    assert_eq!(points(&swarm, &owner), [(11, 100), (12, 100)], "it idled, but it was there");
    swarm.round(vec![unread(&burn)]);
    swarm.round(vec![cpu(&burn, 100)]);
    assert_eq!(points(&swarm, &owner), [(12, 100), (14, 100)], "of three rounds it was not read in one");
    // Its owner is not told of a round: nothing is made up.
    swarm.observe(vec![cpu(&burn, 100)], vec![]);
    swarm.round(vec![cpu(&burn, 130)]);
    assert_eq!(points(&swarm, &owner), [(14, 100), (16, 130)]);
    // A stream that begins anew has seen nothing meanwhile.
    swarm.cut(&owner);
    swarm.observe(vec![cpu(&burn, 130)], vec![]);
    swarm.open(&owner).unwrap();
    swarm.round(vec![cpu(&burn, 130)]);
    assert_eq!(points(&swarm, &owner), [(14, 100), (16, 130), (18, 130)]);
    // Elsewhere it is not read here.
    swarm.outbox.set_ring(ring(&[other.as_str()]));
    swarm.observe(vec![cpu(&burn, 140)], vec![]);
    swarm.tell_one(&owner);
    swarm.observe(vec![cpu(&burn, 150)], vec![]);
    swarm.tell_one(&owner);
    assert_eq!(points(&swarm, &owner), [(18, 130)]);
}

/// What `from` has of the tasks that `goes`, as it goes over the wire.
fn bequeathed(swarm: &Swarm, from: &MemberId, goes: impl Fn(&str) -> bool) -> Vec<Bequest> {
    let aggregate = &swarm.collectors[from];
    let given = aggregate.nodes().into_iter().flat_map(|node| aggregate.bequests(&node, |id| goes(id.as_str())));
    let over_the_wire = |bequest: Bequest| Bequest::try_from(swarmstats::wire::pb::Bequest::from(&bequest)).unwrap();
    given.map(over_the_wire).collect()
}

fn inherit(swarm: &mut Swarm, of: &MemberId, bequests: &[Bequest]) -> usize {
    let aggregate = swarm.collectors.get_mut(of).unwrap();
    bequests.iter().map(|bequest| aggregate.inherit(bequest)).sum()
}

/// Tasks of a swarm of two members, by the one that has them; keeping five points.
fn two_with_points() -> (Swarm, Vec<Arc<TaskMeta>>, BTreeMap<String, MemberId>) {
    let ids = ["a", "b"];
    let mut swarm = Swarm::new(&ids);
    for id in ids {
        let cfg = AggregateConfig { points: 5, ..config_of(id, 1, 1) };
        swarm.collectors.insert(member(id), Aggregate::new(cfg, ring(&[id]).id(), 0));
    }
    let tasks: Vec<_> = (0..6).map(|i| task(&format!("t{i}"), "web", 1)).collect();
    let ring = ring(&ids);
    let owner = |meta: &Arc<TaskMeta>| ring.primary(&Key::Task(meta.task_id.clone())).clone();
    let owners = tasks.iter().map(|meta| (meta.task_id.to_string(), owner(meta))).collect();
    (swarm, tasks, owners)
}

#[test]
fn the_points_of_who_leaves_go_on_at_who_has_the_tasks_then() {
    let (mut swarm, tasks, owners) = two_with_points();
    let (a, b) = (member("a"), member("b"));
    let n_moved = owners.values().filter(|owner| **owner == a).count();
    assert!(n_moved > 0 && n_moved < tasks.len(), "{owners:?}");
    let read = |used: u64| tasks.iter().map(|meta| cpu(meta, used)).collect::<Vec<_>>();
    for used in [1, 2, 2] {
        swarm.round(read(used));
    }
    swarm.outbox.set_ring(ring(&["b"]));
    swarm.round(read(4));
    let given = bequeathed(&swarm, &a, |_| true);
    assert_eq!(inherit(&mut swarm, &b, &given), n_moved);
    let whole = [(11, 1), (12, 2), (13, 2), (14, 4)];
    for (id, points) in all_points(&swarm, &b) {
        assert_eq!(points, whole, "{id} of {}", owners[&id]);
    }
    // Given twice, or by another one too, it is the same; and it goes on, with the oldest leaving first.
    inherit(&mut swarm, &b, &given);
    for used in [4, 6] {
        swarm.round(read(used));
    }
    for (id, points) in all_points(&swarm, &b) {
        assert_eq!(points, [(12, 2), (13, 2), (14, 4), (15, 4), (16, 6)], "{id}");
    }
}

#[test]
fn a_task_that_was_here_before_has_no_hole_for_its_time_elsewhere() {
    let (mut swarm, tasks, owners) = two_with_points();
    let (a, b) = (member("a"), member("b"));
    let read = |used: u64| tasks.iter().map(|meta| cpu(meta, used)).collect::<Vec<_>>();
    swarm.round(read(1));
    swarm.outbox.set_ring(ring(&["b"]));
    for used in [2, 3] {
        swarm.round(read(used));
    }
    swarm.outbox.set_ring(ring(&["a", "b"]));
    swarm.round(read(4));
    let of_a = owners.iter().filter(|(_, owner)| **owner == a).map(|(id, _)| id.clone()).collect::<Vec<_>>();
    let holed = all_points(&swarm, &a);
    assert!(of_a.iter().any(|id| holed[id].len() < 4), "without, there is a hole: {holed:?}");
    let given = bequeathed(&swarm, &b, |id| owners[id] == a);
    assert_eq!(inherit(&mut swarm, &a, &given), of_a.len());
    for id in &of_a {
        assert_eq!(all_points(&swarm, &a)[id], [(11, 1), (12, 2), (13, 3), (14, 4)], "{id}");
    }
}

#[test]
fn points_of_another_life_of_a_task_or_a_node_and_of_unknown_tasks_are_not_taken() {
    let (mut swarm, tasks, owners) = two_with_points();
    let (a, b) = (member("a"), member("b"));
    let read = |used: u64| tasks.iter().map(|meta| cpu(meta, used)).collect::<Vec<_>>();
    for used in [1, 2] {
        swarm.round(read(used));
    }
    let given = bequeathed(&swarm, &a, |_| true);
    let before = all_points(&swarm, &b);
    assert_eq!(inherit(&mut swarm, &b, &given), 0, "it has none of them: {owners:?}");
    swarm.outbox.set_ring(ring(&["b"]));
    swarm.round(read(3));
    for spoil in [
        (|given: &mut Bequest| given.epoch += 1) as fn(&mut Bequest),
        |given| given.node_id = NodeId::new("n9").unwrap(),
        |given| given.tasks.iter_mut().for_each(|task| task.container_id = "another".into()),
        |given| given.tasks.iter_mut().for_each(|task| task.started_at += 1),
    ] {
        let mut bad = given.clone();
        bad.iter_mut().for_each(spoil);
        assert_eq!(inherit(&mut swarm, &b, &bad), 0);
    }
    for (id, points) in all_points(&swarm, &b).iter().filter(|(id, _)| owners[*id] == b) {
        assert_eq!(points[..2], before[id], "what was there stays");
        assert_eq!(points.len(), 3);
    }
    // Nonsense costs nothing and breaks nothing: rounds of the future, out of order, more than are kept.
    let mut wild = given;
    for bequest in &mut wild {
        bequest.rounds = (0..10_000).rev().map(|round| round * SECOND / 7).chain([u64::MAX, 0]).collect();
        for task in &mut bequest.tasks {
            task.runs.reverse();
        }
    }
    inherit(&mut swarm, &b, &wild);
    swarm.round(read(5));
    for (id, points) in all_points(&swarm, &b) {
        assert!(points.len() <= 5 && points.last() == Some(&(14, 5)), "{id}: {points:?}");
    }
}
