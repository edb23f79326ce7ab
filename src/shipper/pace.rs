//! How often this shipper reads its node: every interval, or less often where a collector that cannot keep up advises so.

use crate::model::{MemberId, Millis};
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest that is followed, in intervals; and in time, but for a longer interval of its own.
const MAX_FACTOR: u32 = 10;
const LONGEST: Duration = Duration::from_secs(60);

/// See the head of this file. Bounded by the members a stream is open to.
#[derive(Debug)]
pub(super) struct Pace {
    own: Duration,
    advised: BTreeMap<MemberId, Duration>,
}

impl Pace {
    pub(super) fn new(own: Duration) -> Pace {
        Pace { own, advised: BTreeMap::new() }
    }

    /// What a member's newest ack advises; 0 is nothing.
    pub(super) fn advise(&mut self, member: &MemberId, interval: Millis) {
        if interval > 0 {
            self.advised.insert(member.clone(), Duration::from_millis(interval));
        } else {
            self.advised.remove(member);
        }
    }

    /// The stream to a member ended, and its advice with it.
    pub(super) fn forget(&mut self, member: &MemberId) {
        self.advised.remove(member);
    }

    /// The time between rounds: the slowest member's, within bounds.
    pub(super) fn interval(&self) -> Duration {
        let longest = (self.own * MAX_FACTOR).min(LONGEST.max(self.own));
        let slowest = self.advised.values().max().copied().unwrap_or(self.own);
        slowest.clamp(self.own, longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_member_is_followed_within_bounds() {
        let [a, b] = ["a", "b"].map(|id| MemberId::new(id).unwrap());
        let seconds = Duration::from_secs;
        let mut pace = Pace::new(seconds(1));
        assert_eq!(pace.interval(), seconds(1));
        pace.advise(&a, 2500);
        pace.advise(&b, 500);
        assert_eq!(pace.interval(), Duration::from_millis(2500));
        pace.advise(&b, u64::MAX);
        assert_eq!(pace.interval(), seconds(10));
        pace.forget(&b);
        pace.advise(&a, 0);
        assert_eq!(pace.interval(), seconds(1));
        let mut slow = Pace::new(seconds(30));
        slow.advise(&a, 300_000);
        assert_eq!(slow.interval(), seconds(60));
    }
}
