//! How long to wait before trying again: doubling up to a bound, with full jitter, for ever.
//!
//! Each delay is uniform between 0 and the present bound, so that a thousand shippers whose collector came back do not
//! return in step. It deliberately neither sleeps nor gives up: the caller owns the loop and its stop signal.

use backoff::ExponentialBackoff;
use backoff::backoff::Backoff;
use std::time::Duration;

/// The delays between the attempts at one thing.
#[derive(Debug)]
pub struct Retry(ExponentialBackoff);

impl Retry {
    /// The first delay is at most `first`, each later one at most twice the one before, none above `max`.
    pub fn new(first: Duration, max: Duration) -> Retry {
        // The crate draws from interval × (1 ± factor): with factor 1 that is 0 to twice the interval.
        let mut backoff = ExponentialBackoff {
            initial_interval: first.min(max) / 2,
            max_interval: max / 2,
            randomization_factor: 1.0,
            multiplier: 2.0,
            max_elapsed_time: None,
            ..ExponentialBackoff::default()
        };
        backoff.reset();
        Retry(backoff)
    }

    /// How long to wait before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        // `None` is only for a bounded elapsed time, which there is not.
        self.0.next_backoff().unwrap_or(self.0.max_interval)
    }

    /// It worked: the next failure starts from the first delay again.
    pub fn reset(&mut self) {
        self.0.reset();
    }
}

/// Uniform between half of `max` and all of it: what many do after a fixed time, they shall not do in step.
pub fn spread(max: Duration) -> Duration {
    let mut backoff = ExponentialBackoff {
        current_interval: max * 3 / 4,
        initial_interval: max * 3 / 4,
        randomization_factor: 1.0 / 3.0,
        max_elapsed_time: None,
        ..ExponentialBackoff::default()
    };
    backoff.next_backoff().map_or(max, |delay| delay.min(max))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(100);
    const MAX: Duration = Duration::from_secs(2);
    /// The crate rounds by adding a nanosecond to its range.
    const ROUNDING: Duration = Duration::from_nanos(2);

    /// The delay after `n` others, 2000 times.
    fn nth_delays(n: usize) -> Vec<Duration> {
        let nth = |_| {
            let mut retry = Retry::new(FIRST, MAX);
            for _ in 0..n {
                retry.next_delay();
            }
            retry.next_delay()
        };
        (0..2000).map(nth).collect()
    }

    #[test]
    fn delays_fill_the_whole_range_up_to_a_doubling_bound() {
        for (n, bound_ms) in [(0, 100), (1, 200), (2, 400), (4, 1600), (5, 2000), (50, 2000)] {
            let (delays, bound) = (nth_delays(n), Duration::from_millis(bound_ms));
            assert!(delays.iter().all(|d| *d <= bound + ROUNDING), "attempt {n}");
            assert!(delays.iter().any(|d| *d < bound / 10), "attempt {n}: no short delay among 2000");
            assert!(delays.iter().any(|d| *d > bound * 9 / 10), "attempt {n}: no long delay among 2000");
        }
    }

    #[test]
    fn a_spread_time_fills_the_upper_half() {
        let times: Vec<Duration> = (0..2000).map(|_| spread(MAX)).collect();
        assert!(times.iter().all(|t| (MAX / 2 - ROUNDING..=MAX).contains(t)));
        assert!(times.iter().any(|t| *t < MAX * 11 / 20) && times.iter().any(|t| *t > MAX * 19 / 20));
        assert!(
            spread(Duration::from_secs(3600)) >= Duration::from_secs(1799),
            "no bound of the crate's is in the way"
        );
    }

    #[test]
    fn success_starts_over() {
        let mut retry = Retry::new(FIRST, MAX);
        for _ in 0..10 {
            retry.next_delay();
        }
        retry.reset();
        assert!(retry.next_delay() <= FIRST + ROUNDING);
    }

    #[test]
    fn a_first_delay_above_the_bound_is_cut_to_it() {
        assert!((0..1000).all(|_| Retry::new(MAX * 5, FIRST).next_delay() <= FIRST + ROUNDING));
    }
}
