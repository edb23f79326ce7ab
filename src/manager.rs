//! Swarm's own truth, kept by one lister: a manager's engine is asked every few seconds, and when a service or node
//! changed; never because of a query.
//!
//! Invariants: a list counts only whole; what cannot be listed leaves the list before as it is, and that grows old; each
//! kind of trouble is said once. It deliberately asks one engine, and concludes nothing (that is `join`).

use crate::clock;
use crate::metrics::SwarmMetrics;
use crate::model::{Millis, Nanos};
use crate::retry::Retry;
use crate::source::engine::{Engine, Error, Events};
use crate::swarm::{Answers, Limits, List, ReadError, Swarm};
use crate::view::Ask;
use hyper::body::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// Between two lists, less what the jitter takes off.
const EVERY: Duration = Duration::from_secs(5);
const JITTER: Nanos = 500_000_000;
/// After an event: what follows from it comes within this, and one list is enough for many events.
const SETTLE: Duration = Duration::from_secs(1);
/// The longest pause between attempts.
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// A list older than this is not even shown.
const KEEP: Millis = 600_000;

/// Why there is no new list.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The engine does not answer, or not well.
    #[error("{0}")]
    Engine(#[from] Error),
    /// It answers, and knows nothing of Swarm.
    #[error("{0}; give swarm.engine the socket of a manager's engine, or leave it out")]
    NoManager(Error),
    /// Its answer is no list.
    #[error("{0}")]
    Read(#[from] ReadError),
    /// Reading it broke.
    #[error("a list of Swarm's broke: {0}")]
    Broken(String),
}

/// The newest list with the moment it was made, and what is wrong.
#[derive(Clone, Default)]
struct Known {
    list: Option<(Arc<List>, Nanos)>,
    trouble: Option<Arc<str>>,
}

/// What the lister knows; cheap to clone.
#[derive(Clone)]
pub struct Told {
    known: watch::Receiver<Known>,
    begun: Nanos,
    metrics: SwarmMetrics,
}

impl Told {
    /// What Swarm says, as far as a question is about it.
    pub fn swarm(&self, ask: &Ask) -> Swarm {
        let Known { list, trouble } = self.known.borrow().clone();
        let list = list.map(|(list, at)| (list, millis_since(at))).filter(|(_, age)| *age <= KEEP);
        Swarm { list: list.map(|(list, age)| List { age, ..list.narrowed(ask) }), trouble }
    }

    /// Sets the gauges.
    pub fn measure(&self) {
        let at = self.known.borrow().list.as_ref().map_or(self.begun, |(_, at)| *at);
        #[allow(clippy::cast_precision_loss, reason = "milliseconds of a process's life are far below 2^53")]
        self.metrics.age.set(millis_since(at) as f64 / 1000.0);
    }
}

fn millis_since(at: Nanos) -> Millis {
    clock::boottime().saturating_sub(at) / 1_000_000
}

/// The lister; see the head of this file.
pub struct Manager {
    engine: Engine,
    limits: Limits,
    known: watch::Sender<Known>,
    told: Told,
}

impl Manager {
    /// Of an engine; connects to nothing yet.
    pub fn new(engine: Engine, limits: Limits, metrics: SwarmMetrics) -> Manager {
        let (known, seen) = watch::channel(Known::default());
        let told = Told { known: seen, begun: clock::boottime(), metrics };
        Manager { engine, limits, known, told }
    }

    /// What it knows, now and later.
    pub fn told(&self) -> Told {
        self.told.clone()
    }

    /// Lists until stopped.
    pub async fn run(mut self, stop: CancellationToken) {
        // Nothing is half done at any await: what is known is replaced whole.
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.keep_listing() => {}
        }
    }

    async fn keep_listing(&mut self) {
        let mut retry = Retry::new(EVERY, LONGEST_DELAY);
        let mut events = None;
        let mut negotiated = false;
        loop {
            match self.take_list(negotiated).await {
                Ok(()) => {
                    negotiated = true;
                    retry.reset();
                    if events.is_none() {
                        // Without events the next list comes a little later, no more.
                        events = self.engine.swarm_events().await.ok();
                    }
                    rest(&mut events).await;
                }
                Err(error) => {
                    (negotiated, events) = (false, None);
                    self.trouble(&error);
                    sleep(retry.next_delay().max(SETTLE)).await;
                }
            }
        }
    }

    async fn take_list(&mut self, negotiated: bool) -> Result<(), ListError> {
        if !negotiated {
            self.engine.negotiate(true).await?;
        }
        let refused = |error: Error| if error.is_no_manager() { ListError::NoManager(error) } else { error.into() };
        let nodes = self.engine.nodes().await.map_err(refused)?;
        let services = self.engine.services().await.map_err(refused)?;
        let tasks = self.engine.wanted_tasks().await.map_err(refused)?;
        let at = clock::boottime();
        let (limits, before) = (self.limits, self.known.borrow().list.clone());
        let read = move || {
            let before = before.as_ref().map(|(list, then)| (&**list, at.saturating_sub(*then) / 1_000_000));
            List::read(Answers { services: &services, tasks: &tasks, nodes: &nodes }, limits, before, clock::wall())
        };
        // A large swarm's list is some hundred milliseconds of work.
        let read = spawn_blocking(read).await.map_err(|error| ListError::Broken(error.to_string()))?;
        let list = Arc::new(read?);
        self.take(list.clone(), at);
        if let Some(explained) = self.explained(&list).await {
            self.known.send_modify(|known| known.list = Some((Arc::new(explained), at)));
        }
        Ok(())
    }

    /// The list with what became of the tasks before those that do not run; `None` if there is nothing to explain, or
    /// the engine does not: a list is good without.
    async fn explained(&self, list: &List) -> Option<List> {
        let unexplained = list.unexplained();
        if unexplained.is_empty() {
            return None;
        }
        let past = self.engine.past_tasks(&unexplained).await.map_err(ListError::from);
        let (mut list, limits) = (list.clone(), self.limits);
        let read = move |past: Bytes| list.explain(&past, limits).map(|()| list).map_err(ListError::from);
        let explained = match past {
            Ok(past) => spawn_blocking(move || read(past))
                .await
                .unwrap_or_else(|error| Err(ListError::Broken(error.to_string()))),
            Err(error) => Err(error),
        };
        explained.inspect_err(|error| tracing::debug!(%error, "what became of past tasks is not known")).ok()
    }

    fn take(&self, list: Arc<List>, at: Nanos) {
        let metrics = &self.told.metrics;
        metrics.lists.inc();
        for (gauge, n) in [
            (&metrics.services, list.services.len()),
            (&metrics.tasks, list.tasks.len()),
            (&metrics.nodes, list.nodes.len()),
        ] {
            gauge.set(i64::try_from(n).unwrap_or(i64::MAX));
        }
        let before = self.known.send_replace(Known { list: Some((list, at)), trouble: None });
        if before.trouble.is_some() || before.list.is_none() {
            tracing::info!("listing what Swarm says");
        }
    }

    fn trouble(&self, error: &ListError) {
        self.told.metrics.failures.inc();
        let trouble: Arc<str> = error.to_string().into();
        if self.known.borrow().trouble.as_ref() != Some(&trouble) {
            tracing::warn!(%trouble, "cannot list what Swarm says; trying again");
            self.known.send_modify(|known| known.trouble = Some(trouble));
        }
    }
}

/// Waits until a list is due, or until something happened and what follows from it had the time to happen too.
async fn rest(events: &mut Option<Events>) {
    let pause = EVERY - Duration::from_nanos(clock::boottime() % JITTER);
    let (mut until, mut happened) = (Instant::now() + pause, false);
    loop {
        // The time comes first: no flood of events puts a list off.
        tokio::select! {
            biased;
            () = sleep_until(until) => return,
            more = next_event(events) => {
                if !more {
                    *events = None;
                }
                if !std::mem::replace(&mut happened, true) {
                    until = Instant::now() + SETTLE;
                }
            }
        }
    }
}

/// Waits for something to happen; false if the stream is over. Never ready without a stream. Cancel-safe.
async fn next_event(events: &mut Option<Events>) -> bool {
    match events {
        Some(events) => matches!(events.next().await, Ok(Some(_))),
        None => std::future::pending().await,
    }
}
