//! Counters that are not read in every round, told in every round: at the rate at which they rose between readings.
//!
//! A counter of an idle task is read once in some rounds. Told as read it would stand still and then rise by all of it
//! within one round: a rate of several times the truth, and more waiting than time has passed. So what it rose by since
//! the reading before is told over as much time as it may have risen in.
//!
//! Invariants: what is told never falls behind by more than the time between two readings, never gets ahead of what was
//! read, adds up to it, and rises no faster than the counter did. A decrease is a reset, told at once. Pure.

use crate::{
    model::{Nanos, Values, bits},
    stat::{self, Stat},
};

const N_RATED: usize = stat::RATED.count_ones() as usize;

/// One counter.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    /// What it was when last read, if it was there, and what was told last.
    read: Option<u64>,
    told: u64,
    /// The rate at which it is told: so much in so much time.
    rise: u64,
    within: Nanos,
}

/// The counters of [`stat::RATED`] of one task. See the head of this file.
#[derive(Debug)]
pub struct Spread {
    /// Those that are read in some rounds only.
    mask: u64,
    read_at: Nanos,
    told_at: Nanos,
    counters: [Counter; N_RATED],
}

impl Spread {
    /// For those of a presence mask that rates are made of.
    pub fn new(mask: u64) -> Spread {
        Spread { mask: mask & stat::RATED, read_at: 0, told_at: 0, counters: Default::default() }
    }

    /// Takes what was read just now, and puts what is to be told of it in its place.
    pub fn read(&mut self, now: Nanos, values: &mut Values) {
        let since_read = now.saturating_sub(self.read_at);
        for (stat, counter) in rated(&mut self.counters) {
            if self.mask & stat.bit() != 0 {
                counter.take(values.get(stat), since_read);
            }
        }
        self.read_at = now;
        self.tell(now, values);
    }

    /// A round in which nothing was read: what is still to be told.
    pub fn tell(&mut self, now: Nanos, values: &mut Values) {
        let since_told = now.saturating_sub(self.told_at);
        for (stat, counter) in rated(&mut self.counters) {
            if counter.tell(since_told) {
                values.set(stat, counter.told);
            }
        }
        self.told_at = now;
    }

    /// All that was read, at once: no rate is made of a task's last reading.
    pub fn settle(&mut self, values: &mut Values) {
        for (stat, counter) in rated(&mut self.counters) {
            if let (Some(read), Some(told)) = (counter.read, values.get(stat)) {
                counter.told = read.max(told);
                counter.read = Some(counter.told);
                values.set(stat, counter.told);
            }
        }
    }
}

fn rated(counters: &mut [Counter; N_RATED]) -> impl Iterator<Item = (Stat, &mut Counter)> {
    bits(stat::RATED).zip(counters)
}

impl Counter {
    fn take(&mut self, now: Option<u64>, since: Nanos) {
        let rise = self.read.zip(now).and_then(|(before, now)| now.checked_sub(before));
        match rise {
            Some(rise) => {
                let slower = u128::from(self.rise) * u128::from(since) <= u128::from(rise) * u128::from(self.within);
                if self.read == Some(self.told) || slower {
                    (self.rise, self.within) = (rise, since);
                }
            }
            None => self.told = now.unwrap_or(0),
        }
        self.read = now;
    }

    /// Whether what is told is another value than what was read.
    fn tell(&mut self, since: Nanos) -> bool {
        let Some(read) = self.read.filter(|read| *read > self.told) else { return false };
        let part = (u128::from(self.rise) * u128::from(since)).div_ceil(u128::from(self.within.max(1)));
        self.told = self.told.saturating_add(u64::try_from(part).unwrap_or(u64::MAX)).min(read);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::{CPU, IO_WAITING, RX_BYTES};
    use proptest::prelude::*;

    const SECOND: Nanos = 1_000_000_000;

    fn values(stat: Stat, value: u64) -> Values {
        [(stat, value)].into_iter().collect()
    }

    /// Told at each of these moments (s), where those with a value are readings.
    fn told(rounds: &[(u64, Option<u64>)]) -> Vec<u64> {
        let mut spread = Spread::new(RX_BYTES.bit());
        let mut now = Values::default();
        let tell = |(at, read): &(u64, Option<u64>)| {
            match read {
                Some(read) => {
                    now.set(RX_BYTES, *read);
                    spread.read(at * SECOND, &mut now);
                }
                None => spread.tell(at * SECOND, &mut now),
            }
            now.or_zero(RX_BYTES)
        };
        rounds.iter().map(tell).collect()
    }

    #[test]
    fn what_rose_between_two_readings_is_told_over_the_time_between_them() {
        let rounds = [(1, Some(100)), (2, None), (3, None), (4, Some(130)), (5, None), (6, None), (7, Some(130))];
        assert_eq!(told(&rounds), [100, 100, 100, 110, 120, 130, 130]);
    }

    #[test]
    fn read_in_every_round_it_is_told_as_read() {
        assert_eq!(told(&[(1, Some(5)), (2, Some(6)), (3, Some(90)), (5, Some(91))]), [5, 6, 90, 91]);
    }

    #[test]
    fn a_task_that_wakes_up_is_behind_until_it_rises_more_slowly() {
        // 10 a second all the time; from 5 s on it is read in every round. At 8 s it stops.
        let read = |at: u64| (at, Some(10 * at.min(7)));
        let rounds = [read(1), (2, None), (3, None), read(4), read(5), read(6), read(7), read(8), read(9), read(10)];
        assert_eq!(told(&rounds), [10, 10, 10, 20, 30, 40, 50, 60, 70, 70]);
    }

    #[test]
    fn a_reset_and_what_was_absent_are_told_at_once_and_cpu_time_is_left_alone() {
        assert_eq!(told(&[(1, Some(100)), (3, Some(160)), (4, Some(7)), (5, Some(8))]), [100, 160, 7, 8]);
        let (mut spread, mut now) = (Spread::new(RX_BYTES.bit()), values(CPU, 5));
        spread.read(SECOND, &mut now);
        assert_eq!(now, values(CPU, 5));
        now = values(RX_BYTES, 90);
        spread.read(4 * SECOND, &mut now);
        assert_eq!(now, values(RX_BYTES, 90));
    }

    #[test]
    fn at_its_end_all_is_told() {
        let (mut spread, mut now) = (Spread::new(RX_BYTES.bit()), values(RX_BYTES, 0));
        spread.read(SECOND, &mut now);
        spread.tell(2 * SECOND, &mut now);
        now.set(RX_BYTES, 60);
        spread.read(3 * SECOND, &mut now);
        assert_eq!(now.get(RX_BYTES), Some(30));
        spread.settle(&mut now);
        assert_eq!(now.get(RX_BYTES), Some(60), "the file could not be read again");
        now.set(RX_BYTES, 61);
        spread.settle(&mut now);
        assert_eq!(now.get(RX_BYTES), Some(61), "it could");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Rounds of any length, read or not, of a task that waits for a part of each: as PSI counts.
        #[test]
        fn nobody_waits_longer_than_time_passes(rounds in prop::collection::vec((1..3_000u64, 0..=100u64, 0..3u8), 1..60)) {
            let (mut spread, mut now) = (Spread::new(IO_WAITING.bit()), values(IO_WAITING, 0));
            spread.read(SECOND, &mut now);
            let (mut at, mut truth, mut before, mut unread) = (SECOND, 0, 0, 0);
            for (millis, percent, read) in rounds {
                let round = millis * 1_000_000;
                at += round;
                truth += round / 100 * percent;
                unread += 1;
                // As the reader does: at least every third round.
                if read == 0 || unread == 3 {
                    unread = 0;
                    now.set(IO_WAITING, truth);
                    spread.read(at, &mut now);
                } else {
                    spread.tell(at, &mut now);
                }
                let told = now.or_zero(IO_WAITING);
                prop_assert!(told >= before && told <= truth);
                prop_assert!(told - before <= round + 1, "{} within {round}", told - before);
                before = told;
            }
            now.set(IO_WAITING, truth);
            spread.settle(&mut now);
            prop_assert_eq!(now.get(IO_WAITING), Some(truth));
        }
    }
}
