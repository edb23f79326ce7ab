//! Counters kept per interface or device, added up into sums that never fall.
//!
//! An interface that goes takes its counters with it, one that is attached again starts from 0: so each contributes
//! its increases only, and the first reading of one that is new counts whole. A counter that fell was reset, and counts
//! whole from there. It deliberately knows no units and no files.

/// After how many passes in a row without it a key is forgotten. One pass may miss a key: a file of several pages is
/// not read at one moment, and what is forgotten too early would count whole again.
const MISSES: u8 = 2;

/// At most this many keys; a container has a handful of interfaces and devices.
pub const MAX_KEYS: usize = 256;

/// Sums of `N` counters over keys.
#[derive(Debug)]
pub struct Sums<K, const N: usize> {
    entries: Vec<Entry<K, N>>,
    totals: [u64; N],
}

#[derive(Debug)]
struct Entry<K, const N: usize> {
    key: K,
    last: [u64; N],
    missed: u8,
}

impl<K, const N: usize> Default for Sums<K, N> {
    fn default() -> Self {
        Sums { entries: Vec::new(), totals: [0; N] }
    }
}

impl<K: Copy + Eq, const N: usize> Sums<K, N> {
    /// Begins a pass over all keys.
    pub fn begin(&mut self) {
        for entry in &mut self.entries {
            entry.missed = entry.missed.saturating_add(1);
        }
    }

    /// One key's counters, those that were read; may come in several calls. False if there are too many keys.
    pub fn row(&mut self, key: K, now: [Option<u64>; N]) -> bool {
        let place = match self.entries.iter().position(|entry| entry.key == key) {
            Some(place) => place,
            None if self.entries.len() < MAX_KEYS => {
                self.entries.push(Entry { key, last: [0; N], missed: 0 });
                self.entries.len() - 1
            }
            None => return false,
        };
        let entry = &mut self.entries[place];
        entry.missed = 0;
        for ((last, now), total) in entry.last.iter_mut().zip(now).zip(&mut self.totals) {
            if let Some(now) = now {
                let increase = now.checked_sub(*last).unwrap_or(now);
                *total = total.saturating_add(increase);
                *last = now;
            }
        }
        true
    }

    /// Ends a pass and gives the sums. Without any key they are 0: the file was read and says so.
    /// `whole`: every line was understood, so that a key that did not come really went.
    pub fn end(&mut self, whole: bool) -> [u64; N] {
        if whole {
            self.entries.retain(|entry| entry.missed < MISSES);
        } else {
            self.entries.iter_mut().for_each(|entry| entry.missed = 0);
        }
        self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(sums: &mut Sums<&'static str, 1>, rows: &[(&'static str, u64)]) -> u64 {
        sums.begin();
        for (key, value) in rows {
            assert!(sums.row(key, [Some(*value)]));
        }
        sums.end(true)[0]
    }

    #[test]
    fn the_first_reading_counts_whole_and_then_increases_do() {
        let mut sums = Sums::default();
        assert_eq!(pass(&mut sums, &[("eth0", 100), ("eth1", 20)]), 120);
        assert_eq!(pass(&mut sums, &[("eth0", 150), ("eth1", 20)]), 170);
    }

    #[test]
    fn an_interface_that_goes_takes_nothing_with_it_and_counts_whole_when_it_is_back() {
        let mut sums = Sums::default();
        pass(&mut sums, &[("eth0", 100), ("eth1", 20)]);
        assert_eq!(pass(&mut sums, &[("eth0", 110)]), 130);
        assert_eq!(pass(&mut sums, &[("eth0", 110)]), 130);
        assert_eq!(pass(&mut sums, &[("eth0", 110), ("eth1", 50)]), 180);
    }

    #[test]
    fn a_counter_that_fell_was_reset() {
        let mut sums = Sums::default();
        pass(&mut sums, &[("eth0", 1000)]);
        assert_eq!(pass(&mut sums, &[("eth0", 7)]), 1007);
    }

    #[test]
    fn a_key_missed_once_or_in_a_spoilt_pass_does_not_count_twice() {
        let mut sums = Sums::default();
        pass(&mut sums, &[("eth0", 1000), ("eth1", 5)]);
        pass(&mut sums, &[("eth1", 5)]);
        assert_eq!(pass(&mut sums, &[("eth0", 1000), ("eth1", 5)]), 1005);
        for _ in 0..5 {
            sums.begin();
            sums.end(false);
        }
        assert_eq!(pass(&mut sums, &[("eth0", 1000), ("eth1", 5)]), 1005);
    }

    #[test]
    fn keys_are_bounded() {
        let mut sums = Sums::<usize, 1>::default();
        sums.begin();
        assert!((0..MAX_KEYS).all(|key| sums.row(key, [Some(1)])));
        assert!(!sums.row(MAX_KEYS, [Some(1)]));
        assert_eq!(sums.end(true), [MAX_KEYS as u64]);
    }
}
