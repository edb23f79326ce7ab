//! Amounts per service and counter, as plain signed numbers: what the conservation laws are checked with.

use crate::host::{COUNTED, N_SERVICES};
use std::collections::BTreeMap;
use std::ops::{AddAssign, SubAssign};
use swarmstats::model::{ServiceId, Values};
use swarmstats::stat::{COUNTERS, Stat};

/// One cell per series: (service, counter).
pub type Cells<T> = [T; N_SERVICES * COUNTED.len()];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Money(pub Cells<i64>);

/// The cells of a service.
pub fn cells(service: &ServiceId) -> std::ops::Range<usize> {
    let number: usize = service.as_str()[1..].parse().unwrap();
    number * COUNTED.len()..(number + 1) * COUNTED.len()
}

impl Money {
    pub fn of(amounts: &BTreeMap<ServiceId, Values>) -> Money {
        let mut money = Money::default();
        for (service, values) in amounts {
            money.add_values(service, values);
        }
        money
    }
    pub fn add_values(&mut self, service: &ServiceId, values: &Values) {
        let known = COUNTED.iter().fold(0, |mask, stat| mask | stat.bit());
        assert!(values.present() & COUNTERS & !known == 0, "a counter that nobody carries: {values:?}");
        for (cell, stat) in self.0[cells(service)].iter_mut().zip(COUNTED) {
            *cell += values.or_zero(stat) as i64;
        }
    }
    pub fn add_one(&mut self, service: &ServiceId, stat: Stat, amount: u64) {
        let at = COUNTED.iter().position(|counted| *counted == stat).unwrap();
        self.0[cells(service)][at] += amount as i64;
    }
    pub fn is_zero(&self) -> bool {
        *self == Money::default()
    }
    pub fn sum(&self) -> i64 {
        self.0.iter().sum()
    }
    /// Only the cells that a test takes.
    pub fn only(mut self, takes: impl Fn(usize) -> bool) -> Money {
        for (at, cell) in self.0.iter_mut().enumerate() {
            if *cell != 0 && !takes(at) {
                *cell = 0;
            }
        }
        self
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Money) {
        for (at, amount) in other.0.into_iter().enumerate() {
            self.0[at] += amount;
        }
    }
}

impl SubAssign for Money {
    fn sub_assign(&mut self, other: Money) {
        for (at, amount) in other.0.into_iter().enumerate() {
            self.0[at] -= amount;
        }
    }
}

impl std::iter::Sum for Money {
    fn sum<I: Iterator<Item = Money>>(all: I) -> Money {
        all.fold(Money::default(), |mut sum, money| {
            sum += money;
            sum
        })
    }
}
