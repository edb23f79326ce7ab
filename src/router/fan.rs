//! One question to many members: who is asked, and what came back by when.
//!
//! A member that says nothing is an answer too: its silence, with the time it was waited for.

use super::{Router, View, words};
use crate::join::Answers;
use crate::model::{Key, MemberId, NodeId, TaskId};
use crate::shard::Ring;
use crate::view::{Ask, Holding};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// The members that should hold the tasks asked for, with the reserve, if the question is for tasks by id alone.
pub(super) fn owners_of_tasks(view: &View, ask: &Ask) -> Option<BTreeSet<MemberId>> {
    let ring = view.ring.as_ref()?;
    let ids: Option<Vec<TaskId>> =
        ask.selectors.iter().map(|selector| TaskId::new(selector.task.as_deref()?).ok()).collect();
    Some(ids?.into_iter().flat_map(|id| ring.owners_and_reserve(&Key::Task(id)).cloned().collect::<Vec<_>>()).collect())
}

/// One question to many members.
pub(super) struct Fan<'a> {
    router: &'a Router,
    view: &'a View,
    ask: Arc<Ask>,
    begun: Instant,
    until: Instant,
    asks: JoinSet<(MemberId, Result<Holding, String>)>,
    /// Of every member asked; `None` as long as it says nothing.
    answers: BTreeMap<MemberId, Option<Result<Holding, String>>>,
}

impl<'a> Fan<'a> {
    pub(super) fn new(router: &'a Router, view: &'a View, ask: Arc<Ask>, until: Instant) -> Fan<'a> {
        let begun = Instant::now();
        Fan { router, view, ask, begun, until, asks: JoinSet::new(), answers: BTreeMap::new() }
    }

    /// Every peer, every other member of the ring, and this process.
    pub(super) fn everybody(&self) -> BTreeSet<MemberId> {
        let ring = self.view.ring.as_ref().map_or(&[][..], |ring| ring.members());
        let own = self.router.0.own.as_ref().map(|(member, _)| member);
        let members = self.view.peers.keys().chain(ring.iter().map(|member| &member.id)).chain(own);
        members.cloned().collect()
    }

    pub(super) fn ask_all(&mut self) {
        self.ask(self.everybody());
    }

    /// The members that should hold the rows of the nodes whose tasks were found, with the reserve.
    pub(super) fn owners_of_nodes(&self) -> BTreeSet<MemberId> {
        let tasks = self.holdings().flat_map(|holding| &holding.tasks);
        let nodes: BTreeSet<&NodeId> = tasks.map(|task| &task.meta.node_id).collect();
        let owners = |(ring, node): (&Arc<Ring>, &NodeId)| {
            ring.owners_and_reserve(&Key::Node(node.clone())).cloned().collect::<Vec<_>>()
        };
        nodes.into_iter().filter_map(|node| Some((self.view.ring.as_ref()?, node))).flat_map(owners).collect()
    }

    /// Whether these have answered, and the rows of the nodes whose tasks were found are there, fresh.
    pub(super) fn is_whole(&self, tellers: &BTreeSet<MemberId>) -> bool {
        let rows = self.holdings().flat_map(|holding| &holding.nodes).filter(|node| node.fresh);
        let nodes: BTreeSet<&NodeId> = rows.map(|node| &node.meta.node_id).collect();
        let mut tasks = self.holdings().flat_map(|holding| &holding.tasks);
        tasks.all(|task| nodes.contains(&task.meta.node_id)) && self.has_answers_of(tellers)
    }

    /// Whether each of these that was asked has answered, or will not in time.
    pub(super) fn has_answers_of(&self, members: &BTreeSet<MemberId>) -> bool {
        members.iter().all(|member| !matches!(self.answers.get(member), Some(None)))
    }

    pub(super) fn ask(&mut self, members: BTreeSet<MemberId>) {
        let own = self.router.0.own.as_ref();
        let new = |member: &MemberId| !self.answers.contains_key(member);
        for member in members.into_iter().filter(new).collect::<Vec<_>>() {
            let answer = match self.view.peers.get(&member) {
                _ if own.is_some_and(|(own, _)| *own == member) => None,
                Some(peer) => {
                    let router = self.router.clone();
                    self.asks.spawn(router.ask_member(member.clone(), peer.clone(), self.ask.clone(), self.until));
                    None
                }
                None => Some(Err("its address is not known".into())),
            };
            self.answers.insert(member, answer);
        }
        // Last, so that the others are at work meanwhile.
        if let Some((member, store)) = own
            && let Some(answer @ None) = self.answers.get_mut(member)
        {
            *answer = Some(Ok(store.hold(&self.ask)));
        }
    }

    /// Takes up answers until all are there or the moment has come; each question ends by the deadline itself.
    pub(super) async fn collect(&mut self, until: Option<Instant>) {
        self.take_up(until, |_| false).await;
    }

    /// The same until there is enough.
    pub(super) async fn collect_until(&mut self, until: Instant, enough: impl Fn(&Fan<'_>) -> bool) {
        self.take_up(Some(until), enough).await;
    }

    async fn take_up(&mut self, until: Option<Instant>, enough: impl Fn(&Fan<'_>) -> bool) {
        while !enough(self) {
            let next = match until {
                Some(until) => timeout_at(until, self.asks.join_next()).await,
                None => Ok(self.asks.join_next().await),
            };
            match next {
                Ok(Some(Ok((member, answer)))) => drop(self.answers.insert(member, Some(answer))),
                // A panic in a peer is its silence.
                Ok(Some(Err(_))) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    pub(super) fn holdings(&self) -> impl Iterator<Item = &Holding> + Clone {
        self.answers.values().flatten().flatten()
    }

    pub(super) fn answered(&self) -> BTreeSet<MemberId> {
        let answered =
            |(member, answer): (&MemberId, &Option<_>)| matches!(answer, Some(Ok(_))).then(|| member.clone());
        self.answers.iter().filter_map(answered).collect()
    }

    /// Whether each task asked for by its id was found, and fresh.
    pub(super) fn has_every_task(&self) -> bool {
        let fresh: BTreeSet<&str> = self
            .holdings()
            .flat_map(|holding| holding.tasks.iter().filter(|task| task.fresh).map(|task| task.meta.task_id.as_str()))
            .collect();
        self.ask.selectors.iter().all(|selector| selector.task.as_deref().is_some_and(|id| fresh.contains(id)))
    }

    /// The answers that are there, where nobody else is needed.
    pub(super) fn finish_heard(mut self) -> Answers {
        self.answers.retain(|_, answer| answer.is_some());
        self.finish()
    }

    pub(super) fn finish(self) -> Answers {
        let silence = || format!("no answer within {}", words(self.begun.elapsed()));
        if let Some(ring) = &self.view.ring {
            let others = self.holdings().filter(|holding| holding.ring_id.contradicts(ring.id())).count();
            if others > 0 {
                self.router.0.other_rings.send_modify(|count| *count += others as u64);
            }
        }
        let answers = self.answers.into_iter();
        answers.map(|(member, answer)| (member, answer.unwrap_or_else(|| Err(silence())))).collect()
    }
}
