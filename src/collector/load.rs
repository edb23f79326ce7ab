//! How busy batches keep the aggregate, and so by how much shippers are advised to lengthen their intervals (DESIGN §8).
//!
//! Whoever is late is asked to read less often; nothing is queued here. The advice rises quickly and falls slowly, and
//! between the two marks it stays, so that it settles instead of swinging. It deliberately measures the lock and not the
//! machine: only what shippers can spare counts.

use std::time::Duration;

/// Above this share of the time the advice rises, below the other it falls.
const BUSY: f64 = 0.5;
const IDLE: f64 = 0.25;
const RISE: f64 = 1.5;
const FALL: f64 = 1.25;
/// The longest advice, in intervals.
const MAX_FACTOR: f64 = 10.0;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Load {
    held: Duration,
    factor: f64,
}

impl Default for Load {
    fn default() -> Load {
        Load { held: Duration::ZERO, factor: 1.0 }
    }
}

impl Load {
    /// A batch held the aggregate for so long.
    pub(super) fn add(&mut self, held: Duration) {
        self.held += held;
    }

    /// Looks at the time since the last look.
    pub(super) fn weigh(&mut self, passed: Duration) {
        let share = std::mem::take(&mut self.held).as_secs_f64() / passed.as_secs_f64().max(1e-3);
        if share > BUSY {
            self.factor = (self.factor * RISE).min(MAX_FACTOR);
        } else if share < IDLE {
            self.factor = (self.factor / FALL).max(1.0);
        }
    }

    /// In intervals: 1 is no advice.
    pub(super) fn factor(&self) -> f64 {
        self.factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Duration = Duration::from_secs(2);

    #[test]
    fn it_rises_to_ten_intervals_and_falls_back_to_none() {
        let mut load = Load::default();
        for expected in [1.5, 2.25, 3.375] {
            load.add(LOOK * 3 / 5);
            load.weigh(LOOK);
            assert_eq!(load.factor(), expected);
        }
        for _ in 0..10 {
            load.add(LOOK);
            load.weigh(LOOK);
        }
        assert_eq!(load.factor(), 10.0);
        load.add(LOOK * 2 / 5);
        load.weigh(LOOK);
        assert_eq!(load.factor(), 10.0, "between the marks it stays");
        load.weigh(LOOK);
        assert_eq!(load.factor(), 8.0);
        (0..20).for_each(|_| load.weigh(LOOK));
        assert_eq!(load.factor(), 1.0);
    }

    #[test]
    fn under_a_load_that_follows_the_advice_it_settles() {
        // Four times as much as fits: at a factor f it takes 4/f of the time, all of it at most.
        let mut load = Load::default();
        let mut factors = Vec::new();
        for _ in 0..60 {
            load.add(LOOK.mul_f64((4.0 / load.factor()).min(1.0)));
            load.weigh(LOOK);
            factors.push(load.factor());
        }
        let last = &factors[30..];
        assert!(last.iter().all(|factor| (8.0..=10.0).contains(factor)), "{last:?}");
        assert!(last.windows(2).all(|pair| pair[0] == pair[1]), "{last:?}");
    }
}
