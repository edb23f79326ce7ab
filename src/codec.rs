//! The block of a batch: what changed since the last one of the same stream, as change masks and zigzag varint deltas.
//!
//! Both ends keep the last values of each handle (the baselines); an entry that did not change costs nothing. A stat is
//! named by its *position* in the list that the Hello gave, so that peers of different versions never shift a field: a
//! position whose number is unknown here is read and passed over. [`chain`] is the check that both ends' baselines agree.
//!
//! ```text
//! block  = entry*                        in rising order of handles
//! entry  = varint(gap·2 + extra) [flags] [presence] [values] [counts] [add]
//! flags  = bit 0 values, 1 counts, 2 presence, 3–4 add (0 none, 1 equals the change, 2 given), 5–6 role (0 as before, 1 copy, 2 primary)
//!          without `extra`: a task's or a node's values; a row's values and counts, with add = the change
//! values = varint(mask) zigzag-varint(difference)*    presence = varint(mask)    add = varint(mask) varint(amount)*
//! counts = varint(mask) zigzag-varint(difference)*    over running, fresh, ended, then who has each position's stat
//! ```
//!
//! It deliberately knows nothing of keys, roles' meaning or streams.

mod packed;
mod varint;

pub use packed::Packed;

use crate::model::{Counts, Values};
use crate::stat::{self, Stat};
use varint::{Reader, put, put_signed};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The most positions a Hello may list: a counts mask has three bits more.
pub const MAX_POSITIONS: usize = 61;
const _: () = assert!(stat::N_STATS <= MAX_POSITIONS, "the catalogue has outgrown the masks");

/// Why a block does not decode. The stream ends with DATA_LOSS; reconnecting is the keyframe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It ends in the middle of an entry.
    #[error("the block ends in the middle of an entry")]
    Truncated,
    /// A number has more than 64 bits.
    #[error("a number in the block has more than 64 bits")]
    TooLong,
    /// It names a handle that this stream has not introduced.
    #[error("the block names handle {0}, which this stream has not introduced")]
    UnknownHandle(u32),
    /// A mask has bits beyond the positions of the Hello.
    #[error("a mask in the block has bits beyond the positions of the hello")]
    Mask,
    /// Flags that no version of this codec writes.
    #[error("flags {0:#04x} are not known")]
    Flags(u8),
    /// "Equals the change" where the change is below zero.
    #[error("an amount equals a change that is below zero")]
    Negative,
}

/// Which stat stands at which position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout(Vec<Option<Stat>>);

impl Layout {
    /// The layout of a sender that carries the stats of a mask.
    pub fn of_mask(mask: u64) -> Layout {
        Layout(crate::model::bits(mask).map(Some).collect())
    }
    /// The layout that a Hello describes; `None` where it lists too many or one twice.
    pub fn of_numbers(numbers: &[u32]) -> Option<Layout> {
        let mut sorted = numbers.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        (numbers.len() <= MAX_POSITIONS && sorted.len() == numbers.len())
            .then(|| Layout(numbers.iter().map(|number| Stat::from_number(*number)).collect()))
    }
    /// What a Hello says of it.
    pub fn numbers(&self) -> Vec<u32> {
        self.0.iter().flatten().map(|stat| stat.number() as u32).collect()
    }
    fn all(&self) -> u64 {
        (1 << self.0.len()) - 1
    }
    /// A mask of positions for one of stats.
    fn positions(&self, stats: u64) -> u64 {
        self.stats().fold(0, |mask, (position, stat)| mask | (stats >> stat.number() & 1) << position)
    }
    fn stats(&self) -> impl Iterator<Item = (usize, Stat)> + '_ {
        self.0.iter().enumerate().filter_map(|(position, stat)| stat.map(|stat| (position, stat)))
    }
}

/// The check after a block: of all blocks of the stream so far, in order.
pub fn chain(before: u64, n: u64, block: &[u8]) -> u64 {
    xxh3_64_with_seed(block, before ^ n)
}

const VALUES: u8 = 1;
const COUNTS: u8 = 2;
const PRESENCE: u8 = 4;
const ADD_SHIFT: u8 = 3;
const ROLE_SHIFT: u8 = 5;

/// What an entry hands to the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Add<'a> {
    /// Nothing.
    None,
    /// These amounts.
    Given(&'a Values),
}

/// A row's part of an entry.
#[derive(Clone, Copy, Debug)]
pub struct RowPart<'a> {
    /// Counts at the last batch.
    pub counts_before: &'a Counts,
    /// Counts now.
    pub counts: &'a Counts,
    /// What is handed to the ledger.
    pub add: Add<'a>,
}

/// Writes the entries of one block.
#[derive(Debug)]
pub struct Encoder<'a> {
    layout: &'a Layout,
    next: u32,
    block: Vec<u8>,
}

impl<'a> Encoder<'a> {
    /// An empty block.
    pub fn new(layout: &'a Layout) -> Self {
        Encoder { layout, next: 0, block: Vec::new() }
    }

    /// Adds an entry if there is anything to say. Handles must come in rising order.
    pub fn entry(&mut self, handle: u32, before: &Values, now: &Values, row: Option<RowPart<'_>>, role: Option<bool>) {
        let changed = match before.differing(now) & now.present() {
            0 => 0,
            stats => self.layout.positions(stats),
        };
        let counted = row.map_or(0, |row| self.counted(row.counts_before, row.counts));
        let add = match row.map(|row| row.add) {
            None | Some(Add::None) => 0,
            Some(Add::Given(amounts)) if self.equals_change(amounts, before, now) => 1,
            Some(Add::Given(_)) => 2,
        };
        let presence = before.present() != now.present();
        let role = role.map_or(0, |primary| 1 + u8::from(primary));
        if changed == 0 && counted == 0 && !presence && add == 0 && role == 0 {
            return;
        }
        let usual = role == 0 && !presence && if row.is_some() { add == 1 } else { true };
        let gap = u64::from(handle - self.next);
        self.next = handle + 1;
        put(&mut self.block, gap << 1 | u64::from(!usual));
        let flags = (u8::from(changed != 0) * VALUES)
            | (u8::from(counted != 0) * COUNTS)
            | (u8::from(presence) * PRESENCE)
            | add << ADD_SHIFT
            | role << ROLE_SHIFT;
        if !usual {
            self.block.push(flags);
        }
        if presence {
            put(&mut self.block, self.layout.positions(now.present()));
        }
        if usual || changed != 0 {
            put(&mut self.block, changed);
            for stat in positions(changed).filter_map(|position| self.layout.0[position]) {
                put_signed(&mut self.block, now.or_zero(stat).wrapping_sub(before.or_zero(stat)));
            }
        }
        if let Some(row) = row {
            if usual || counted != 0 {
                self.put_counts(counted, row.counts_before, row.counts);
            }
            if let (2, Add::Given(amounts)) = (add, row.add) {
                self.put_amounts(amounts);
            }
        }
    }

    /// The finished block.
    pub fn finish(self) -> Vec<u8> {
        self.block
    }

    fn counted(&self, before: &Counts, now: &Counts) -> u64 {
        let head = u64::from(before.running != now.running)
            | u64::from(before.fresh != now.fresh) << 1
            | u64::from(before.ended != now.ended) << 2;
        self.layout.stats().fold(head, |mask, (position, stat)| {
            mask | u64::from(before.have[stat.number()] != now.have[stat.number()]) << (position + 3)
        })
    }

    fn equals_change(&self, amounts: &Values, before: &Values, now: &Values) -> bool {
        crate::model::bits(stat::COUNTERS)
            .all(|stat| now.or_zero(stat).checked_sub(before.or_zero(stat)) == Some(amounts.or_zero(stat)))
    }

    fn put_counts(&mut self, mask: u64, before: &Counts, now: &Counts) {
        put(&mut self.block, mask);
        let heads = [(before.running, now.running), (before.fresh, now.fresh), (before.ended, now.ended)]
            .into_iter()
            .enumerate();
        let stats =
            self.layout.stats().map(|(at, stat)| (at + 3, (before.have[stat.number()], now.have[stat.number()])));
        for (_, (before, now)) in heads.chain(stats).filter(|(bit, _)| mask >> bit & 1 == 1) {
            put_signed(&mut self.block, now.wrapping_sub(before));
        }
    }

    fn put_amounts(&mut self, amounts: &Values) {
        let given = |stat: &Stat| amounts.or_zero(*stat) != 0;
        let mask = self.layout.stats().filter(|(_, stat)| given(stat)).fold(0, |mask, (at, _)| mask | 1 << at);
        put(&mut self.block, mask);
        for (_, stat) in self.layout.stats().filter(|(_, stat)| given(stat)) {
            put(&mut self.block, amounts.or_zero(stat));
        }
    }
}

/// What a handle stands for, with its values at the last batch.
#[derive(Clone, Copy, Debug)]
pub enum Baseline<'a> {
    /// A task, or a node's own row.
    Plain(&'a Values),
    /// A task as a collector keeps it.
    Packed(&'a Packed),
    /// A (node, service) row.
    Row(&'a Values, &'a Counts),
}

/// One decoded entry; the parts stand in the [`Decoded`] lists at these places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Which key.
    pub handle: u32,
    /// Place in [`Decoded::values`], where values changed.
    pub values: Option<usize>,
    /// Place in [`Decoded::rows`], for a row.
    pub row: Option<usize>,
    /// A new role: primary or copy.
    pub role: Option<bool>,
}

/// A whole block, decoded; reused from batch to batch so that nothing is allocated in the steady state.
#[derive(Default, Debug)]
pub struct Decoded {
    /// In rising order of handles.
    pub changes: Vec<Change>,
    /// New values.
    pub values: Vec<Values>,
    /// New counts and amounts of rows.
    pub rows: Vec<(Counts, Values)>,
}

impl Decoded {
    /// Reads a block against its baselines, all or nothing: after an error the contents mean nothing.
    pub fn read<'b>(
        &mut self,
        layout: &Layout,
        block: &[u8],
        mut baseline: impl FnMut(u32) -> Option<Baseline<'b>>,
    ) -> Result<(), DecodeError> {
        self.changes.clear();
        self.values.clear();
        self.rows.clear();
        let mut reader = Reader(block);
        let mut next = 0u32;
        while !reader.0.is_empty() {
            let head = reader.varint()?;
            let handle = u32::try_from(head >> 1)
                .ok()
                .and_then(|gap| next.checked_add(gap))
                .ok_or(DecodeError::UnknownHandle(u32::MAX))?;
            next = handle.checked_add(1).ok_or(DecodeError::UnknownHandle(handle))?;
            let base = baseline(handle).ok_or(DecodeError::UnknownHandle(handle))?;
            let flags = if head & 1 == 1 {
                reader.byte()?
            } else {
                match base {
                    Baseline::Row(..) => VALUES | COUNTS | 1 << ADD_SHIFT,
                    Baseline::Plain(_) | Baseline::Packed(_) => VALUES,
                }
            };
            self.entry(layout, &mut reader, handle, flags, base)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        layout: &Layout,
        reader: &mut Reader<'_>,
        handle: u32,
        flags: u8,
        base: Baseline<'_>,
    ) -> Result<(), DecodeError> {
        let role = match flags >> ROLE_SHIFT {
            0 => None,
            1 => Some(false),
            2 => Some(true),
            _ => return Err(DecodeError::Flags(flags)),
        };
        let mut change = Change { handle, values: None, row: None, role };
        if flags & (VALUES | PRESENCE) != 0 {
            let mut values = match base {
                Baseline::Plain(values) | Baseline::Row(values, _) => values.clone(),
                Baseline::Packed(packed) => packed.newest(),
            };
            reader.values(layout, &mut values, flags)?;
            change.values = Some(self.values.len());
            self.values.push(values);
        }
        match base {
            Baseline::Row(before, counts) => {
                let now = change.values.map_or(before, |at| &self.values[at]);
                let mut counts = counts.clone();
                if flags & COUNTS != 0 {
                    reader.counts(layout, &mut counts)?;
                }
                let add = match flags >> ADD_SHIFT & 3 {
                    0 => Values::default(),
                    1 => the_change(before, now)?,
                    2 => reader.amounts(layout)?,
                    _ => return Err(DecodeError::Flags(flags)),
                };
                change.row = Some(self.rows.len());
                self.rows.push((counts, add));
            }
            _ if flags & COUNTS != 0 || flags >> ADD_SHIFT & 3 != 0 => return Err(DecodeError::Flags(flags)),
            _ => {}
        }
        self.changes.push(change);
        Ok(())
    }
}

fn the_change(before: &Values, now: &Values) -> Result<Values, DecodeError> {
    let mut amounts = Values::default();
    for stat in crate::model::bits(stat::COUNTERS & now.present()) {
        let change = now.or_zero(stat).checked_sub(before.or_zero(stat)).ok_or(DecodeError::Negative)?;
        if change > 0 {
            amounts.set(stat, change);
        }
    }
    Ok(amounts)
}

/// The positions of a mask, lowest first.
fn positions(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let position = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        position
    })
}

impl Reader<'_> {
    fn mask(&mut self, allowed: u64) -> Result<u64, DecodeError> {
        let mask = self.varint()?;
        if mask & !allowed == 0 { Ok(mask) } else { Err(DecodeError::Mask) }
    }
    /// Turns the values at the last batch into those of now.
    fn values(&mut self, layout: &Layout, now: &mut Values, flags: u8) -> Result<(), DecodeError> {
        if flags & PRESENCE != 0 {
            let present = self.mask(layout.all())?;
            for (position, stat) in layout.stats() {
                match present >> position & 1 {
                    1 => now.set(stat, now.or_zero(stat)),
                    _ => now.clear(stat),
                }
            }
        }
        if flags & VALUES != 0 {
            let mut changed = self.mask(layout.all())?;
            while changed != 0 {
                let position = changed.trailing_zeros() as usize;
                changed &= changed - 1;
                let difference = self.signed()?;
                if let Some(stat) = layout.0[position] {
                    now.set(stat, now.or_zero(stat).wrapping_add(difference));
                }
            }
        }
        Ok(())
    }
    fn counts(&mut self, layout: &Layout, counts: &mut Counts) -> Result<(), DecodeError> {
        let mut mask = self.mask(layout.all() << 3 | 7)?;
        while mask != 0 {
            let bit = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let difference = self.signed()?;
            let slot = match bit {
                0 => &mut counts.running,
                1 => &mut counts.fresh,
                2 => &mut counts.ended,
                _ => match layout.0[bit - 3] {
                    Some(stat) => &mut counts.have[stat.number()],
                    None => continue,
                },
            };
            *slot = slot.wrapping_add(difference);
        }
        Ok(())
    }
    fn amounts(&mut self, layout: &Layout) -> Result<Values, DecodeError> {
        let mut mask = self.mask(layout.all())?;
        let mut amounts = Values::default();
        while mask != 0 {
            let position = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let amount = self.varint()?;
            if let Some(stat) = layout.0[position] {
                amounts.set(stat, amount);
            }
        }
        Ok(amounts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::{CPU, MEMORY_USED, PIDS};

    fn layout() -> Layout {
        Layout::of_mask(CPU.bit() | MEMORY_USED.bit() | PIDS.bit())
    }

    #[test]
    fn the_bytes_of_a_task_are_as_calculated_by_hand() {
        let layout = layout();
        let before = Values::from_iter([(CPU, 1000), (MEMORY_USED, 4096), (PIDS, 1)]);
        let now = Values::from_iter([(CPU, 1300), (MEMORY_USED, 4096), (PIDS, 0)]);
        let mut encoder = Encoder::new(&layout);
        encoder.entry(2, &before, &now, None, None);
        // gap 2, no extra → 4; positions 0 and 2 → 5; +300 → zigzag 600 → d8 04; −1 → zigzag 1
        assert_eq!(encoder.finish(), [0x04, 0x05, 0xd8, 0x04, 0x01]);
    }

    #[test]
    fn an_unchanged_entry_costs_nothing() {
        let layout = layout();
        let same = Values::from_iter([(CPU, 7)]);
        let mut encoder = Encoder::new(&layout);
        encoder.entry(0, &same, &same.clone(), None, None);
        assert!(encoder.finish().is_empty());
    }

    #[test]
    fn a_stat_that_goes_away_is_absent_and_not_zero() {
        let layout = layout();
        let before = Values::from_iter([(CPU, 7), (PIDS, 3)]);
        let now = Values::from_iter([(CPU, 7)]);
        let mut encoder = Encoder::new(&layout);
        encoder.entry(0, &before, &now, None, None);
        let mut decoded = Decoded::default();
        decoded.read(&layout, &encoder.finish(), |_| Some(Baseline::Plain(&before))).unwrap();
        assert_eq!(decoded.values[0], now);
    }

    #[test]
    fn a_stat_unknown_here_is_passed_over_and_nothing_shifts() {
        let newer = Layout::of_mask(CPU.bit() | MEMORY_USED.bit() | PIDS.bit());
        let older = Layout::of_numbers(&[0, 63, 9]).unwrap(); // position 1 means nothing here
        let now = Values::from_iter([(CPU, 5), (MEMORY_USED, 6), (PIDS, 7)]);
        let mut encoder = Encoder::new(&newer);
        encoder.entry(0, &Values::default(), &now, None, Some(true));
        let nothing = Values::default();
        let mut decoded = Decoded::default();
        decoded.read(&older, &encoder.finish(), |_| Some(Baseline::Plain(&nothing))).unwrap();
        assert_eq!(decoded.values[0], Values::from_iter([(CPU, 5), (PIDS, 7)]));
    }

    #[test]
    fn a_rows_amount_is_one_bit_where_it_equals_the_change() {
        let layout = layout();
        let (before, now) = (Values::from_iter([(CPU, 100)]), Values::from_iter([(CPU, 130)]));
        let counts = Counts::default();
        let block = |amount| {
            let amounts = Values::from_iter([(CPU, amount)]);
            let mut encoder = Encoder::new(&layout);
            let row = RowPart { counts_before: &counts, counts: &counts, add: Add::Given(&amounts) };
            encoder.entry(0, &before, &now, Some(row), None);
            encoder.finish()
        };
        assert_eq!(block(30), [0, 1, 60, 0], "header, mask, +30, no counts changed");
        assert_eq!(block(90).len(), 1 + 1 + 2 + 2, "header, flags, values, and the amount written out");
        for amount in [30, 90] {
            let mut decoded = Decoded::default();
            decoded.read(&layout, &block(amount), |_| Some(Baseline::Row(&before, &counts))).unwrap();
            assert_eq!(decoded.rows[0].1.get(CPU), Some(amount));
        }
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        let layout = layout();
        let nothing = Values::default();
        let read = |block: &[u8]| {
            Decoded::default().read(&layout, block, |handle| (handle == 0).then_some(Baseline::Plain(&nothing)))
        };
        assert_eq!(read(&[0x00]), Err(DecodeError::Truncated));
        assert_eq!(read(&[0x02, 0x00]), Err(DecodeError::UnknownHandle(1)));
        assert_eq!(read(&[0x00, 0x08, 0x00]), Err(DecodeError::Mask));
        assert_eq!(read(&[0x01, 0xff]), Err(DecodeError::Flags(0xff)));
        assert_eq!(read(&[0xff; 11]), Err(DecodeError::TooLong));
    }
}
