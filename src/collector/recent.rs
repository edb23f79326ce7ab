//! Samples taken in within about the last minute: what a collector carries now, not on average since its start.
//!
//! A few looks at the counter are kept, of no more than a minute; who asks is told how long the time was exactly.

use crate::model::{Millis, Nanos};
use std::collections::VecDeque;

/// How far back it looks.
const WINDOW: Nanos = 60_000_000_000;

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Recent(VecDeque<(Nanos, u64)>);

impl Recent {
    /// The counter stands so; called every few seconds.
    pub(super) fn look(&mut self, now: Nanos, count: u64) {
        self.0.retain(|(at, _)| now.saturating_sub(*at) <= WINDOW);
        self.0.push_back((now, count));
    }

    /// By how much the counter has risen since the oldest look, and how long ago that was.
    pub(super) fn since(&self, now: Nanos, count: u64) -> (u64, Millis) {
        let Some((at, before)) = self.0.front() else { return (0, 0) };
        (count.saturating_sub(*before), now.saturating_sub(*at) / 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn a_burst_of_long_ago_is_not_in_the_last_minute() {
        let mut recent = Recent::default();
        assert_eq!(recent.since(SECOND, 5), (0, 0), "nobody looked");
        for second in (0..=300).step_by(2) {
            // A thousand in the first minute, then two a second.
            let count = if second < 60 { second * 1000 / 60 } else { 1000 + (second - 60) * 2 };
            recent.look(second * SECOND, count);
        }
        assert_eq!(recent.since(300 * SECOND, 1480), (120, 60_000));
        assert!(recent.0.len() <= 31);
        // Looked at late: of the time that passed.
        assert_eq!(recent.since(310 * SECOND, 1500), (140, 70_000));
    }

    #[test]
    fn a_young_process_tells_of_its_whole_life() {
        let mut recent = Recent::default();
        recent.look(7 * SECOND, 0);
        recent.look(9 * SECOND, 30);
        assert_eq!(recent.since(10 * SECOND, 45), (45, 3_000));
    }
}
