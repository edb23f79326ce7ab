//! Whether a read is complete (LEDGER 21), and if not, what it lacks and why, in words for people.
//!
//! A silent member that hides nothing is a warning. Long lists are summed up: what is said stays short.

use super::chosen::Choice;
use super::told::Told;
use super::{Join, KnownNode, age_at};
use crate::model::{MemberId, Millis, Nanos, NodeId, ServiceId, TaskId, Version};
use crate::view::{Missing, RowView, TaskView};
use std::collections::{BTreeMap, BTreeSet};

/// More than this many things of one kind are summed up.
pub(super) const NAMED: usize = 8;
/// No more entries than this are listed, of what is missing and of warnings, beside the members.
const LISTED: usize = 100;

/// What was read, to be judged.
#[derive(Clone, Copy)]
pub(super) struct Read<'a> {
    pub(super) choices: &'a [Choice<'a>],
    pub(super) tasks: &'a BTreeMap<TaskId, TaskView>,
    /// Tasks of which only an earlier epoch's sample came: the node's shipper began anew, and those asked have not heard
    /// of them since.
    pub(super) void: &'a BTreeSet<TaskId>,
    pub(super) silent: &'a BTreeMap<MemberId, String>,
    /// Members that answered and may not have been told yet what they own: they have just begun, or a shipper of theirs has.
    pub(super) young: &'a BTreeSet<MemberId>,
    pub(super) told: &'a Told,
    /// Of the tasks, those that Swarm disowns.
    pub(super) orphans: &'a BTreeSet<TaskId>,
    /// Nodes that Swarm does not count on any more.
    pub(super) absent: &'a BTreeSet<NodeId>,
    pub(super) now: Nanos,
}

pub(super) struct Verdict<'a> {
    pub(super) join: &'a Join,
    pub(super) read: Read<'a>,
    /// Where tasks are lacking by the count of a row.
    pub(super) short: BTreeSet<(&'a ServiceId, &'a NodeId)>,
    missing: Vec<Missing>,
    warnings: Vec<String>,
}

impl<'a> std::ops::Deref for Verdict<'a> {
    type Target = Read<'a>;
    fn deref(&self) -> &Read<'a> {
        &self.read
    }
}

/// What of one (node, service) was found.
#[derive(Default)]
struct Found {
    fresh: u64,
    /// Their rounds, and whether each had a reading before.
    rounds: BTreeSet<(u64, bool)>,
    /// Of those that are not fresh: the rounds they were not read in, or last heard of.
    stale: Vec<u64>,
    ended: Vec<Version>,
}

/// What of one service is not there.
#[derive(Default)]
struct Gap<'a> {
    known: u64,
    lacking: u64,
    unreadable: u64,
    silent_nodes: BTreeSet<&'a NodeId>,
    /// On some node a task that the row does not count may stand in for one that is lacking.
    unsure: bool,
}

impl<'a> Verdict<'a> {
    /// What is missing, and what people should know besides.
    pub(super) fn of(join: &'a Join, read: Read<'a>) -> (Vec<Missing>, Vec<String>) {
        let mut verdict = Verdict { join, read, short: BTreeSet::new(), missing: Vec::new(), warnings: Vec::new() };
        verdict.nodes();
        verdict.unheard_nodes();
        verdict.rows();
        verdict.task_counts();
        verdict.single_tasks();
        verdict.swarm();
        verdict.what_nobody_knows();
        verdict.members();
        (verdict.missing, verdict.warnings)
    }

    pub(super) fn lacks(&mut self, what: impl Into<String>, why: impl Into<String>) {
        let missing = Missing { what: what.into(), why: why.into() };
        if self.missing.len() < LISTED && !self.missing.contains(&missing) {
            self.missing.push(missing);
        } else if self.missing.len() == LISTED {
            self.missing.push(Missing { what: "more".into(), why: format!("only the first {LISTED} are listed") });
        }
    }

    pub(super) fn warn(&mut self, warning: String) {
        if self.warnings.len() < LISTED {
            self.warnings.push(warning);
        }
    }

    /// The choices that ask for more than single tasks.
    pub(super) fn wide(&self) -> impl Iterator<Item = &'a Choice<'a>> + use<'a> {
        self.choices.iter().filter(|choice| choice.selector.task.is_none())
    }

    /// The known nodes that a question is about, with whether their own row was returned fresh.
    fn asked_nodes(&self) -> Vec<(&'a NodeId, &'a KnownNode, bool)> {
        let wide: Vec<_> = self.wide().collect();
        let nodes = self.join.nodes.iter().filter(|(id, node)| wide.iter().any(|c| c.takes_node(id, &node.name)));
        nodes.map(|(id, node)| (id, node, self.join.is_fresh(node))).collect()
    }

    fn nodes(&mut self) {
        let mut nodes = self.asked_nodes();
        nodes.retain(|(id, ..)| !self.told.has_removed(id));
        let (mut gaps, mut words) = (Vec::new(), BTreeMap::new());
        for (id, node, _) in nodes.iter().filter(|(_, _, fresh)| !fresh) {
            match self.swarms_word(id) {
                Ok(word) => {
                    words.extend(word.map(|word| (*id, word)));
                    gaps.push((id, node));
                }
                Err(excuse) => {
                    let why = self.why(self.node_silence(node));
                    self.warn(format!("node {}: {excuse}; {why}", label(id.as_str(), &node.name)));
                }
            }
        }
        if gaps.len() <= NAMED {
            for (id, node) in gaps {
                let why = words.remove(*id).into_iter().chain([self.why(self.node_silence(node))]);
                let why = why.collect::<Vec<_>>().join("; ");
                self.lacks(format!("node {}", label(id.as_str(), &node.name)), why);
            }
        } else {
            let why = self.why(gaps.iter().filter_map(|(_, node)| self.node_silence(node)).min());
            self.lacks(format!("{} of {} nodes", gaps.len(), nodes.len()), why);
        }
    }

    /// Rows that nodes list and that were not returned fresh. What a silent node lists is covered by its own entry.
    fn rows(&mut self) {
        let mut wanted: BTreeMap<&ServiceId, Vec<&Choice<'_>>> = BTreeMap::new();
        let mut gaps: BTreeMap<&ServiceId, (BTreeSet<&NodeId>, Option<Millis>)> = BTreeMap::new();
        for (id, node, fresh) in self.asked_nodes() {
            let listed = node.row.as_ref().filter(|_| fresh).map_or(&[][..], |(row, _)| &row.meta.services);
            for service in listed {
                let of_service = self.join.rows.get(service);
                let wanted = wanted.entry(service).or_insert_with(|| {
                    let meta = of_service.and_then(|rows| rows.values().next()).map(|(row, _)| &*row.meta);
                    // A service without a row that Swarm lists has a name and a stack all the same.
                    let listed = self.told.list.as_ref().and_then(|list| list.services.get(service));
                    let takes = |choice: &&Choice<'_>| match listed.filter(|_| meta.is_none()) {
                        Some(listed) => {
                            choice.asks_for_rows() && choice.takes_service_called(service, &listed.name, &listed.stack)
                        }
                        None => choice.takes_service(service, meta),
                    };
                    self.wide().filter(takes).collect()
                });
                if !wanted.iter().any(|choice| choice.takes_node(id, &node.name)) {
                    continue;
                }
                let known = of_service.and_then(|rows| rows.get(id)).map(|(_, seen)| seen);
                if known.is_none_or(|seen| seen.fresh != self.join.read) {
                    let returned = known.filter(|seen| seen.returned == self.join.read);
                    let silence = returned.map(|seen| age_at(self.now, seen.heard));
                    gaps.entry(service).or_insert((BTreeSet::new(), silence)).0.insert(id);
                }
            }
        }
        for (service, (nodes, silence)) in gaps {
            let place = match nodes.first() {
                Some(only) if nodes.len() == 1 => format!("node {}", self.join.node_label(only)),
                _ => format!("{} nodes", nodes.len()),
            };
            let why = self.why(silence);
            self.lacks(format!("service {} on {place}", self.join.service_label(service)), why);
        }
        for what in &self.join.refused_now {
            self.lacks(*what, "more than this router may remember (max_nodes, max_rows)");
        }
    }

    /// Fresh tasks must cover what the rows of a service say is running there, less what the node itself cannot read
    /// and what ended since the row was made.
    fn task_counts(&mut self) {
        let mut found: BTreeMap<(&ServiceId, &NodeId), Found> = BTreeMap::new();
        for task in self.tasks.values() {
            let found = found.entry((&task.meta.service_id, &task.meta.node_id)).or_default();
            match (task.fresh, task.ended) {
                (true, _) => {
                    found.rounds.insert((task.version.q, task.previous.is_some()));
                    found.fresh += 1;
                }
                (_, true) => found.ended.push(task.version),
                _ => found.stale.push(task.version.q),
            }
        }
        let mut gaps: BTreeMap<&ServiceId, Gap<'_>> = BTreeMap::new();
        let (join, Read { choices, absent, silent, young, .. }) = (self.join, self.read);
        let whole = |row: &RowView| {
            !absent.contains(&row.meta.node_id)
                && choices.iter().any(|choice| choice.is_whole() && choice.takes_row(&row.meta))
        };
        for (row, _) in join.rows_taken(choices).filter(|(row, _)| whole(row)) {
            let meta = &row.meta;
            let found = found.get(&(&meta.service_id, &meta.node_id));
            let gap = gaps.entry(&meta.service_id).or_default();
            let (lacking, unreadable) = lacking(row, found);
            let away = silent.len() + young.len() >= join.bounds.replicas;
            let hides = |found: &&Found| found.stale.len() as u64 > unreadable || away;
            // One may be new, or over, since the row was made. Streams are a round apart for a moment: that alone is nothing,
            // where a task is known to have been there before.
            let apart = |(q, had_one): &(u64, bool)| q.abs_diff(row.version.q) > 1 || (*q > row.version.q && !had_one);
            if lacking == 0 && found.filter(hides).is_some_and(|found| found.rounds.iter().any(apart)) {
                gap.unsure = true;
            }
            if lacking > 0 {
                self.short.insert((&meta.service_id, &meta.node_id));
            }
            gap.known += row.counts.running;
            gap.lacking += lacking;
            gap.unreadable += unreadable;
            if lacking > 0 && self.join.nodes.get(&meta.node_id).is_none_or(|node| !self.join.is_fresh(node)) {
                gap.silent_nodes.insert(&meta.node_id);
            }
        }
        for (service, gap) in gaps {
            let name = self.join.service_label(service);
            if gap.lacking > 0 {
                let why = self.why_tasks(&gap.silent_nodes);
                self.lacks(format!("{} of {} tasks of service {name}", gap.lacking, gap.known), why);
            } else if gap.unsure {
                let why = ["how many run is not known yet".to_owned()].into_iter().chain(self.silence());
                self.lacks(format!("tasks of service {name}"), why.collect::<Vec<_>>().join("; "));
            }
            if gap.unreadable > 0 {
                let text =
                    format!("{} of {} tasks of service {name} cannot be read on their node", gap.unreadable, gap.known);
                self.warn(text);
            }
        }
    }

    fn single_tasks(&mut self) {
        for choice in self.choices {
            let Some(text) = &choice.selector.task else { continue };
            let found: Vec<_> = self.tasks.values().filter(|task| choice.takes_task(&task.meta)).collect();
            let what = format!("task {text}");
            let silent_node = self.join.nodes.iter().find(|(id, node)| match found.first() {
                Some(task) => **id == task.meta.node_id && !self.join.is_fresh(node),
                None => choice.takes_node(id, &node.name) && !self.join.is_fresh(node),
            });
            match found.iter().filter(|task| !task.fresh && !task.ended).map(|task| task.age).max() {
                None if !found.is_empty() => {}
                None if self.void.iter().any(|task| task.as_str() == &**text) => {
                    self.lacks(what, "no sample since its node's shipper began anew");
                }
                None if self.silent.len() + self.young.len() < self.join.bounds.replicas && silent_node.is_none() => {}
                Some(age) if self.silent.is_empty() && silent_node.is_none() => {
                    self.warn(format!("{what}: no sample for {}", seconds(age)));
                }
                age => {
                    let node = silent_node.map(|(id, _)| BTreeSet::from([id])).unwrap_or_default();
                    let why = if node.is_empty() { self.why(age) } else { self.why_tasks(&node) };
                    self.lacks(what, [why].into_iter().chain(self.begun()).collect::<Vec<_>>().join("; "));
                }
            }
        }
    }

    /// Where R or more members are silent or have just begun there may be what nobody remembers: what a name means, which
    /// tasks have a label, and all that a silent member holds which this router never heard.
    fn what_nobody_knows(&mut self) {
        let hiding = self.silent.len() + self.young.len();
        if hiding == 0 || hiding < self.join.bounds.replicas {
            return;
        }
        let why = self.silence().into_iter().chain(self.begun()).collect::<Vec<_>>().join("; ");
        for choice in self.choices.iter().filter(|choice| choice.selector.task.is_none()) {
            let selector = choice.selector;
            for (name, value) in &selector.labels {
                self.lacks(format!("tasks with label {name}={value}"), why.clone());
            }
            let has_row =
                self.join.rows.values().flat_map(BTreeMap::values).any(|(row, _)| choice.takes_row(&row.meta));
            let has_node = self.join.nodes.iter().any(|(id, node)| choice.takes_node(id, &node.name));
            let texts = [("service", &selector.service), ("stack", &selector.stack)];
            for (kind, text) in texts.into_iter().filter_map(|(kind, text)| Some((kind, text.as_ref()?))) {
                if !has_row {
                    self.lacks(format!("{kind} {text}"), why.clone());
                }
            }
            if let Some(text) = selector.node.as_ref().filter(|_| !has_node) {
                self.lacks(format!("node {text}"), why.clone());
            }
        }
        if self.silent.len() >= self.join.bounds.replicas && self.wide().next().is_some() {
            for (member, why) in self.silent {
                let since = match self.join.members.contains_key(member) {
                    false => "nor ever since this router started",
                    // It was heard and knew no node: there may be one since.
                    true if self.join.nodes.is_empty() => "and no node was heard of before",
                    true => continue,
                };
                let why = format!("did not answer ({why}), {since}: what it holds is not known");
                self.lacks(format!("member {member}"), why);
            }
        }
    }

    /// A silent member stands in `missing` if anything does, else it is a warning.
    fn members(&mut self) {
        let incomplete = !self.missing.is_empty();
        for (member, why) in self.silent {
            let what = format!("member {member}");
            if !incomplete {
                self.warnings.push(format!("{what} did not answer ({why})"));
            } else if self.missing.iter().all(|missing| missing.what != what) {
                self.missing.push(Missing { what, why: format!("did not answer ({why})") });
            }
        }
    }

    /// For how long a node's own row was silent, if somebody returned it.
    fn node_silence(&self, node: &KnownNode) -> Option<Millis> {
        let (_, seen) = node.row.as_ref().filter(|(_, seen)| seen.returned == self.join.read)?;
        Some(age_at(self.now, seen.heard))
    }

    fn why(&self, silence: Option<Millis>) -> String {
        let mut why: Vec<String> = silence.map(|age| format!("no sample for {}", seconds(age))).into_iter().collect();
        why.extend(self.silence());
        if why.is_empty() {
            why.push("no member that answered holds it".into());
        }
        why.join("; ")
    }

    fn why_tasks(&self, nodes: &BTreeSet<&NodeId>) -> String {
        let mut why: Vec<String> = Vec::new();
        if nodes.len() <= NAMED {
            why.extend(nodes.iter().filter_map(|id| {
                let silence = self.node_silence(self.join.nodes.get(*id)?)?;
                Some(format!("node {}: no sample for {}", self.join.node_label(id), seconds(silence)))
            }));
        } else {
            why.push(format!("no sample from {} nodes", nodes.len()));
        }
        why.extend(self.silence());
        if why.is_empty() {
            why.push("no member that answered has their newest sample".into());
        }
        why.join("; ")
    }

    fn begun(&self) -> impl Iterator<Item = String> + use<'a> {
        self.read
            .young
            .iter()
            .take(NAMED)
            .map(|member| format!("member {member} may not have been told all it owns yet"))
    }

    fn silence(&self) -> Option<String> {
        let say = |(member, why): (&MemberId, &String)| format!("member {member} did not answer ({why})");
        let named: Vec<_> = self.silent.iter().take(NAMED).map(say).collect();
        let more = self.silent.len() - named.len();
        let tail = if more > 0 { format!("; nor did {more} more members") } else { String::new() };
        (!named.is_empty()).then(|| named.join("; ") + &tail)
    }
}

/// How many tasks that run by a row are neither fresh nor excused, and how many their node cannot read: of those it says so
/// in each round, and one that was not heard of for longer is not excused by another one's being unreadable.
fn lacking(row: &RowView, found: Option<&Found>) -> (u64, u64) {
    let running = row.counts.running;
    let Some(found) = found else { return (running, 0) };
    let told = found.stale.iter().filter(|q| q.abs_diff(row.version.q) <= 1).count() as u64;
    let unread = running.saturating_sub(row.counts.fresh).min(told);
    let ended = found.ended.iter().filter(|version| **version > row.version).count() as u64;
    (running.saturating_sub(found.fresh + ended + unread), unread)
}

impl Join {
    pub(super) fn is_fresh(&self, node: &KnownNode) -> bool {
        node.row.as_ref().is_some_and(|(_, seen)| seen.fresh == self.read)
    }
    fn node_label(&self, id: &NodeId) -> String {
        label(id.as_str(), self.nodes.get(id).map_or("", |node| &node.name)).into()
    }
    fn service_label(&self, id: &ServiceId) -> String {
        let row = self.rows.get(id).and_then(|of_service| of_service.values().next());
        label(id.as_str(), row.map_or("", |(row, _)| &row.meta.service_name)).into()
    }
}

pub(super) fn label<'a>(id: &'a str, name: &'a str) -> &'a str {
    if name.is_empty() { id } else { name }
}

/// A time as people read it: tenths below ten seconds.
pub(super) fn seconds(age: Millis) -> String {
    if age < 10_000 { format!("{}.{} s", age / 1000, age % 1000 / 100) } else { format!("{} s", age / 1000) }
}
