//! The router's join (LEDGER 21): many members' holdings become one report, and what it lacks is named.
//!
//! Invariants: the order and the repetition of answers change nothing (up to [`Bounds`]); the newest version of a row
//! ever seen is what counts, so within one epoch of a node its totals never go back; a key that was not returned fresh
//! in this very read is never passed off as fresh.
//!
//! It deliberately adds nothing up (that is `figures`) and asks nobody (that is `router`). Tasks are not remembered.

mod chosen;
mod known;
mod merge;
mod report;
mod swarm;
mod told;
mod verdict;

use crate::model::{Gen, MemberId, Millis, Nanos, NodeId, ServiceId, Version};
use crate::rules::{Rule, holds};
use crate::view::{Ask, Holding, MAX_SELECTORS, NodeView, Report, RowView, Selector, TaskView};
use chosen::Choice;
use known::{KnownNode, Moment, Seen, age_at, heard_at};
use merge::merge;
pub use report::local;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use told::Told;

/// What each member said, or why it did not.
pub type Answers = Vec<(MemberId, Result<Holding, String>)>;

/// How much a [`Join`] remembers, and what it may conclude from silence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// A node without a new sample for this long is forgotten with its rows.
    pub row_keep: Millis,
    /// The most nodes; what is beyond is refused, counted and said to be missing.
    pub max_nodes: usize,
    /// The most rows, likewise; about 1 KiB each.
    pub max_rows: usize,
    /// R: as many silent members may hide something that nobody remembers; fewer cannot.
    pub replicas: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { row_keep: 24 * 3600 * 1000, max_nodes: 10_000, max_rows: 100_000, replicas: 1 }
    }
}

/// When a member answered last, whether it told what Swarm says, and which process of it that was.
struct Heard {
    at: Nanos,
    tells: bool,
    gen_: Gen,
    /// Another process of it was heard before.
    again: bool,
}

/// What one router process remembers of nodes and rows.
pub struct Join {
    bounds: Bounds,
    /// The number of the read under way.
    read: u64,
    nodes: BTreeMap<NodeId, KnownNode>,
    rows: BTreeMap<ServiceId, BTreeMap<NodeId, (RowView, Seen)>>,
    n_rows: usize,
    members: BTreeMap<MemberId, Heard>,
    /// What the bounds kept out, in all and in this read.
    refused: u64,
    refused_now: BTreeSet<&'static str>,
}

impl Join {
    /// Remembers nothing yet.
    pub fn new(bounds: Bounds) -> Join {
        Join {
            bounds,
            read: 0,
            nodes: BTreeMap::new(),
            rows: BTreeMap::new(),
            n_rows: 0,
            members: BTreeMap::new(),
            refused: 0,
            refused_now: BTreeSet::new(),
        }
    }
    /// How many nodes and rows are remembered.
    pub fn len(&self) -> (usize, usize) {
        (self.nodes.len(), self.n_rows)
    }
    /// How many node rows and rows the bounds have kept out.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The report of one read at `now`, any monotonic clock: answers of all members that were asked for `ask`. A member
    /// may occur more than once. `Report::complete` is LEDGER 21, and only ever stricter: fresh samples must cover the
    /// tasks that the rows speak of, and silence of R or more members is not taken for absence of what nobody knows.
    pub fn read(&mut self, answers: Answers, ask: &Ask, now: Nanos) -> Report {
        self.read += 1;
        self.refused_now.clear();
        if !holds(Rule::Join) {
            (self.rows, self.n_rows) = (BTreeMap::new(), 0);
        }
        self.learn(answers.iter().filter_map(|(_, answer)| answer.as_ref().ok()), now);
        let mut silent = BTreeMap::new();
        let (mut holdings, mut young, mut forgot) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for (member, answer) in answers {
            match answer {
                Ok(holding) => {
                    young.extend(holding.young.then(|| member.clone()));
                    forgot.extend(holding.forgot.then_some(member));
                    holdings.push(holding);
                }
                Err(why) => {
                    let first: &mut String = silent.entry(member).or_insert_with(|| why.clone());
                    *first = std::mem::take(first).min(why);
                }
            }
        }
        // Where a whole tier begins, nothing was forgotten.
        young.retain(|member: &MemberId| {
            !silent.is_empty() || self.members.get(member).is_some_and(|heard| heard.again)
        });
        young.append(&mut forgot);
        let told = Told::of(holdings.iter_mut(), |node| self.nodes.contains_key(node));
        let mut tasks = BTreeMap::new();
        for task in holdings.into_iter().flat_map(|holding| holding.tasks) {
            merge(&mut tasks, task);
        }
        for task in tasks.values_mut() {
            let too_many = task.points.len().saturating_sub(ask.points);
            task.points.drain(..too_many);
        }
        let mut void = BTreeSet::new();
        tasks.retain(|_, task: &mut TaskView| {
            task.fresh &= !task.ended;
            let counts = |node: &KnownNode, epoch| epoch == node.epoch || epoch > node.epoch.max(node.void);
            let counts = self.nodes.get(&task.meta.node_id).is_none_or(|node| counts(node, task.version.epoch));
            if !counts && !task.ended {
                void.insert(task.meta.task_id.clone());
            }
            counts
        });
        self.report(tasks, &void, (&silent, &young), &told, ask, now)
    }

    /// Service ids that nodes list, which `ask` may mean by name or stack and whose names are not known here: whoever asks
    /// the members for [`rows_of`] these makes them known. Usually none. `answers` are those of the read under way.
    pub fn unnamed<'a>(
        &mut self,
        answers: impl Iterator<Item = &'a Holding> + Clone,
        ask: &Ask,
        now: Nanos,
    ) -> BTreeSet<ServiceId> {
        let wide = || ask.selectors.iter().filter(|selector| selector.task.is_none());
        if !wide().any(|selector| selector.stack.is_some() || selector.service.is_some()) {
            return BTreeSet::new();
        }
        self.learn(answers, now);
        let is_name = |text: &str| !self.is_service_id(text);
        if wide().any(|selector| selector.stack.is_some() || selector.service.as_deref().is_some_and(is_name)) {
            self.listed().filter(|id| !self.rows.contains_key(*id)).cloned().collect()
        } else {
            BTreeSet::new()
        }
    }

    /// Those of these members that tell what Swarm says; `None` unless each of them was heard once.
    pub fn tellers(&self, members: &BTreeSet<MemberId>) -> Option<BTreeSet<MemberId>> {
        let heard: Option<Vec<_>> = members.iter().map(|member| Some((member, self.members.get(member)?))).collect();
        Some(heard?.into_iter().filter(|(_, heard)| heard.tells).map(|(member, _)| member.clone()).collect())
    }

    /// The services that nodes have rows of, repeated for each node.
    fn listed(&self) -> impl Iterator<Item = &ServiceId> {
        self.nodes.values().filter_map(|node| node.row.as_ref()).flat_map(|(row, _)| &row.meta.services)
    }
    fn is_service_id(&self, text: &str) -> bool {
        self.rows.contains_key(text) || self.listed().any(|id| id.as_str() == text)
    }

    /// The remembered rows that some choice takes.
    fn rows_taken<'a>(&'a self, choices: &'a [Choice<'a>]) -> impl Iterator<Item = &'a (RowView, Seen)> {
        let services = self.rows.iter().filter(|(id, of_service)| {
            // A service has one name and one stack on all nodes: most are passed over at once.
            let meta = of_service.values().next().map(|(row, _)| &*row.meta);
            choices.iter().any(|choice| choice.takes_service(id, meta))
        });
        let rows = services.flat_map(|(_, of_service)| of_service.values());
        rows.filter(|(row, _)| choices.iter().any(|choice| choice.takes_row(&row.meta)))
    }

    /// Takes up the rows and node rows of answers; doing it twice changes nothing.
    fn learn<'a>(&mut self, holdings: impl Iterator<Item = &'a Holding> + Clone, now: Nanos) {
        let mut changed = BTreeSet::new();
        for holding in holdings.clone() {
            let tells = holding.swarm.is_some();
            let gen_ = holding.gen_;
            let first = Heard { at: now, tells, gen_, again: false };
            let heard = self.members.entry(holding.member.clone()).or_insert(first);
            // More than one answer to one read may come from a member.
            let (tells, again) = (tells || (heard.at == now && heard.tells), heard.again || heard.gen_ != gen_);
            *heard = Heard { at: now, tells, gen_, again };
            for node in &holding.nodes {
                self.take_node(node, now, &mut changed);
            }
            // Epochs come before rows: what a newer one voids must not depend on the order of answers.
            for row in &holding.rows {
                let heard = heard_at(now, row.age);
                self.admit(&row.meta.node_id, &row.meta.node_name, row.version, heard, now, &mut changed);
            }
            for task in holding.tasks.iter().filter(|task| !task.ended) {
                let heard = heard_at(now, task.age);
                self.admit(&task.meta.node_id, &task.meta.node_name, task.version, heard, now, &mut changed);
            }
        }
        self.turn_back(holdings.clone(), now, &mut changed);
        self.forget(now, &mut changed);
        self.sweep(&changed);
        for row in holdings.flat_map(|holding| &holding.rows) {
            self.take_row(row, now);
        }
    }

    /// The node that something of this version came from; `None` if that is void by now (by a newer epoch, or older
    /// than `row_keep`) or beyond the bounds.
    fn admit(
        &mut self,
        id: &NodeId,
        name: &Arc<str>,
        version: Version,
        heard: Moment,
        now: Nanos,
        changed: &mut BTreeSet<NodeId>,
    ) -> Option<&mut KnownNode> {
        if age_at(now, heard) > self.bounds.row_keep {
            return None;
        }
        if !self.nodes.contains_key(id) {
            if self.nodes.len() >= self.bounds.max_nodes {
                self.refused += 1;
                self.refused_now.insert("nodes");
                return None;
            }
            self.nodes.insert(id.clone(), KnownNode::new(version.epoch, name, heard));
        }
        let node = self.nodes.get_mut(id)?;
        if version.epoch > node.epoch.max(node.void) {
            node.turn(version.epoch, name, heard);
            changed.insert(id.clone());
        }
        if version.epoch != node.epoch {
            return None;
        }
        node.heard = node.heard.max(heard);
        Some(node)
    }

    /// A shipper whose clock was set back may have a lower epoch than the one before it, until somebody tells it; if all
    /// who could are gone, that is never. Only a living shipper's row is fresh: one read later than anything of the
    /// epoch that counts is its successor's.
    fn turn_back<'a>(
        &mut self,
        holdings: impl Iterator<Item = &'a Holding> + Clone,
        now: Nanos,
        changed: &mut BTreeSet<NodeId>,
    ) {
        let mut successors: BTreeMap<&NodeId, (Moment, u64, &Arc<str>)> = BTreeMap::new();
        for view in holdings.clone().flat_map(|holding| &holding.nodes).filter(|view| view.fresh) {
            let heard = heard_at(now, view.age);
            let later = |node: &KnownNode| node.epoch != view.version.epoch && node.heard < heard;
            if self.nodes.get(&view.meta.node_id).is_some_and(later) {
                let new = (heard, view.version.epoch, &view.meta.node_name);
                let best = successors.entry(&view.meta.node_id).or_insert(new);
                *best = new.max(*best);
            }
        }
        for (id, (heard, epoch, name)) in &successors {
            if let Some(node) = self.nodes.get_mut(*id) {
                node.turn(*epoch, name, *heard);
                changed.insert((*id).clone());
            }
        }
        let nodes = holdings.flat_map(|holding| &holding.nodes);
        for view in nodes.filter(|view| successors.contains_key(&view.meta.node_id)) {
            self.take_node(view, now, changed);
        }
    }

    fn take_node(&mut self, view: &NodeView, now: Nanos, changed: &mut BTreeSet<NodeId>) {
        let (read, heard) = (self.read, heard_at(now, view.age));
        let meta = &view.meta;
        let Some(node) = self.admit(&meta.node_id, &meta.node_name, view.version, heard, now, changed) else { return };
        match &mut node.row {
            Some((known, seen)) => {
                seen.note(read, view.fresh, heard);
                if view.version > known.version {
                    if node.ahead || known.meta.services != meta.services {
                        changed.insert(meta.node_id.clone());
                    }
                    *known = view.clone();
                    node.name = meta.node_name.clone();
                } else if view.version == known.version && known.previous.is_none() {
                    known.previous.clone_from(&view.previous);
                }
            }
            None => {
                node.row = Some((view.clone(), Seen::new(read, view.fresh, heard)));
                changed.insert(meta.node_id.clone());
            }
        }
    }

    fn take_row(&mut self, view: &RowView, now: Nanos) {
        let (read, heard) = (self.read, heard_at(now, view.age));
        if age_at(now, heard) > self.bounds.row_keep {
            return;
        }
        let meta = &view.meta;
        let Some(node) = self.nodes.get_mut(&meta.node_id).filter(|node| node.epoch == view.version.epoch) else {
            return;
        };
        let of_service = self.rows.entry(meta.service_id.clone()).or_default();
        match of_service.get_mut(&meta.node_id) {
            Some((known, _)) if view.version < known.version && !node.keeps(view) => {}
            Some((known, seen)) => {
                seen.note(read, view.fresh, heard);
                if view.version > known.version {
                    *known = view.clone();
                }
            }
            None if !node.keeps(view) => {}
            None if self.n_rows >= self.bounds.max_rows => {
                self.refused += 1;
                self.refused_now.insert("rows");
            }
            None => {
                node.ahead |= !node.lists(&meta.service_id);
                of_service.insert(meta.node_id.clone(), (view.clone(), Seen::new(read, view.fresh, heard)));
                self.n_rows += 1;
            }
        }
        if of_service.is_empty() {
            self.rows.remove(&meta.service_id);
        }
    }

    /// Lets go of nodes and members that were silent for `row_keep`.
    fn forget(&mut self, now: Nanos, changed: &mut BTreeSet<NodeId>) {
        let keep = self.bounds.row_keep;
        self.nodes.retain(|id, node| {
            let keeps = age_at(now, node.heard) <= keep;
            if !keeps {
                changed.insert(id.clone());
            }
            keeps
        });
        self.members.retain(|_, heard| age_at(now, Moment::from(heard.at)) <= keep);
    }

    /// Lets go of rows that a change of their node voided.
    fn sweep(&mut self, changed: &BTreeSet<NodeId>) {
        if changed.is_empty() {
            return;
        }
        let mut ahead = BTreeSet::new();
        self.rows.retain(|_, of_service| {
            of_service.retain(|id, (row, _)| {
                let node = self.nodes.get(id).filter(|_| changed.contains(id));
                if node.is_some_and(|node| node.keeps(row) && !node.lists(&row.meta.service_id)) {
                    ahead.insert(id.clone());
                }
                !changed.contains(id) || node.is_some_and(|node| node.keeps(row))
            });
            !of_service.is_empty()
        });
        self.n_rows = self.rows.values().map(BTreeMap::len).sum();
        for id in changed {
            if let Some(node) = self.nodes.get_mut(id) {
                node.ahead = ahead.contains(id);
            }
        }
    }
}

/// A question for the rows of these services, or of all where they are many, and for no task: no container has a label
/// without a name.
pub fn rows_of(services: &BTreeSet<ServiceId>) -> Ask {
    let no_task = Selector { labels: [("".into(), "".into())].into(), ..Selector::default() };
    let selectors = if services.len() > MAX_SELECTORS {
        vec![Selector { all: true, ..no_task }]
    } else {
        services.iter().map(|id| Selector { service: Some(id.as_str().into()), ..no_task.clone() }).collect()
    };
    Ask::of(selectors)
}
