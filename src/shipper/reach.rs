//! Whether any collector takes what this shipper reports, and what keeps the others from it: for its readiness.

use crate::model::{MemberId, Nanos};
use std::collections::BTreeMap;

/// The most members whose troubles are told at once.
const MAX_TOLD: usize = 3;

/// See the head of this file. Bounded by the members a stream is wanted to.
#[derive(Debug)]
pub(super) struct Reach {
    /// When a collector last acknowledged a batch; at first, the start.
    heard: Nanos,
    troubles: BTreeMap<MemberId, String>,
}

impl Reach {
    pub(super) fn new(now: Nanos) -> Reach {
        Reach { heard: now, troubles: BTreeMap::new() }
    }

    pub(super) fn acked(&mut self, member: &MemberId, now: Nanos) {
        self.heard = now;
        self.troubles.remove(member);
    }

    pub(super) fn failed(&mut self, member: &MemberId, why: String) {
        self.troubles.insert(member.clone(), why);
    }

    /// No stream is wanted to the member any more.
    pub(super) fn forget(&mut self, member: &MemberId) {
        self.troubles.remove(member);
    }

    /// For people: that nobody acknowledged anything for longer than `longest`, and why, as far as it is known.
    pub(super) fn unheard(&self, now: Nanos, longest: Nanos) -> Option<String> {
        let unheard = now.saturating_sub(self.heard);
        if unheard <= longest {
            return None;
        }
        let mut why = format!("no collector has acknowledged a report for {} s", unheard / 1_000_000_000);
        for (i, (member, trouble)) in self.troubles.iter().take(MAX_TOLD).enumerate() {
            why += if i == 0 { ": " } else { "; " };
            why += &format!("{member}: {trouble}");
        }
        if self.troubles.len() > MAX_TOLD {
            why += &format!("; and {} more", self.troubles.len() - MAX_TOLD);
        }
        Some(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn one_acknowledgement_of_anybody_is_enough() {
        let [a, b] = ["a", "b"].map(|id| MemberId::new(id).unwrap());
        let mut reach = Reach::new(SECOND);
        reach.failed(&a, "cannot connect: refused".into());
        reach.failed(&b, "it leaves".into());
        assert_eq!(reach.unheard(7 * SECOND, 6 * SECOND), None);
        let why = "no collector has acknowledged a report for 8 s: a: cannot connect: refused; b: it leaves";
        assert_eq!(reach.unheard(9 * SECOND, 6 * SECOND).as_deref(), Some(why));
        reach.acked(&b, 10 * SECOND);
        assert_eq!(reach.unheard(16 * SECOND, 6 * SECOND), None);
        reach.forget(&a);
        let why = "no collector has acknowledged a report for 7 s";
        assert_eq!(reach.unheard(17 * SECOND, 6 * SECOND).as_deref(), Some(why));
    }

    #[test]
    fn of_many_members_three_are_told() {
        let mut reach = Reach::new(0);
        (0..5).for_each(|i| reach.failed(&MemberId::new(format!("c{i}")).unwrap(), "late".into()));
        let why = "no collector has acknowledged a report for 2 s: c0: late; c1: late; c2: late; and 2 more";
        assert_eq!(reach.unheard(2 * SECOND, SECOND).as_deref(), Some(why));
    }
}
