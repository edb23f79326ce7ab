//! What keeps the table true: the engine's events, and a listing of all containers now and then.
//!
//! Events are subscribed to before the first listing, so that no container falls in between; a listing every `relist`
//! finds what an event missed; a stream that breaks is taken up where it ended. Nothing the engine does or fails to do
//! stops the readings: a frozen one leaves known containers as they are. One loop; every call to the engine is a job
//! beside it, so events never wait. It deliberately reads no figures.

use super::{
    Fault,
    cgroup::Target,
    ending::Ending,
    engine::{
        Engine, Error, Events,
        api::{Event, Info, Inspect, Listed, Stats},
    },
    watch::{Shared, Watch},
};
use crate::{clock, model::NodeId};
use std::{future, sync::Arc, time::Duration};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, Interval, MissedTickBehavior, interval, sleep_until},
};
use tokio_util::task::AbortOnDropHandle;

/// What is subscribed to: only what changes the table.
const ACTIONS: [&str; 9] = ["start", "die", "destroy", "oom", "update", "rename", "pause", "unpause", "health_status"];
/// At most this many inspections at a time, and as many records.
const CALLS_AT_ONCE: usize = 8;
/// The pause before the next attempt where the caller's delays have come to an end.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// The node is another one now: it joined or left a swarm. Its shipper has to begin anew.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this node was {was} and is now {is}: the shipper begins anew")]
pub struct NodeChanged {
    /// The id everything was read under.
    pub was: NodeId,
    /// The id that the engine has now.
    pub is: NodeId,
}

/// What a job brought back.
enum Done {
    Subscribed(Result<Events, Error>),
    Listed(u64, Result<(Info, Vec<Listed>), Error>),
    Inspected(Arc<str>, Result<Inspect, Error>),
    Record(Arc<str>, Result<Stats, Error>),
    Exited(Arc<str>, u64),
}

/// The loop; see the module.
pub struct Discovery {
    engine: Engine,
    shared: Arc<Shared>,
    watch: Watch,
    relist: Duration,
    jobs: JoinSet<Done>,
    inspections: Arc<Semaphore>,
    records: Arc<Semaphore>,
    events: Option<Events>,
    listing: bool,
}

impl Discovery {
    /// Of an engine, keeping the table that `watch` shares; all containers are listed every `relist`.
    pub fn new(engine: Engine, shared: Arc<Shared>, watch: Watch, relist: Duration) -> Discovery {
        let turns = || Arc::new(Semaphore::new(CALLS_AT_ONCE));
        let (inspections, records) = (turns(), turns());
        let jobs = JoinSet::new();
        Discovery { engine, shared, watch, relist, jobs, inspections, records, events: None, listing: false }
    }

    /// Runs until the node is another one; may be dropped at any moment. `delays` gives the pauses between attempts to
    /// reach the engine, anew for each time it is lost.
    pub async fn run<D: Iterator<Item = Duration>>(mut self, delays: impl Fn() -> D) -> NodeChanged {
        let mut pauses = delays();
        let mut relist = every(self.relist);
        let mut retry = Instant::now();
        let mut connecting = false;
        loop {
            let lost = self.events.is_none() && !connecting;
            tokio::select! {
                event = next_event(&mut self.events) => if !self.take_event(event) {
                    retry = Instant::now() + pauses.next().unwrap_or(LONGEST_DELAY);
                },
                Some(done) = self.jobs.join_next() => match done {
                    Ok(Done::Subscribed(Ok(events))) => {
                        (connecting, pauses) = (false, delays());
                        self.events = Some(events);
                        self.list();
                    }
                    Ok(Done::Subscribed(Err(error))) => {
                        connecting = false;
                        retry = Instant::now() + pauses.next().unwrap_or(LONGEST_DELAY);
                        self.fault(&error, "cannot subscribe to the engine's events; trying again");
                    }
                    Ok(done) => if let Some(changed) = self.done(done) {
                        return changed;
                    },
                    // Only waiting for an exit can break: calls see to themselves. The engine's event comes anyway.
                    Err(error) => tracing::error!(%error, "a job of discovery broke"),
                },
                _ = relist.tick() => if self.events.is_some() { self.list() },
                () = self.shared.wake.notified() => if self.events.is_some() { self.look() },
                () = sleep_until(retry), if lost => {
                    connecting = true;
                    self.subscribe();
                }
            }
        }
    }

    fn fault(&self, error: &Error, what: &str) {
        tracing::warn!(error = error as &dyn std::error::Error, "{what}");
        self.shared.table().faults().count(Fault::Engine);
        self.shared.trouble.send_replace(Some(format!("{what}: {error}")));
    }

    /// Takes what the event stream gave; false if it is over.
    fn take_event(&mut self, event: Result<Option<Event>, Error>) -> bool {
        let unusable = self.events.as_mut().map_or(0, Events::take_unusable);
        self.shared.table().faults().add(Fault::Event, unusable);
        match event {
            Ok(Some(event)) => {
                if let Some(id) = self.watch.event(event) {
                    self.inspect(id);
                }
                return true;
            }
            Ok(None) => tracing::warn!("the engine ended the event stream"),
            Err(error) => self.fault(&error, "the engine's event stream broke"),
        }
        self.events = None;
        false
    }

    /// Takes what a job brought back, and sees whether the node is still the same.
    fn done(&mut self, done: Done) -> Option<NodeChanged> {
        match done {
            Done::Listed(number, answer) => {
                self.listing = false;
                match answer {
                    Ok((info, listed)) => {
                        self.shared.trouble.send_replace(None);
                        let was = &self.watch.node().node_id;
                        if let Some(is) = super::docker::node_id(&info).ok().filter(|is| is != was) {
                            return Some(NodeChanged { was: was.clone(), is });
                        }
                        self.watch.listed(number, &listed).into_iter().for_each(|id| self.inspect(id));
                    }
                    Err(error) => self.fault(&error, "cannot list containers; known ones are read on"),
                }
            }
            Done::Inspected(id, answer) => {
                let (started, again) = self.watch.inspected(&id, answer);
                if let Some(target) = started {
                    self.await_end(target);
                }
                if again {
                    self.inspect(id);
                }
            }
            Done::Record(id, answer) => {
                if let Err(error) = &answer {
                    self.fault(error, "no record of a container whose cgroup cannot be seen");
                }
                self.shared.table().record(&id, answer.ok().as_ref(), clock::wall());
            }
            Done::Exited(id, started_at) => {
                let mut table = self.shared.table();
                if table.target(&id).is_some_and(|target| target.started_at == started_at) {
                    table.exited(&id);
                }
            }
            // Taken by the loop itself.
            Done::Subscribed(_) => {}
        }
        None
    }

    fn subscribe(&mut self) {
        let (engine, since) = (self.engine.clone(), self.watch.since());
        self.jobs.spawn(async move {
            let connect = async move {
                // It may have been replaced by another release.
                engine.negotiate(true).await?;
                engine.events(since, &ACTIONS).await
            };
            Done::Subscribed(call(connect).await)
        });
    }

    fn list(&mut self) {
        if !std::mem::replace(&mut self.listing, true) {
            let (engine, number) = (self.engine.clone(), self.watch.next_listing());
            let both = async move { Ok((engine.info().await?, engine.list().await?)) };
            self.jobs.spawn(async move { Done::Listed(number, call(both).await) });
        }
    }

    fn inspect(&mut self, id: Arc<str>) {
        let (engine, turns) = (self.engine.clone(), self.inspections.clone());
        self.jobs.spawn(async move {
            let _turn = turns.acquire().await;
            let asked = id.clone();
            let answer = call(async move { engine.inspect(&asked).await }).await;
            Done::Inspected(id, answer)
        });
    }

    /// Has the last figures of a container read as soon as its last process is gone.
    fn await_end(&mut self, target: Target) {
        let unified = self.shared.table().unified(&target);
        if let Some(ending) = Ending::of(&target, unified.as_deref()) {
            self.jobs.spawn(async move {
                ending.come().await;
                Done::Exited(target.container_id.into(), target.started_at)
            });
        }
    }

    /// Sees to what the sampler noticed: cgroups that went, and containers that only the engine can see.
    fn look(&mut self) {
        let (gone, wanting) = {
            let mut table = self.shared.table();
            (table.gone(), table.wanting_record())
        };
        for id in gone {
            if let Some(id) = self.watch.ask(id, None) {
                self.inspect(id);
            }
        }
        for id in wanting {
            let (engine, turns) = (self.engine.clone(), self.records.clone());
            self.jobs.spawn(async move {
                let _turn = turns.acquire().await;
                let asked = id.clone();
                let answer = call(async move { engine.stats(&asked).await }).await;
                Done::Record(id, answer)
            });
        }
    }
}

/// A call that panics is one that failed, so that what waits for its answer hears of it and asks again.
async fn call<T: Send + 'static>(call: impl Future<Output = Result<T, Error>> + Send + 'static) -> Result<T, Error> {
    let answer = AbortOnDropHandle::new(tokio::spawn(call)).await;
    answer.unwrap_or_else(|broken| Err(Error::Broken(broken.to_string())))
}

fn every(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

async fn next_event(events: &mut Option<Events>) -> Result<Option<Event>, Error> {
    match events {
        Some(events) => events.next().await,
        None => future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_that_panics_is_one_that_failed() {
        let answer = call::<()>(async { panic!("a mistake of ours") }).await;
        assert!(matches!(answer, Err(Error::Broken(_))), "{answer:?}");
    }
}
