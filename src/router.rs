//! The router: asks the members that may know, joins what they say, and answers by its deadline.
//!
//! A role, not a daemon: every collector has one, a shipper has one without peers for its own node. It opens no
//! connections: whoever embeds it hands it [`Peer`]s by a [`View`] and its own [`Store`].
//!
//! Invariants: a query ends within its deadline, whatever members do; a member that was not heard is named in the
//! answer; at most `max_queries` run at once, and a member that missed a deadline has at most one question open.
//! It deliberately spawns nothing that outlives it, and keeps no samples: what it remembers is `join`'s.

mod fan;

use crate::join::{Bounds, Join, local, rows_of};
use crate::model::{Key, MemberId, Nanos, TaskId};
use crate::shard::Ring;
use crate::view::{Ask, AskError, Holding, Report, Scope};
use fan::{Fan, likely_owners};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

/// What this process holds itself.
pub trait Store: Send + Sync {
    /// Answers at once.
    fn hold(&self, ask: &Ask) -> Holding;
}

/// An answer under way; dropping it gives up.
pub type Asking = Pin<Box<dyn Future<Output = Result<Holding, String>> + Send>>;

/// Another member.
pub trait Peer: Send + Sync {
    /// Asks it for what it holds itself; an error is the reason, in words for people. It may take for ever.
    fn ask(&self, ask: Arc<Ask>) -> Asking;
}

/// The membership as this process knows it.
#[derive(Clone, Default)]
pub struct View {
    /// Who owns what; `None` before discovery, and where there are no collectors.
    pub ring: Option<Arc<Ring>>,
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
    /// How long to wait for a member that missed its last deadline.
    pub suspect_wait: Duration,
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
            suspect_wait: Duration::from_millis(50),
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
    suspects: Mutex<BTreeMap<MemberId, Suspect>>,
    /// Questions to suspects, which outlive the query that asked them.
    background: Mutex<JoinSet<()>>,
    queries: AtomicU64,
    incomplete: AtomicU64,
    refused: AtomicU64,
    unanswered: AtomicU64,
    /// Whoever has to act on it follows it.
    other_rings: watch::Sender<u64>,
}

/// A member that missed a deadline and was not heard since.
struct Suspect {
    since: Instant,
    asked: bool,
}

/// A question to a suspect that is under way; however it ends, the next may be asked then.
struct Open {
    router: Router,
    member: MemberId,
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(suspect) = lock(&self.router.0.suspects).get_mut(&self.member) {
            suspect.asked = false;
        }
    }
}

/// How far a member is trusted to answer.
enum Trust {
    Full,
    /// Ask it, but do not wait long.
    Little,
    /// A question is open already.
    None(Instant),
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
            suspects: Mutex::default(),
            background: Mutex::default(),
            queries: AtomicU64::new(0),
            incomplete: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
            other_rings: watch::Sender::new(0),
        }))
    }

    /// Answers a question, within `query_deadline`.
    pub async fn query(&self, ask: Ask, scope: Scope) -> Result<Report, QueryError> {
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
            Scope::Cluster => self.ask_cluster(ask).await,
        };
        self.0.queries.fetch_add(1, Ordering::Relaxed);
        self.0.incomplete.fetch_add((!report.complete).into(), Ordering::Relaxed);
        Ok(report)
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
            suspected: lock(&inner.suspects).len(),
        }
    }

    /// Follows [`RouterCounts::other_rings`].
    pub fn other_rings(&self) -> watch::Receiver<u64> {
        self.0.other_rings.subscribe()
    }

    async fn ask_cluster(&self, ask: Ask) -> Report {
        let view = self.view();
        lock(&self.0.suspects).retain(|member, _| view.peers.contains_key(member));
        let (begun, deadline) = (Instant::now(), self.0.config.query_deadline);
        let ask = Arc::new(ask);
        let mut fan = Fan::new(self, &view, ask.clone(), begun + deadline);
        if let Some(owners) = likely_owners(&view, &ask) {
            fan.ask(owners);
            fan.collect(Some(begun + deadline / 4)).await;
            if fan.has_every_task() {
                return lock(&self.0.join).read(fan.finish(), &ask, self.now());
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
        answers.extend(names.finish());
        lock(&self.0.join).read(answers, &ask, self.now())
    }

    fn now(&self) -> Nanos {
        Nanos::try_from(self.0.started.elapsed().as_nanos()).unwrap_or(Nanos::MAX)
    }

    /// Asks one member; returns by `until`.
    async fn ask_member(
        self,
        member: MemberId,
        peer: Arc<dyn Peer>,
        ask: Arc<Ask>,
        until: Instant,
    ) -> (MemberId, Result<Holding, String>) {
        let (begun, deadline) = (Instant::now(), self.0.config.query_deadline);
        let answer = match self.trust(&member) {
            Trust::Full => match timeout_at(until, peer.ask(ask)).await {
                Ok(answer) => answer,
                Err(_) => {
                    lock(&self.0.suspects).entry(member.clone()).or_insert(Suspect { since: begun, asked: false });
                    Err(format!("deadline {}", words(deadline)))
                }
            },
            Trust::Little => self.ask_suspect(&member, peer, ask, until).await,
            Trust::None(since) => Err(format!("silent for {}", words(since.elapsed()))),
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

    fn trust(&self, member: &MemberId) -> Trust {
        match lock(&self.0.suspects).get_mut(member) {
            None => Trust::Full,
            Some(suspect) if suspect.asked => Trust::None(suspect.since),
            Some(suspect) => {
                suspect.asked = true;
                Trust::Little
            }
        }
    }

    /// Asks in the background, waiting for a moment only; an answer at any time within a deadline ends the suspicion.
    async fn ask_suspect(
        &self,
        member: &MemberId,
        peer: Arc<dyn Peer>,
        ask: Arc<Ask>,
        until: Instant,
    ) -> Result<Holding, String> {
        let (tell, told) = oneshot::channel();
        let deadline = self.0.config.query_deadline;
        let open = Open { router: self.clone(), member: member.clone() };
        let question = async move {
            let answer = timeout(deadline, peer.ask(ask)).await;
            if answer.is_ok() {
                lock(&open.router.0.suspects).remove(&open.member);
            }
            // Nobody waits any more if the query is over.
            drop(tell.send(answer));
        };
        {
            let mut background = lock(&self.0.background);
            while background.try_join_next().is_some() {}
            background.spawn(question);
        }
        match timeout_at(until.min(Instant::now() + self.0.config.suspect_wait), told).await {
            Ok(Ok(Ok(answer))) => answer,
            _ => {
                let since = lock(&self.0.suspects).get(member).map(|suspect| suspect.since.elapsed());
                Err(format!("silent for {}", words(since.unwrap_or_default())))
            }
        }
    }
}

/// A time for people: whole seconds, or milliseconds below one.
fn words(time: Duration) -> String {
    // The few microseconds between two clock readings are not worth a word.
    let millis = (time.as_micros() + 500) / 1000;
    if millis < 1000 { format!("{millis} ms") } else { format!("{} s", (millis + 50) / 1000) }
}
