//! What Swarm says, in the documents: its age at the top, and what it says of a service, a node or a stack.

use super::Writer;
use crate::figures::{By, Coverage, Group};
use crate::swarm::{List, Node, Resources, Service, Truth, is_swarm_id};
use std::collections::BTreeMap;

/// `swarm`, at the top of a document.
pub(super) fn age(json: &mut Writer, truth: Option<&Truth>) {
    json.key("swarm");
    match truth {
        Some(truth) => {
            json.open('{');
            json.key("age_seconds").decimal(Some(truth.list.age), 3);
            json.close('}');
        }
        None => json.null(),
    }
}

/// What Swarm says of the items of one document.
pub(super) struct Said<'a> {
    list: Option<&'a List>,
    by: By,
    /// Of the stacks, which the list does not name.
    stacks: BTreeMap<&'a str, u64>,
}

impl<'a> Said<'a> {
    pub(super) fn of(truth: Option<&'a Truth>, by: By) -> Said<'a> {
        let list = truth.map(|truth| &truth.list);
        let mut stacks = BTreeMap::new();
        for service in list.iter().filter(|_| by == By::Stack).flat_map(|list| list.services.values()) {
            *stacks.entry(&*service.stack).or_default() += service.desired;
        }
        Said { list, by, stacks }
    }

    fn service(&self, id: &str) -> Option<&'a Service> {
        self.list.filter(|_| self.by == By::Service)?.services.get(id)
    }

    fn node(&self, id: &str) -> Option<&'a Node> {
        self.list.filter(|_| self.by == By::Node)?.nodes.get(id)
    }

    /// What Swarm schedules a node by, if that is so now, and what it last was.
    pub(super) fn capacity(&self, id: &str) -> (Option<Resources>, Option<Resources>) {
        let last = self.node(id).map(|node| node.capacity);
        (last.filter(|_| self.list.is_some_and(List::is_fresh)), last)
    }

    /// Whether Swarm does not have a service any more, of which nothing runs; `None` where that cannot be told.
    fn is_removed(&self, group: &Group) -> Option<bool> {
        let list = self.list.filter(|list| list.is_fresh())?;
        let is_listed = list.services.contains_key(&*group.id);
        Some(!is_listed && is_swarm_id(&group.id) && group.tasks == Coverage::default())
    }

    /// How many tasks of an item shall run.
    pub(super) fn desired(&self, id: &str) -> Option<u64> {
        match self.by {
            By::Service => self.service(id).map(|service| service.desired),
            By::Node => self.node(id).map(|node| node.desired),
            By::Stack => self.stacks.get(id).copied(),
        }
    }

    /// What only a service or a node has.
    pub(super) fn write(&self, json: &mut Writer, group: &Group) {
        let id = &*group.id;
        match self.by {
            By::Service => {
                let service = self.service(id);
                let (completed, total) = service.and_then(|service| service.completed).unzip();
                json.key("mode").text_or_null(service.map_or("", |service| service.mode.as_str()));
                json.key("update").text_or_null(service.map_or("", |service| &service.update));
                json.key("completed").number(completed);
                json.key("total_completions").number(total);
                json.key("removed");
                match self.is_removed(group) {
                    Some(removed) => json.bool(removed),
                    None => json.null(),
                }
            }
            By::Node => {
                let node = self.node(id);
                json.key("role").text_or_null(node.map_or("", |node| &node.role));
                json.key("availability").text_or_null(node.map_or("", |node| &node.availability));
                json.key("status").text_or_null(node.map_or("", |node| &node.status));
                resources(json, "reserved", node.map(|node| node.reserved));
            }
            By::Stack => {}
        }
    }
}

fn resources(json: &mut Writer, key: &'static str, of: Option<Resources>) {
    json.key(key);
    let Some(of) = of else { return json.null() };
    json.open('{');
    json.key("cpu_cores").decimal(Some(of.nano_cpus), 9);
    json.key("memory_bytes").number(Some(of.memory_bytes));
    json.close('}');
}
