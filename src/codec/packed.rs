//! A task's two newest readings as a collector keeps them from batch to batch, in about half of a [`Values`]' room.
//!
//! Most figures are far below 2^64, a task has none of a machine's, and the reading before differs by little. So a number is
//! its length, two lengths to a byte, and so many bytes. (A varint is as short, but where one ends must be known before the
//! next can be read: that took twice as long.)

use crate::model::{Nanos, Values, bits};
use crate::stat::{N_STATS, RATED};
use crate::view::Previous;

/// See the head of this file.
#[derive(Clone, Default, Debug)]
pub struct Packed {
    present: u64,
    /// The presence mask of the reading before; 0 where there is none.
    before: u64,
    /// The newest values; then of the reading before its clock, and by how much the newest is above each counter.
    numbers: Box<[u8]>,
}

impl Packed {
    /// Both readings; of the one before what rates need.
    pub fn of(newest: &Values, before: Option<&Previous>) -> Packed {
        let mut writer = Writer::new(n_numbers(newest.present(), before.map_or(0, Previous::present)));
        newest.iter().for_each(|(_, value)| writer.put(value));
        if let Some(before) = before {
            writer.put(before.monotonic);
            before.iter().for_each(|(stat, value)| writer.put(newest.or_zero(stat).wrapping_sub(value)));
        }
        Packed { present: newest.present(), before: before.map_or(0, Previous::present), numbers: writer.finish() }
    }

    /// Whether the newest reading has nothing.
    pub fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// The newest values.
    pub fn newest(&self) -> Values {
        Values::of_mask(self.present, self.numbers())
    }

    /// What rates will need of the newest reading, made at `monotonic`, once there is another.
    pub fn as_before(&self, monotonic: Nanos) -> Option<Previous> {
        // Up to the last of them: the higher half need not be read.
        let upto = self.present & (u64::MAX >> RATED.leading_zeros());
        Previous::of(monotonic, &Values::of_mask(upto, self.numbers()))
    }

    /// The reading before, if there is one.
    pub fn before(&self) -> Option<Previous> {
        let newest = self.newest();
        let mut numbers = self.numbers().skip(self.present.count_ones() as usize);
        let monotonic = numbers.next()?;
        let counters = bits(self.before).zip(numbers).map(|(stat, by)| (stat, newest.or_zero(stat).wrapping_sub(by)));
        Previous::of(monotonic, &counters.collect())
    }

    fn numbers(&self) -> impl Iterator<Item = u64> {
        let n = n_numbers(self.present, self.before);
        let (lengths, mut rest) = self.numbers.split_at(n.div_ceil(2));
        (0..n).map(move |at| {
            let length = usize::from(lengths[at / 2] >> (at % 2 * 4) & 0xf);
            let eight = match rest.first_chunk() {
                Some(eight) => u64::from_le_bytes(*eight),
                None => rest.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)),
            };
            rest = &rest[length..];
            eight & u64::MAX.checked_shr(64 - 8 * length as u32).unwrap_or(0)
        })
    }
}

/// How many numbers are kept of two readings with these masks.
fn n_numbers(present: u64, before: u64) -> usize {
    (present.count_ones() + before.count_ones()) as usize + usize::from(before != 0)
}

/// The most there can be.
const MOST: usize = N_STATS + 1 + RATED.count_ones() as usize;

/// Writes numbers: first the lengths, then the bytes.
struct Writer {
    bytes: [u8; MOST.div_ceil(2) + 8 * MOST],
    /// How many there are, and where the next one's bytes go.
    n: usize,
    at: usize,
}

impl Writer {
    fn new(n: usize) -> Writer {
        Writer { bytes: [0; _], n: 0, at: n.div_ceil(2) }
    }
    fn put(&mut self, number: u64) {
        let length = 8 - number.leading_zeros() as usize / 8;
        self.bytes[self.n / 2] |= (length as u8) << (self.n % 2 * 4);
        self.bytes[self.at..self.at + 8].copy_from_slice(&number.to_le_bytes());
        (self.n, self.at) = (self.n + 1, self.at + length);
    }
    fn finish(&self) -> Box<[u8]> {
        self.bytes[..self.at].into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::{CPU, PIDS, RX_BYTES, Stat};

    #[test]
    fn comes_out_as_it_went_in() {
        assert_eq!((Packed::default().newest(), Packed::default().before()), (Values::default(), None));
        // Every length of a number, 0 and the longest among them, with none, one or two of three absent.
        let number = |stat: Stat, turned: u32| (u64::MAX >> (stat.number() % 64)).rotate_left(turned);
        let zeros: Values = Stat::all().map(|stat| (stat, 0)).collect();
        let longest: Values = Stat::all().map(|stat| (stat, u64::MAX)).collect();
        let mut readings = vec![Values::default(), zeros, longest];
        readings.extend([(1, 0), (2, 0), (3, 7)].map(|(step, turned)| {
            Stat::all().step_by(step).map(|stat| (stat, number(stat, turned))).collect::<Values>()
        }));
        for newest in &readings {
            for before in &readings {
                let before = Previous::of(u64::MAX, before);
                let packed = Packed::of(newest, before.as_ref());
                assert_eq!((packed.newest(), packed.before()), (newest.clone(), before));
                assert_eq!(packed.as_before(7), Previous::of(7, newest));
                assert_eq!(packed.is_empty(), newest.is_empty());
            }
        }
    }

    #[test]
    fn takes_as_many_bytes_as_the_numbers_have() {
        let newest = Values::from_iter([(CPU, 1 << 32), (RX_BYTES, 2), (PIDS, 0)]);
        let before = Values::from_iter([(CPU, (1 << 32) - 256), (RX_BYTES, 2)]);
        // Three values with two bytes of lengths; with the clock and two differences it is three bytes.
        assert_eq!(Packed::of(&newest, None).numbers.len(), 2 + (5 + 1));
        assert_eq!(Packed::of(&newest, Previous::of(7, &before).as_ref()).numbers.len(), 3 + (5 + 1 + 1 + 2));
    }
}
