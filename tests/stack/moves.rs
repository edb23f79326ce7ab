//! What a change of the ring must move: how many keys each shipper has to send to other members, and who is to emit what.
//!
//! A key's copies are with the first R of its owners and its reserve that do not drain; a move is a member that loses its
//! copy while its process is there. Members that come or go together may be seen one after the other, in any order.

use crate::env::{Lab, items, text};
use crate::tier::{Container, label, series};
use crate::watch::Scraped;
use std::collections::{BTreeMap, BTreeSet};
use swarmstats::model::{Key, MemberId, NodeId, ServiceId, TaskId};
use swarmstats::shard::{Member, Ring};

/// The ring that a router's document describes, made anew.
pub(crate) fn made(lab: &Lab) -> Ring {
    let document = lab.ask(0, "/v1/ring");
    let members = items(&document, "members").into_iter().map(|member| Member {
        id: MemberId::new(text(&member, "id")).unwrap(),
        node: member["node"].as_str().map(|node| NodeId::new(node).unwrap()),
    });
    let ring = Ring::new(members, u8::try_from(document["replicas"].as_u64().unwrap()).unwrap()).unwrap();
    assert_eq!(ring.id().to_string(), text(&document, "ring_id"), "the document says all that a ring is made of");
    ring
}

/// How things stand between two changes.
struct Stage {
    ring: Ring,
    draining: BTreeSet<MemberId>,
}

/// The ways from one ring to another, of which one has the members of the other and some more.
pub(crate) struct Ways(Vec<Vec<Stage>>);

impl Ways {
    pub(crate) fn between(before: &Ring, after: &Ring) -> Ways {
        let grows = after.members().len() > before.members().len();
        let (few, many) = if grows { (before, after) } else { (after, before) };
        assert!(few.members().iter().all(|member| many.contains(&member.id)));
        let others: Vec<&Member> = many.members().iter().filter(|member| !few.contains(&member.id)).collect();
        let ids = |members: &[&Member]| members.iter().map(|member| member.id.clone()).collect::<BTreeSet<_>>();
        let with = |more: &[&Member]| {
            let members = few.members().iter().chain(more.iter().copied()).cloned();
            Ring::new(members, few.replicas()).unwrap()
        };
        // All at once, or one of them first.
        let mut firsts: Vec<Vec<&Member>> = vec![Vec::new()];
        firsts.extend(others.iter().map(|member| vec![*member]));
        let mut ways = Vec::new();
        for first in &firsts {
            let rings = || [with(&[]), with(first), with(&others)];
            if grows {
                ways.push(rings().into_iter().map(|ring| Stage { ring, draining: BTreeSet::new() }).collect());
                continue;
            }
            for drains_first in &firsts {
                let drains = [BTreeSet::new(), ids(drains_first), ids(&others)];
                let mut way: Vec<Stage> =
                    drains.into_iter().map(|draining| Stage { ring: with(&others), draining }).collect();
                let [last, between, _] = rings();
                way.extend([between, last].map(|ring| Stage { ring, draining: ids(&others) }));
                ways.push(way);
            }
        }
        Ways(ways)
    }

    /// The least and the most moves of these keys, by the way that is taken.
    pub(crate) fn moves(&self, keys: &[Key]) -> (usize, usize) {
        let of_way = |way: &Vec<Stage>| {
            way.windows(2).map(|step| keys.iter().map(|key| step[0].loses(&step[1], key)).sum::<usize>()).sum()
        };
        let all: Vec<usize> = self.0.iter().map(of_way).collect();
        (*all.iter().min().unwrap(), *all.iter().max().unwrap())
    }
}

impl Stage {
    fn copies(&self, key: &Key) -> BTreeSet<&MemberId> {
        let drains = |member: &&MemberId| self.draining.contains(*member);
        let row = || self.ring.owners_and_reserve(key);
        let (stay, go) = (row().filter(|member| !drains(member)), row().filter(drains));
        stay.chain(go).take(self.ring.copies()).collect()
    }

    /// How many members lose their copy of a key with the next stage. Who drained before is gone when the ring changes.
    fn loses(&self, next: &Stage, key: &Key) -> usize {
        let (before, after) = (self.copies(key), next.copies(key));
        let gone = |member: &MemberId| self.draining == next.draining && self.draining.contains(member);
        before.difference(&after).filter(|member| !gone(member)).count()
    }
}

/// The keys of a shipper: its node, its rows, and its tasks as a router knows them.
pub(crate) struct Keys {
    pub(crate) tasks: BTreeSet<String>,
    pub(crate) besides: Vec<Key>,
}

/// By shipper.
pub(crate) fn keys(lab: &Lab, pages: &[(Container, String)]) -> BTreeMap<Container, Keys> {
    let running = lab.tasks(0);
    let of = |page: &str| {
        let rows: Vec<_> =
            series(page, "swarmstats_node_service_cpu_seconds_total").map(|(labels, _)| labels).collect();
        let node = NodeId::new(label(rows[0], "node_id")).unwrap();
        let row = |labels: &&str| Key::Row(node.clone(), ServiceId::new(label(labels, "service_id")).unwrap());
        let besides = rows.iter().map(row).chain([Key::Node(node.clone())]).collect();
        let of_node = running.iter().filter(|task| text(task, "node_id") == node.as_str());
        Keys { tasks: of_node.map(|task| text(task, "id").to_owned()).collect(), besides }
    };
    pages.iter().map(|(shipper, page)| (shipper.clone(), of(page))).collect()
}

pub(crate) fn task(id: &str) -> Key {
    Key::Task(TaskId::new(id).unwrap())
}

/// Each running task is emitted by the ring's primary of it, and by nobody else.
pub(crate) fn emitted_where_due(lab: &Lab, ring: &Ring, scraped: &Scraped, there: &[Container]) -> bool {
    let member = |container: &Container| container.name.replace("swarmstats_collectord.", "collectord-");
    let emits = |id: &str| -> Vec<String> {
        let shows = |container: &&Container| scraped.get(*container).is_some_and(|shown| shown.tasks.contains(id));
        there.iter().filter(shows).map(member).collect()
    };
    lab.tasks(0).iter().all(|of| emits(text(of, "id")) == [ring.primary(&task(text(of, "id"))).as_str()])
}
