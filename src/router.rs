//! The router: asks the members that may know, joins what they say, and answers by its deadline.
//!
//! A role, not a daemon: every collector has one, a shipper has one without peers for its own node. It opens no
//! connections: whoever embeds it hands it [`Peer`]s by a [`View`] and its own [`Store`].
//!
//! Invariants: a query ends within its deadline, whatever members do; a member that was not heard is named in the
//! answer; at most `max_queries` run at once, and a member that missed a deadline has at most one question of queries open (who
//! looks at the ring asks suspects as well).
//! It deliberately spawns nothing that outlives it, and keeps no samples: what it remembers is `join`'s.

mod fan;
mod members;
mod standings;
mod suspects;

use crate::discovery::Identity;
use crate::join::{Answers, Bounds, Join, local, rows_of};
use crate::model::{Key, MemberId, Nanos, RingId, TaskId};
use crate::shard::{Member, Ring};
use crate::view::{Ask, AskError, Holding, Missing, Report, Scope};
use fan::{Fan, owners_of_tasks};
use standings::Standings;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use suspects::Suspects;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

/// What this process holds itself.
pub trait Store: Send + Sync {
    /// Answers at once.
    fn hold(&self, ask: &Ask) -> Holding;
}

/// An answer under way; dropping it gives up.
pub type Asking<T = Holding> = Pin<Box<dyn Future<Output = Result<T, String>> + Send>>;

/// Another member.
pub trait Peer: Send + Sync {
    /// Asks it for what it holds itself; an error is the reason, in words for people. It may take for ever.
    fn ask(&self, ask: Arc<Ask>) -> Asking;
    /// Asks it who it is and how; by its own deadline, as above.
    fn identify(&self) -> Asking<Identity> {
        Box::pin(std::future::ready(Err("it cannot be asked who it is".into())))
    }
    /// Asks it for the membership as it sees it.
    fn membership(&self) -> Asking<Membership> {
        Box::pin(std::future::ready(Err("it cannot be asked for its members".into())))
    }
}

/// The membership as one process sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Membership {
    /// Who says so, where it tells.
    pub member: Option<MemberId>,
    /// Its ring.
    pub ring_id: RingId,
    /// Its R.
    pub replicas: u32,
    /// Its members with their addresses.
    pub members: Vec<(Member, String)>,
}

/// The membership as this process knows it.
#[derive(Clone, Default)]
pub struct View {
    /// Who owns what; `None` before discovery, and where there are no collectors.
    pub ring: Option<Arc<Ring>>,
    /// There are collectors, and none is known yet: no answer is complete.
    pub awaited: bool,
    /// What is wrong with the source of the membership, so that this may be an old one.
    pub trouble: Option<String>,
    /// Where members are.
    pub addresses: BTreeMap<MemberId, String>,
    /// How to ask the others.
    pub peers: BTreeMap<MemberId, Arc<dyn Peer>>,
}

/// A router's bounds and deadlines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouterConfig {
    /// Of a whole query.
    pub query_deadline: Duration,
    /// The most queries at once; more are refused.
    pub max_queries: usize,
    /// Whether it answers for the whole cluster, or (without the router role) only for what this process holds.
    pub cluster: bool,
    /// Of what is remembered.
    pub bounds: Bounds,
}

impl Default for RouterConfig {
    fn default() -> Self {
        RouterConfig {
            query_deadline: Duration::from_secs(1),
            max_queries: 64,
            cluster: true,
            bounds: Bounds::default(),
        }
    }
}

/// Why there is no answer at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The question is none.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// As many queries as allowed are under way.
    #[error("{0} queries are under way, more are refused (max_queries): try again")]
    Busy(usize),
    /// A question for the whole cluster to a process without the router role.
    #[error("this process has no router role: ask one that has, or with scope=local")]
    NotARouter,
    /// `scope: local` to a process that holds nothing.
    #[error("this process holds no figures itself: ask without scope=local")]
    HoldsNothing,
}

/// What a router did since it was made, for its metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RouterCounts {
    /// Queries answered.
    pub queries: u64,
    /// Of those, the ones that could not be complete.
    pub incomplete: u64,
    /// Queries refused because too many were under way.
    pub refused: u64,
    /// Questions to members that got no answer.
    pub unanswered: u64,
    /// Answers from members with another ring than this process.
    pub other_rings: u64,
    /// Rows and node rows that [`Bounds`] kept out.
    pub rows_refused: u64,
    /// Nodes remembered.
    pub nodes: usize,
    /// Rows remembered.
    pub rows: usize,
    /// Members that missed their last deadline.
    pub suspected: usize,
}

/// Cheap to clone; all clones are one router.
#[derive(Clone)]
pub struct Router(Arc<Inner>);

struct Inner {
    config: RouterConfig,
    own: Option<(MemberId, Arc<dyn Store>)>,
    view: watch::Receiver<Arc<View>>,
    /// Moments on the join's clock are counted from here.
    started: Instant,
    join: Mutex<Join>,
    slots: Semaphore,
    suspects: Suspects,
    standings: Mutex<Standings>,
    queries: AtomicU64,
    incomplete: AtomicU64,
    refused: AtomicU64,
    unanswered: AtomicU64,
    /// Whoever has to act on it follows it.
    other_rings: watch::Sender<u64>,
}

/// Short sections only, never held across an await; what a panic left behind is still consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Router {
    /// A router with its own store, under its member's name, or without one. Peers come with the view; the own member is
    /// none of them.
    pub fn new(
        config: RouterConfig,
        own: Option<(MemberId, Arc<dyn Store>)>,
        view: watch::Receiver<Arc<View>>,
    ) -> Router {
        Router(Arc::new(Inner {
            config,
            own,
            view,
            started: Instant::now(),
            join: Mutex::new(Join::new(config.bounds)),
            slots: Semaphore::new(config.max_queries),
            suspects: Suspects::default(),
            standings: Mutex::default(),
            queries: AtomicU64::new(0),
            incomplete: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
            other_rings: watch::Sender::new(0),
        }))
    }

    /// Answers a question, within `query_deadline`.
    pub async fn query(&self, ask: Ask, scope: Scope) -> Result<Report, QueryError> {
        self.answer(ask, scope, |report| report).await
    }

    /// Answers a question with what `make` makes of the report, which counts as part of the query: as many at once as
    /// queries.
    pub async fn answer<T>(&self, ask: Ask, scope: Scope, make: impl FnOnce(Report) -> T) -> Result<T, QueryError> {
        let _slot = match self.0.slots.try_acquire() {
            Ok(slot) => slot,
            Err(_) => {
                self.0.refused.fetch_add(1, Ordering::Relaxed);
                return Err(QueryError::Busy(self.0.config.max_queries));
            }
        };
        ask.check()?;
        let report = match scope {
            Scope::Local => local(self.hold(&ask)?, &ask),
            Scope::Cluster if !self.0.config.cluster => return Err(QueryError::NotARouter),
            Scope::Cluster => self.ask_cluster(Ask { texts: ask.texts_between(), ..ask }).await,
        };
        self.0.queries.fetch_add(1, Ordering::Relaxed);
        self.0.incomplete.fetch_add((!report.complete).into(), Ordering::Relaxed);
        Ok(make(report))
    }

    /// What this process holds itself.
    pub fn hold(&self, ask: &Ask) -> Result<Holding, QueryError> {
        let (_, store) = self.0.own.as_ref().ok_or(QueryError::HoldsNothing)?;
        Ok(store.hold(ask))
    }

    /// The membership as it is now.
    pub fn view(&self) -> Arc<View> {
        self.0.view.borrow().clone()
    }

    /// The ring's owners of a task, the primary first; none without a ring.
    pub fn owners(&self, view: &View, task: &TaskId) -> Vec<MemberId> {
        view.ring.as_ref().map_or_else(Vec::new, |ring| ring.owners(&Key::Task(task.clone())).cloned().collect())
    }

    /// What it did so far.
    pub fn counts(&self) -> RouterCounts {
        let inner = &self.0;
        let ((nodes, rows), rows_refused) = {
            let join = lock(&inner.join);
            (join.len(), join.refused())
        };
        RouterCounts {
            queries: inner.queries.load(Ordering::Relaxed),
            incomplete: inner.incomplete.load(Ordering::Relaxed),
            refused: inner.refused.load(Ordering::Relaxed),
            unanswered: inner.unanswered.load(Ordering::Relaxed),
            other_rings: *inner.other_rings.borrow(),
            rows_refused,
            nodes,
            rows,
            suspected: inner.suspects.len(),
        }
    }

    /// Follows [`RouterCounts::other_rings`].
    pub fn other_rings(&self) -> watch::Receiver<u64> {
        self.0.other_rings.subscribe()
    }

    async fn ask_cluster(&self, ask: Ask) -> Report {
        let view = self.view();
        self.0.suspects.retain(|member| view.peers.contains_key(member));
        let (begun, deadline) = (Instant::now(), self.0.config.query_deadline);
        let ask = Arc::new(ask);
        let mut fan = Fan::new(self, &view, ask.clone(), begun + deadline);
        // Who tells what Swarm says must be known: an answer shall not depend on who is asked for it.
        let tellers = lock(&self.0.join).tellers(&fan.everybody());
        if let Some((owners, tellers)) = owners_of_tasks(&view, &ask).zip(tellers) {
            // One fresh copy of each task will do: whoever is slow or frozen beside it is not waited for.
            fan.ask(owners);
            fan.ask(tellers.clone());
            fan.collect_until(begun + deadline / 4, |fan| fan.has_every_task() && fan.has_answers_of(&tellers)).await;
            if fan.has_every_task() {
                // Figures are of the tasks' nodes, too.
                fan.ask(fan.owners_of_nodes());
                fan.collect_until(begun + deadline / 2, |fan| fan.is_whole(&tellers)).await;
            }
            if fan.has_every_task() && fan.is_whole(&tellers) {
                return lock(&self.0.join).read(fan.finish_heard(), &ask, self.now());
            }
        }
        fan.ask_all();
        // Who has not answered by half of the time shall not keep the others from telling names.
        fan.collect(Some(begun + deadline / 2)).await;
        let unnamed = lock(&self.0.join).unnamed(fan.holdings(), &ask, self.now());
        let mut names = Fan::new(self, &view, Arc::new(rows_of(&unnamed)), begun + deadline);
        if !unnamed.is_empty() {
            names.ask(fan.answered());
        }
        tokio::join!(fan.collect(None), names.collect(None));
        let mut answers = fan.finish();
        answers.extend(without_swarm(names.finish()));
        let mut report = lock(&self.0.join).read(answers, &ask, self.now());
        if view.awaited {
            let why = "no member of the ring is known yet: see `members` in the config, and /readyz";
            report.missing.push(Missing { what: "every collector".into(), why: why.into() });
            report.complete = false;
        }
        report
    }

    fn now(&self) -> Nanos {
        Nanos::try_from(self.0.started.elapsed().as_nanos()).unwrap_or(Nanos::MAX)
    }
}

/// Answers without what Swarm says: it is narrowed to another question.
fn without_swarm(mut answers: Answers) -> Answers {
    answers.iter_mut().filter_map(|(_, answer)| answer.as_mut().ok()).for_each(|holding| holding.swarm = None);
    answers
}

/// A time for people: whole seconds, or milliseconds below one.
fn words(time: Duration) -> String {
    // The few microseconds between two clock readings are not worth a word.
    let millis = (time.as_micros() + 500) / 1000;
    if millis < 1000 { format!("{millis} ms") } else { format!("{} s", (millis + 50) / 1000) }
}
