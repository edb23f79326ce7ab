//! Amounts per service and counter, as plain signed numbers: what the conservation laws are checked with.

use crate::host::{COUNTED, N_SERVICES};
use std::collections::BTreeMap;
use std::ops::{AddAssign, SubAssign};
use swarmstats::model::{ServiceId, Values};
use swarmstats::stat::{COUNTERS, Stat};

pub type Cells<T> = [[T; COUNTED.len()]; N_SERVICES];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Money(pub Cells<i64>);

/// The place of a service in [`Cells`].
pub fn place(service: &ServiceId) -> usize {
    service.as_str()[1..].parse().unwrap()
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
        for (cell, stat) in self.0[place(service)].iter_mut().zip(COUNTED) {
            *cell += values.or_zero(stat) as i64;
        }
    }
    pub fn add_one(&mut self, service: &ServiceId, stat: Stat, amount: u64) {
        let at = COUNTED.iter().position(|counted| *counted == stat).unwrap();
        self.0[place(service)][at] += amount as i64;
    }
    pub fn is_zero(&self) -> bool {
        *self == Money::default()
    }
    pub fn sum(&self) -> i64 {
        self.0.iter().flatten().sum()
    }
    pub fn cells() -> impl Iterator<Item = (usize, usize)> {
        (0..N_SERVICES).flat_map(|service| (0..COUNTED.len()).map(move |stat| (service, stat)))
    }
    /// Only the cells that a test takes.
    pub fn only(mut self, takes: impl Fn(usize, usize) -> bool) -> Money {
        for (service, stat) in Money::cells().filter(|(service, stat)| !takes(*service, *stat)) {
            self.0[service][stat] = 0;
        }
        self
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Money) {
        for (service, stat) in Money::cells() {
            self.0[service][stat] += other.0[service][stat];
        }
    }
}

impl SubAssign for Money {
    fn sub_assign(&mut self, other: Money) {
        for (service, stat) in Money::cells() {
            self.0[service][stat] -= other.0[service][stat];
        }
    }
}
