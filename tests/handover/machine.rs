//! The machine's own figures, which travel with the node's row.

use crate::fixture::*;
use swarmstats::model::{Key, MemberId, NodeId, Subject, Values};
use swarmstats::stat::{CPU, CPU_LIMIT, LOAD1, Level, MEMORY_LIMIT, MEMORY_PEAK, MEMORY_USED};
use swarmstats::view::NodeView;

fn node(swarm: &Swarm, at: &MemberId) -> Option<NodeView> {
    swarm.hold(at).nodes.into_iter().next()
}

fn figures(cpu: u64, memory: u64) -> Values {
    [(CPU, cpu), (MEMORY_USED, memory)].into_iter().collect()
}

#[test]
fn a_new_list_of_services_does_not_tell_the_machines_figures_again() {
    let (mut swarm, a) = (Swarm::new(&["a"]), member("a"));
    swarm.machine = figures(100, 7);
    swarm.machine.set(MEMORY_PEAK, 5);
    swarm.round(vec![]);
    assert_eq!(node(&swarm, &a).unwrap().values, figures(100, 7), "no machine has a peak");
    swarm.observe(vec![unread(&task("t1", "burn", 1))], vec![]);
    let batch = swarm.outbox.next_batch(&a, swarm.now).unwrap();
    let is_node = |subject: &Subject| matches!(subject, Subject::Node(_));
    assert!(batch.intros.iter().any(|intro| is_node(&intro.subject)));
    let stream = swarm.stream(&a);
    swarm.collectors.get_mut(&a).unwrap().batch(&stream, &batch, swarm.now).unwrap();
    let held = node(&swarm, &a).unwrap();
    assert_eq!((held.meta.services.len(), held.values), (1, figures(100, 7)));
    assert_eq!((held.monotonic, held.previous), (12 * SECOND, before(11 * SECOND, 100)), "it stood still");
}

#[test]
fn rates_of_a_machine_go_on_over_a_broken_stream() {
    let (mut swarm, a) = (Swarm::new(&["a"]), member("a"));
    swarm.machine = figures(100, 7);
    swarm.round(vec![]);
    swarm.cut(&a);
    swarm.machine = figures(130, 8);
    swarm.round(vec![]);
    let held = node(&swarm, &a).unwrap();
    assert_eq!((held.values, held.previous), (figures(130, 8), before(11 * SECOND, 100)));
    swarm.machine = Values::default();
    swarm.round(vec![]);
    let held = node(&swarm, &a).unwrap();
    assert_eq!((held.values, held.fresh), (Values::default(), true), "absent is not zero");
}

#[test]
fn a_machines_series_are_emitted_by_the_primary_alone() {
    let (mut swarm, ids) = (Swarm::new(&["a", "b"]), ["a", "b"].map(member));
    swarm.machine = figures(100, 7);
    swarm.round(vec![]);
    let key = Key::Node(NodeId::new("n1").unwrap());
    let emitting = |swarm: &mut Swarm| {
        let now = swarm.now;
        let mut emits = |id: &MemberId| !swarm.collectors.get_mut(id).unwrap().scrape(now).nodes.is_empty();
        ids.iter().filter(|id| emits(id)).cloned().collect::<Vec<_>>()
    };
    assert_eq!(emitting(&mut swarm), [ring(&["a", "b"]).primary(&key).clone()]);
    // The other one takes over once the old one has said that it heard of it: never are there two.
    let other = ids.iter().find(|id| *id != ring(&["a", "b"]).primary(&key)).unwrap().clone();
    swarm.outbox.set_ring(ring(&[other.as_str()]));
    swarm.round(vec![]);
    assert!(emitting(&mut swarm).len() < 2);
    swarm.round(vec![]);
    assert_eq!(emitting(&mut swarm), [other]);
    // A frozen shipper's lease runs out.
    swarm.now += 60 * SECOND;
    assert_eq!(emitting(&mut swarm), []);
}

#[test]
fn a_machine_says_what_it_has_at_every_level() {
    let cfg = swarmstats::outbox::OutboxConfig { stats: Level::Docker.mask(), ..shipper_of("n1", 1) };
    let (mut swarm, a) = (Swarm::new(&["a"]), member("a"));
    swarm.outbox = swarmstats::outbox::Outbox::new(cfg, ring(&["a"]));
    swarm.machine = [(CPU, 1), (CPU_LIMIT, 8), (MEMORY_LIMIT, 9), (LOAD1, 7)].into_iter().collect();
    let web = task("t1", "web", 1);
    swarm.round(vec![read(&web, &[(CPU, 1), (CPU_LIMIT, 3)])]);
    let held = node(&swarm, &a).unwrap().values;
    assert_eq!(held, [(CPU, 1), (CPU_LIMIT, 8), (MEMORY_LIMIT, 9)].into_iter().collect());
    assert_eq!(swarm.task(&a, "t1").unwrap().values.get(CPU_LIMIT), None, "a task has what the level has");
}
