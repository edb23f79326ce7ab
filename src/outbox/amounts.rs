//! Increments on their way to a ledger, by age in a few buckets, so that old ones can be dropped and counted.

use crate::model::{Nanos, Values};
use crate::stat::Stat;
use std::collections::BTreeMap;

/// How many buckets cover `max_catch_up`.
const BUCKETS: u64 = 4;

/// Amounts by (bucket, stat); a bucket is the number of `width`s since the clock's zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Aged(BTreeMap<(u64, Stat), u64>);

/// The width of a bucket for a given `max_catch_up`.
pub(super) fn width(max_catch_up: Nanos) -> Nanos {
    (max_catch_up / BUCKETS).max(1)
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
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
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
        let first = self.0.first_key_value()?.0.0;
        if first >= oldest {
            return None;
        }
        let kept = self.0.split_off(&(oldest, Stat::first()));
        let old = std::mem::replace(&mut self.0, kept);
        Some(Aged(old).total())
    }
}
