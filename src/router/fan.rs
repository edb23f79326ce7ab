//! One question to many members: who is asked, and what came back by when.
//!
//! A member that says nothing is an answer too: its silence, with the time it was waited for.

use super::{Router, View, words};
use crate::join::Answers;
use crate::model::{Key, MemberId, TaskId};
use crate::view::{Ask, Holding};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// The members that should hold the tasks asked for, with the reserve, if the question is for tasks by id alone.
pub(super) fn likely_owners(view: &View, ask: &Ask) -> Option<BTreeSet<MemberId>> {
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
    pub(super) fn ask_all(&mut self) {
        let ring = self.view.ring.as_ref().map_or(&[][..], |ring| ring.members());
        let own = self.router.0.own.as_ref().map(|(member, _)| member);
        let members = self.view.peers.keys().chain(ring.iter().map(|member| &member.id)).chain(own);
        self.ask(members.cloned().collect());
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
        loop {
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

    pub(super) fn finish(self) -> Answers {
        let silence = || format!("no answer within {}", words(self.begun.elapsed()));
        if let Some(ring) = &self.view.ring {
            let others = self.holdings().filter(|holding| holding.ring_id != ring.id()).count();
            if others > 0 {
                self.router.0.other_rings.send_modify(|count| *count += others as u64);
            }
        }
        let answers = self.answers.into_iter();
        answers.map(|(member, answer)| (member, answer.unwrap_or_else(|| Err(silence())))).collect()
    }
}
