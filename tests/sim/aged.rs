//! Amounts by when they were read: what is given up for its age must have that age (LEDGER 11).

use crate::check::{Checked, violation};
use crate::money::{Cells, Money};
use crate::plan::MAX_CATCH_UP;
use std::collections::BTreeMap;

/// Amounts of every series by the true time of their reading.
#[derive(Clone, Debug, Default)]
pub struct Aged(Cells<BTreeMap<u64, i64>>);

impl Aged {
    pub fn add(&mut self, at: u64, money: &Money) {
        for (parts, amount) in self.0.iter_mut().zip(money.0).filter(|(_, amount)| *amount != 0) {
            *parts.entry(at).or_default() += amount;
        }
    }

    pub fn merge(&mut self, other: Aged) {
        for (parts, others) in self.0.iter_mut().zip(other.0) {
            others.into_iter().for_each(|(at, amount)| *parts.entry(at).or_default() += amount);
        }
    }

    pub fn total(&self) -> Money {
        let mut total = Money::default();
        total.0.iter_mut().zip(&self.0).for_each(|(cell, parts)| *cell = parts.values().sum());
        total
    }

    /// Takes so much out, the oldest first; `None` if there is less.
    pub fn take(&mut self, money: &Money) -> Option<Aged> {
        let mut taken = Aged::default();
        for ((parts, into), amount) in self.0.iter_mut().zip(&mut taken.0).zip(money.0) {
            let mut left = u64::try_from(amount).ok()? as i64;
            while left > 0 {
                let mut oldest = parts.first_entry()?;
                let part = left.min(*oldest.get());
                into.insert(*oldest.key(), part);
                *oldest.get_mut() -= part;
                left -= part;
                if *oldest.get() == 0 {
                    oldest.remove();
                }
            }
        }
        Some(taken)
    }

    /// Nothing of it is younger than that, and given up for its age.
    pub fn may_go(&self, least: u64, now: u64) -> Checked {
        let newest = self.0.iter().filter_map(|parts| parts.last_key_value()).map(|(at, _)| *at).max();
        match newest.filter(|at| now - at < least) {
            Some(at) => violation("L1", format!("what was read {} ms ago is given up for its age", now - at)),
            None => Ok(()),
        }
    }

    /// Nothing of it should be given up by now: amounts go a quarter of `max_catch_up` late at most.
    pub fn may_stay(&self, now: u64) -> Checked {
        let oldest = self.0.iter().filter_map(|parts| parts.first_key_value()).map(|(at, _)| *at).min();
        match oldest.filter(|at| now - at > MAX_CATCH_UP + MAX_CATCH_UP / 4) {
            Some(at) => violation("L1", format!("what was read {} ms ago is still kept", now - at)),
            None => Ok(()),
        }
    }
}
