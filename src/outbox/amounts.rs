//! Increments on their way to a ledger, by age in a few buckets, so that old ones can be dropped and counted.

use crate::model::{Nanos, Values};
use crate::stat::Stat;
use std::collections::BTreeMap;

/// How many buckets cover `max_catch_up`.
const BUCKETS: u64 = 4;

/// Amounts by (bucket, stat); see [`bucket`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Aged(BTreeMap<(u64, Stat), u64>);

/// The bucket of what is read at a moment.
pub(super) fn bucket(at: Nanos, max_catch_up: Nanos) -> u64 {
    at / (max_catch_up / BUCKETS).max(1)
}

/// The oldest bucket to keep: nothing goes before `max_catch_up`, and all a quarter of it later.
pub(super) fn oldest(now: Nanos, max_catch_up: Nanos) -> u64 {
    bucket(now, max_catch_up).saturating_sub(BUCKETS)
}

impl Aged {
    pub(super) fn add(&mut self, bucket: u64, stat: Stat, amount: u64) {
        if amount > 0 {
            *self.0.entry((bucket, stat)).or_default() += amount;
        }
    }
    pub(super) fn merge(&mut self, other: Aged) {
        for ((bucket, stat), amount) in other.0 {
            self.add(bucket, stat, amount);
        }
    }
    pub(super) fn take(&mut self) -> Aged {
        std::mem::take(self)
    }
    /// Keeps the stats of a mask.
    pub(super) fn retain(&mut self, mask: u64) {
        self.0.retain(|(_, stat), _| mask & stat.bit() != 0);
    }
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The bucket of the oldest amount.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.0.first_key_value().map(|((bucket, _), _)| *bucket)
    }
    /// Everything, whatever its age.
    pub(super) fn total(&self) -> Values {
        let mut total = Values::default();
        for ((_, stat), amount) in &self.0 {
            total.add(*stat, *amount);
        }
        total
    }
    /// Takes out what is in buckets below `oldest`.
    pub(super) fn drop_older(&mut self, oldest: u64) -> Option<Values> {
        if self.oldest()? >= oldest {
            return None;
        }
        let kept = self.0.split_off(&(oldest, Stat::first()));
        let old = std::mem::replace(&mut self.0, kept);
        Some(Aged(old).total())
    }
}
