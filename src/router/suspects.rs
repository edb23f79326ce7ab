//! Members that missed a deadline: asked in the background, and waited for by nobody until they answer again.
//!
//! The question that was not answered in time stays open, so that the moment at which its member answers after all ends
//! the suspicion: the next query trusts it again. A suspect has one question open at most.

use super::{Peer, Router, lock, words};
use crate::model::MemberId;
use crate::view::{Ask, Holding};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};

/// A question in the background is given up after so many deadlines of a query, and asked anew by the next.
const PATIENCE: u32 = 10;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Suspects {
    members: Mutex<BTreeMap<MemberId, Suspect>>,
    /// Questions under way: each a task of its own, for a suspect's outlives the query that asked it.
    questions: Mutex<JoinSet<()>>,
    n_questions: AtomicU64,
}

struct Suspect {
    since: Instant,
    /// The question that is open, by its number.
    open: Option<u64>,
}

/// A question under way, given up when nobody waits for it any more.
struct Question {
    number: u64,
    task: Option<AbortHandle>,
}

impl Drop for Question {
    fn drop(&mut self) {
        self.task.iter().for_each(AbortHandle::abort);
    }
}

/// A question's end, however it comes.
struct End {
    router: Router,
    member: MemberId,
    number: u64,
    answered: bool,
}

impl Drop for End {
    fn drop(&mut self) {
        let mut members = lock(&self.router.0.suspects.members);
        if self.answered {
            members.remove(&self.member);
        } else if let Some(suspect) = members.get_mut(&self.member)
            && suspect.open == Some(self.number)
        {
            suspect.open = None;
        }
    }
}

impl Suspects {
    pub(super) fn len(&self) -> usize {
        lock(&self.members).len()
    }

    pub(super) fn retain(&self, keep: impl Fn(&MemberId) -> bool) {
        lock(&self.members).retain(|member, _| keep(member));
    }

    /// Since when a member is a suspect, and whether no question to it is open.
    fn look(&self, member: &MemberId) -> Option<(Instant, bool)> {
        lock(&self.members).get(member).map(|suspect| (suspect.since, suspect.open.is_none()))
    }

    /// A member missed a deadline: its question stays open in the background, if it is the only one.
    fn leave_open(&self, member: &MemberId, since: Instant, mut question: Question) {
        let mut members = lock(&self.members);
        let suspect = members.entry(member.clone()).or_insert(Suspect { since, open: None });
        if suspect.open.is_none() {
            suspect.open = Some(question.number);
            question.task = None;
        }
    }
}

impl Router {
    /// Asks one member; returns by `until`, and at once where the member is a suspect.
    pub(super) async fn ask_member(
        self,
        member: MemberId,
        peer: Arc<dyn Peer>,
        ask: Arc<Ask>,
        until: Instant,
    ) -> (MemberId, Result<Holding, String>) {
        let begun = Instant::now();
        let answer = match self.0.suspects.look(&member) {
            None => {
                let (question, told) = self.put(&member, peer, ask);
                match timeout_at(until, told).await {
                    Ok(Ok(answer)) => answer,
                    Ok(Err(_)) => Err("asking it failed".into()),
                    Err(_) => {
                        self.0.suspects.leave_open(&member, begun, question);
                        Err(format!("deadline {}", words(self.0.config.query_deadline)))
                    }
                }
            }
            Some((since, unasked)) => {
                if unasked {
                    let (question, _) = self.put(&member, peer, ask);
                    self.0.suspects.leave_open(&member, since, question);
                }
                Err(format!("silent for {}", words(since.elapsed())))
            }
        };
        let answer = answer.and_then(|holding| match holding.member == member {
            true => Ok(holding),
            false => Err(format!("at its address answers member {}", holding.member)),
        });
        if answer.is_err() {
            self.0.unanswered.fetch_add(1, Ordering::Relaxed);
        }
        (member, answer)
    }

    fn put(
        &self,
        member: &MemberId,
        peer: Arc<dyn Peer>,
        ask: Arc<Ask>,
    ) -> (Question, oneshot::Receiver<Result<Holding, String>>) {
        let (tell, told) = oneshot::channel();
        let number = self.0.suspects.n_questions.fetch_add(1, Ordering::Relaxed);
        let mut end = End { router: self.clone(), member: member.clone(), number, answered: false };
        let patience: Duration = self.0.config.query_deadline * PATIENCE;
        let question = async move {
            if let Ok(answer) = timeout(patience, peer.ask(ask)).await {
                // A connection that broke at last, by its keep-alive, is no sign of life.
                end.answered = answer.is_ok();
                drop(end);
                // Nobody waits any more if the query is over.
                drop(tell.send(answer));
            }
        };
        let mut questions = lock(&self.0.suspects.questions);
        while questions.try_join_next().is_some() {}
        (Question { number, task: Some(questions.spawn(question)) }, told)
    }
}
