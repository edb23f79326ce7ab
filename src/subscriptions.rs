//! What one GetStats stream is subscribed to, and when which answer is due.
//!
//! Invariants: nothing is due after its removal; a subscription is due at its interval, counted from when it was due and
//! not from when it was answered, and never twice for time that has passed; interval 0 is due once.
//! It deliberately asks nobody and waits for nothing: time is a parameter.

use crate::model::{Millis, Nanos};
use crate::view::{Ask, AskError, Scope};
use std::collections::BTreeMap;

/// The shortest interval between two pushes.
pub const MIN_INTERVAL: Millis = 100;
/// The longest: a day.
pub const MAX_INTERVAL: Millis = 24 * 3600 * 1000;

/// A subscription as the client adds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscription {
    /// The client's name for it; adding another under the same id replaces it.
    pub id: u64,
    /// What it asks, a union of selectors.
    pub ask: Ask,
    /// Whose answer it wants.
    pub scope: Scope,
    /// Time between pushes; 0: answer once.
    pub interval: Millis,
}

/// Why a subscription is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// Its question is none.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// Neither 0 nor within the bounds.
    #[error("an interval of {0} ms: give 0 to be answered once, or {MIN_INTERVAL} to {MAX_INTERVAL}")]
    Interval(Millis),
    /// As many as a stream may have.
    #[error("{0} subscriptions are open on this stream: remove one first")]
    TooMany(usize),
}

/// A push that is due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Due {
    /// Of which subscription.
    pub id: u64,
    /// The question to answer.
    pub ask: Ask,
    /// Whose answer.
    pub scope: Scope,
    /// It was the last: the subscription is over.
    pub done: bool,
}

/// The subscriptions of one stream.
#[derive(Debug)]
pub struct Subscriptions {
    open: BTreeMap<u64, (Subscription, Nanos)>,
    max: usize,
}

impl Subscriptions {
    /// None yet, and `max` at most.
    pub fn new(max: usize) -> Subscriptions {
        Subscriptions { open: BTreeMap::new(), max }
    }

    /// Adds a subscription, due at once, or replaces the one of the same id.
    pub fn add(&mut self, subscription: Subscription, now: Nanos) -> Result<(), SubscribeError> {
        subscription.ask.check()?;
        if subscription.interval != 0 && !(MIN_INTERVAL..=MAX_INTERVAL).contains(&subscription.interval) {
            return Err(SubscribeError::Interval(subscription.interval));
        }
        if self.open.len() >= self.max && !self.open.contains_key(&subscription.id) {
            return Err(SubscribeError::TooMany(self.max));
        }
        self.open.insert(subscription.id, (subscription, now));
        Ok(())
    }

    /// Removes a subscription; whether there was one.
    pub fn remove(&mut self, id: u64) -> bool {
        self.open.remove(&id).is_some()
    }

    /// Whether a subscription is open; one of interval 0 is until it is due.
    pub fn contains(&self, id: u64) -> bool {
        self.open.contains_key(&id)
    }

    /// When the next push is due, if there is any subscription.
    pub fn next_due(&self) -> Option<Nanos> {
        self.open.values().map(|(_, due)| *due).min()
    }

    /// The push that is due longest by `now`, if any is. One of interval 0 is over with it.
    pub fn due(&mut self, now: Nanos) -> Option<Due> {
        let (_, id) = self.open.iter().map(|(id, (_, due))| (*due, *id)).min().filter(|(due, _)| *due <= now)?;
        let (subscription, due) = self.open.get_mut(&id)?;
        let done = subscription.interval == 0;
        let push = Due { id, ask: subscription.ask.clone(), scope: subscription.scope, done };
        let interval = subscription.interval * 1_000_000;
        // After a stall there is one push, not one for each that was missed.
        let missed = (now - *due).checked_div(interval).unwrap_or(0);
        *due += interval * (missed + 1);
        if done {
            self.open.remove(&id);
        }
        Some(push)
    }
}
