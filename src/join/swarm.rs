//! What Swarm's own list adds to a verdict: nodes that should report, tasks without samples, orphans, paused updates.
//!
//! What Swarm calls running and nobody can show is missing; what does not run takes up nothing, so that is a warning.

use super::chosen::Choice;
use super::verdict::{NAMED, Verdict, label, seconds};
use crate::model::{NodeId, ServiceId};
use crate::swarm::{FRESH_FOR, List, Node, Phase, SETTLED, Task};
use std::collections::{BTreeMap, BTreeSet};

/// Why a task has no sample.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Lack {
    /// It runs, so that figures are lacking.
    missing: bool,
    /// What follows "the task": `has` and `is` are words of the sentence.
    why: String,
}

fn lacking(why: impl Into<String>) -> Option<Lack> {
    Some(Lack { missing: true, why: why.into() })
}

fn idle(why: impl Into<String>) -> Option<Lack> {
    Some(Lack { missing: false, why: why.into() })
}

impl<'a> Verdict<'a> {
    /// What Swarm says about this question beyond nodes and rows.
    pub(super) fn swarm(&mut self) {
        match (self.told.fresh(), &self.told.list) {
            (Some(list), _) => {
                self.paused_updates(list);
                self.unsampled(list);
                self.disowned(list);
            }
            (None, Some(list)) if list.age > FRESH_FOR => {
                let age = seconds(list.age);
                self.warn(format!("what Swarm says is {age} old: it is shown, but not used to tell what is missing"));
            }
            _ => {}
        }
        if self.told.fresh().is_none() {
            for (member, why) in &self.told.troubles {
                self.warn(format!("member {member} cannot list what Swarm says: {why}"));
            }
        }
    }

    /// The nodes that Swarm lists and that no shipper ever spoke for, unless nothing shall run there.
    pub(super) fn unheard_nodes(&mut self) {
        let Some(list) = self.told.fresh() else { return };
        // Of a service it is known where its tasks are.
        let takes = |(id, task): (_, &'_ _)| self.wide().any(|choice| choice.takes_listed_task(list, id, task));
        let hosts: BTreeSet<_> =
            list.tasks.iter().filter(|listed| takes(*listed)).filter_map(|(_, task)| task.node.as_ref()).collect();
        let asked = |id: &NodeId, node: &Node| {
            let is_wanted = |choice: &Choice<'_>| {
                let of_nodes = choice.selector.service.is_none() && choice.selector.stack.is_none();
                choice.takes_node(id, &node.name) && (of_nodes || hosts.contains(id))
            };
            self.wide().any(is_wanted)
        };
        let unheard: Vec<_> = list
            .nodes
            .iter()
            .filter(|(id, node)| !self.join.nodes.contains_key(*id) && asked(id, node))
            .filter(|(_, node)| !node.is_drained() || node.desired > 0)
            .collect();
        if unheard.len() <= NAMED {
            for (id, node) in unheard {
                let why = if node.is_down() { unreached(node) } else { UNHEARD.to_string() };
                self.lacks(format!("node {}", list.node_label(id)), why);
            }
        } else {
            self.lacks(format!("{} of {} nodes", unheard.len(), list.nodes.len()), UNHEARD);
        }
    }

    /// What Swarm says about a node whose shipper is silent; `Err` if that excuses it.
    pub(super) fn swarms_word(&self, id: &NodeId) -> Result<Option<String>, String> {
        let Some(node) = self.told.fresh().and_then(|list| list.nodes.get(id)) else { return Ok(None) };
        if node.is_down() {
            return Ok(Some(unreached(node)));
        }
        if node.is_drained() && node.desired == 0 { Err("it is drained".into()) } else { Ok(None) }
    }

    fn paused_updates(&mut self, list: &List) {
        let asked = |choice: &Choice<'_>, id: &ServiceId, service| choice.takes_listed(id, service);
        for (id, service) in list.services.iter().filter(|(_, service)| service.is_paused()) {
            if self.choices.iter().any(|choice| asked(choice, id, service)) {
                let what = if &*service.update == "paused" { "update paused" } else { "rollback paused" };
                let (running, desired) = (service.running, service.desired);
                let why = if service.update_message.is_empty() { "" } else { ": " };
                let text = format!("service {}: {what}, {running} running of {desired} wanted", service.name);
                self.warn(format!("{text}{why}{}", service.update_message));
            }
        }
    }

    /// Tasks that Swarm wants and that have no fresh sample, by service and reason.
    fn unsampled(&mut self, list: &List) {
        let mut lacks: BTreeMap<(&ServiceId, Lack), Vec<String>> = BTreeMap::new();
        for (id, task) in list.tasks.iter().filter(|(_, task)| task.wanted) {
            let sampled = self.tasks.get(id).is_some_and(|view| view.fresh || view.ended);
            if sampled || !self.choices.iter().any(|choice| choice.takes_listed_task(list, id, task)) {
                continue;
            }
            let age = self.tasks.get(id).map(|view| view.age);
            if let Some(lack) = self.lack(list, task, age) {
                lacks.entry((&task.service, lack)).or_default().push(list.task_label(task));
            }
        }
        for ((service, Lack { missing, why }), labels) in lacks {
            let name = list.services.get(service).map_or(service.as_str(), |service| &service.name);
            let (what, has, is) = match labels.as_slice() {
                [only] => (format!("task {only}"), "has", "is"),
                more => (format!("{} tasks of service {name}", more.len()), "have", "are"),
            };
            if missing {
                self.lacks(what, why);
            } else {
                let said = |word: &str, as_word: &str| Some(format!("{what} {as_word} {}", why.strip_prefix(word)?));
                self.warn(said("has ", has).or_else(|| said("is ", is)).unwrap_or_else(|| format!("{what}: {why}")));
            }
        }
    }

    /// Why a task has no fresh sample, unless that was said already or will be over in a moment.
    fn lack(&self, list: &List, task: &Task, age: Option<u64>) -> Option<Lack> {
        let said = |what: &str| if task.error.is_empty() { what.into() } else { format!("{what}: {}", task.error) };
        match (task.phase(), &task.node) {
            (Phase::Waiting, _) => idle(said("has not been scheduled")),
            (Phase::Starting, _) => idle(said(&format!("is not running yet ({})", task.state))),
            (Phase::Over, _) if &*task.state == "complete" => None,
            (Phase::Over, _) => idle(said(&format!("is {}", task.state))),
            (Phase::Running, None) => None,
            (Phase::Running, Some(id)) => {
                let node = format!("node {}", list.node_label(id));
                if self.told.is_down(id) {
                    return lacking(format!("{node} is not available"));
                }
                let Some(known) = self.join.nodes.get(id) else {
                    return lacking(format!("{node}: {UNHEARD}"));
                };
                match age {
                    // A row's own count has it, or the node's silence.
                    _ if self.short.contains(&(&task.service, id)) || !self.join.is_fresh(known) => None,
                    Some(age) => idle(format!("no sample for {}", seconds(age))),
                    None if task.lasts < SETTLED => None,
                    None => lacking(format!("Swarm says it runs, the shipper of {node} does not see it")),
                }
            }
        }
    }

    fn disowned(&mut self, list: &List) {
        let orphans: Vec<_> = self.orphans.iter().filter_map(|id| self.tasks.get(id)).collect();
        if orphans.len() <= NAMED {
            for task in orphans {
                let (id, node) = (task.meta.task_id.as_str(), list.node_label(&task.meta.node_id));
                // Its name is not asked for where only sums are.
                let name = label(id, &task.meta.task_name);
                self.warn(format!(
                    "task {name} runs on node {node} though Swarm does not want it (an orphan): {COUNTED}"
                ));
            }
        } else {
            let nodes: BTreeSet<_> = orphans.iter().map(|task| &task.meta.node_id).collect();
            let (n, on) = (orphans.len(), nodes.len());
            self.warn(format!("{n} tasks run on {on} nodes though Swarm does not want them (orphans): {COUNTED}"));
        }
    }
}

const UNHEARD: &str = "its shipper has never reported: is one running there, with these members?";
const COUNTED: &str = "counted for the node only, see `docker ps` there";

fn unreached(node: &Node) -> String {
    let message = if node.message.is_empty() { String::new() } else { format!(" ({})", node.message) };
    format!("is not available: Swarm calls it {}{message}", node.status)
}
