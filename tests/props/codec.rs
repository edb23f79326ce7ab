//! The block of a batch: whatever is written is read back, whatever is read never panics, unknown stats shift nothing.

use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use swarmstats::codec::{Add, Baseline, Decoded, Encoder, Layout, RowPart, chain};
use swarmstats::model::{Counts, Values, bits};
use swarmstats::stat::{COUNTERS, N_STATS, Stat};

/// A number of any size, often small, at a border or as before.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..300u64, 2 => any::<u64>(), 1 => Just(u64::MAX), 1 => (0..64u32).prop_map(|bit| 1 << bit)]
}

fn values() -> impl Strategy<Value = Values> {
    vec((any::<Option<bool>>(), number()), N_STATS).prop_map(|all| {
        let present = Stat::all().zip(all).filter(|(_, (present, _))| present.is_some());
        present.map(|(stat, (_, value))| (stat, value)).collect()
    })
}

fn counts() -> impl Strategy<Value = Counts> {
    (number(), number(), number(), vec(number(), N_STATS)).prop_map(|(running, fresh, ended, have)| Counts {
        running,
        fresh,
        ended,
        have: have.try_into().unwrap(),
    })
}

/// What is handed over: nothing, the change itself, or anything.
#[derive(Clone, Debug)]
enum Given {
    Nothing,
    Change,
    Any(Box<Values>),
}

#[derive(Clone, Debug)]
enum Kind {
    /// A task or a node's own row.
    Plain,
    Row(Box<(Counts, Counts)>, Given),
}

#[derive(Clone, Debug)]
struct Entry {
    gap: u32,
    kind: Kind,
    before: Values,
    now: Values,
    role: Option<bool>,
}

fn entry() -> impl Strategy<Value = Entry> {
    let given =
        prop_oneof![Just(Given::Nothing), Just(Given::Change), values().prop_map(|amounts| Given::Any(amounts.into()))];
    let row = (counts(), proptest::option::of(counts()), given);
    let row = row.prop_map(|(before, now, given)| Kind::Row((before.clone(), now.unwrap_or(before)).into(), given));
    let kind = prop_oneof![Just(Kind::Plain), row];
    let now = proptest::option::weighted(0.8, (values(), any::<u64>()));
    (0..200u32, kind, values(), now, any::<Option<bool>>()).prop_map(|(gap, kind, before, change, role)| {
        // Often only some of the stats change.
        let mut now = before.clone();
        if let Some((to, which)) = change {
            bits(which).for_each(|stat| now.put(stat, to.get(stat)));
        }
        Entry { gap, kind, before, now, role }
    })
}

/// What a sender that carries the stats of a mask makes of entries, with the handle of each.
fn within(mask: u64, entries: Vec<Entry>) -> Vec<(u32, Entry)> {
    let mut handle = 0;
    let place = |mut entry: Entry| {
        entry.before.retain(mask);
        entry.now.retain(mask);
        if let Kind::Row(counts, given) = &mut entry.kind {
            let (before, now) = &mut **counts;
            for stat in Stat::all().filter(|stat| mask & stat.bit() == 0) {
                (before.have[stat.number()], now.have[stat.number()]) = (0, 0);
            }
            match given {
                Given::Any(amounts) => amounts.retain(mask & COUNTERS),
                Given::Change if change(&entry.before, &entry.now).is_none() => *given = Given::Nothing,
                _ => {}
            }
        }
        handle += entry.gap + 1;
        (handle - 1, entry)
    };
    entries.into_iter().map(place).collect()
}

/// By how much each counter rose, if none fell or went away.
fn change(before: &Values, now: &Values) -> Option<Values> {
    let all = bits(COUNTERS & (before.present() | now.present()));
    let rose = all.map(|stat| Some((stat, now.or_zero(stat).checked_sub(before.or_zero(stat))?)));
    let rose: Option<Vec<(Stat, u64)>> = rose.collect();
    rose.map(|rose| rose.into_iter().filter(|(_, rise)| *rise > 0).collect())
}

fn amounts(entry: &Entry) -> Values {
    match &entry.kind {
        Kind::Row(_, Given::Change) => change(&entry.before, &entry.now).unwrap(),
        Kind::Row(_, Given::Any(amounts)) => amounts.iter().filter(|(_, amount)| *amount > 0).collect(),
        _ => Values::default(),
    }
}

fn encode(layout: &Layout, entries: &[(u32, Entry)]) -> Vec<u8> {
    let mut encoder = Encoder::new(layout);
    for (handle, entry) in entries {
        let given = amounts(entry);
        let row = match &entry.kind {
            Kind::Row(counts, how) => {
                let (counts_before, counts) = &**counts;
                let add = if matches!(how, Given::Nothing) { Add::None } else { Add::Given(&given) };
                Some(RowPart { counts_before, counts, add })
            }
            _ => None,
        };
        encoder.entry(*handle, &entry.before, &entry.now, row, entry.role);
    }
    encoder.finish()
}

fn baseline(entries: &BTreeMap<u32, Entry>, handle: u32) -> Option<Baseline<'_>> {
    entries.get(&handle).map(|entry| match &entry.kind {
        Kind::Plain => Baseline::Plain(&entry.before),
        Kind::Row(counts, _) => Baseline::Row(&entry.before, &counts.0),
    })
}

/// Entries read are as written, as far as the reader knows their stats.
fn compare(known: u64, entries: &BTreeMap<u32, Entry>, decoded: &Decoded) -> Result<(), TestCaseError> {
    let only = |values: &Values| {
        let mut values = values.clone();
        values.retain(known);
        values
    };
    for change in &decoded.changes {
        let entry = &entries[&change.handle];
        prop_assert_eq!(change.role, entry.role);
        let now = change.values.map_or(only(&entry.before), |at| decoded.values[at].clone());
        prop_assert_eq!(now, only(&entry.now));
        match (&entry.kind, change.row) {
            (Kind::Row(counts, _), Some(at)) => {
                let counts = &counts.1;
                let (read, add) = &decoded.rows[at];
                prop_assert_eq!((read.running, read.fresh, read.ended), (counts.running, counts.fresh, counts.ended));
                for stat in bits(known) {
                    prop_assert_eq!(read.have[stat.number()], counts.have[stat.number()]);
                }
                prop_assert_eq!(add, &only(&amounts(entry)));
            }
            (Kind::Row(..), None) => prop_assert!(false, "a row without its part"),
            (_, row) => prop_assert_eq!(row, None),
        }
    }
    Ok(())
}

fn says_nothing(entry: &Entry) -> bool {
    let row = match &entry.kind {
        Kind::Row(counts, _) => counts.0 == counts.1 && amounts(entry).is_empty(),
        _ => true,
    };
    row && entry.role.is_none() && entry.before == entry.now
}

/// Before nodes had figures of their own a node's entry was its role, and nothing else.
#[test]
fn a_nodes_entry_of_an_older_shipper_is_its_role() {
    let nothing = Values::default();
    let mut decoded = Decoded::default();
    // Gap 0 with flags: role 2, primary.
    decoded.read(&Layout::of_mask(u64::MAX), &[0x01, 0x40], |_| Some(Baseline::Plain(&nothing))).unwrap();
    let change = decoded.changes[0];
    assert_eq!((change.handle, change.values, change.row, change.role), (0, None, None, Some(true)));
}

proptest! {
    // Each case is many values; a few dozen cases are thousands of fields.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read_back(mask in any::<u64>(), entries in vec(entry(), 0..12)) {
        let entries = within(mask, entries);
        let layout = Layout::of_mask(mask);
        let block = encode(&layout, &entries);
        let by_handle: BTreeMap<u32, Entry> = entries.iter().cloned().collect();
        let mut decoded = Decoded::default();
        decoded.read(&layout, &block, |handle| baseline(&by_handle, handle)).unwrap();
        compare(mask, &by_handle, &decoded)?;
        let read: Vec<u32> = decoded.changes.iter().map(|change| change.handle).collect();
        let silent = |(handle, entry): &&(u32, Entry)| !says_nothing(entry) || read.contains(handle);
        prop_assert_eq!(&read, &entries.iter().filter(silent).map(|(handle, _)| *handle).collect::<Vec<_>>());
    }

    #[test]
    fn stats_that_the_reader_does_not_know_shift_nothing(
        mask in any::<u64>(),
        unknown in any::<u64>(),
        entries in vec(entry(), 0..8),
    ) {
        let entries = within(mask, entries);
        let block = encode(&Layout::of_mask(mask), &entries);
        let newer = |(place, number): (usize, u32)| {
            if unknown >> number & 1 == 1 { 1_000 + place as u32 } else { number }
        };
        let numbers = Layout::of_mask(mask).numbers().into_iter().enumerate().map(newer).collect::<Vec<_>>();
        let older = Layout::of_numbers(&numbers).unwrap();
        // The reader's baselines lack what it does not know.
        let mut by_handle: BTreeMap<u32, Entry> = entries.into_iter().collect();
        for entry in by_handle.values_mut() {
            entry.before.retain(!unknown);
        }
        let mut decoded = Decoded::default();
        decoded.read(&older, &block, |handle| baseline(&by_handle, handle)).unwrap();
        for entry in by_handle.values_mut() {
            if let Kind::Row(_, given @ Given::Change) = &mut entry.kind {
                let mut now = entry.now.clone();
                now.retain(!unknown);
                *given = Given::Any(change(&entry.before, &now).unwrap().into());
            }
        }
        compare(mask & !unknown, &by_handle, &decoded)?;
    }

    #[test]
    fn a_block_cut_short_is_refused_or_read_as_far_as_it_goes(
        mask in any::<u64>(),
        entries in vec(entry(), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let entries = within(mask, entries);
        let layout = Layout::of_mask(mask);
        let block = encode(&layout, &entries);
        let by_handle: BTreeMap<u32, Entry> = entries.into_iter().collect();
        let mut decoded = Decoded::default();
        let short = &block[..cut.index(block.len() + 1)];
        if decoded.read(&layout, short, |handle| baseline(&by_handle, handle)).is_ok() {
            compare(mask, &by_handle, &decoded)?;
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        numbers in vec(0..70u32, 0..70),
        entries in vec(entry(), 0..8),
        block in vec(any::<u8>(), 0..200),
    ) {
        let Some(layout) = Layout::of_numbers(&numbers) else { return Ok(()) };
        let by_handle: BTreeMap<u32, Entry> = within(u64::MAX, entries).into_iter().collect();
        let mut decoded = Decoded::default();
        decoded.read(&layout, &block, |handle| baseline(&by_handle, handle)).ok();
    }

    #[test]
    fn the_check_of_the_baselines_tells_streams_order_and_bytes(
        k in any::<u64>(),
        one in vec(any::<u8>(), 0..20),
        other in vec(any::<u8>(), 0..20),
    ) {
        prop_assume!(one != other);
        let through = |start, blocks: [&[u8]; 2]| chain(chain(start, 1, blocks[0]), 2, blocks[1]);
        let all = [
            through(k, [&one, &other]),
            through(k, [&other, &one]),
            through(k, [&one, &one]),
            through(k.wrapping_add(1), [&one, &other]),
        ];
        let distinct: std::collections::BTreeSet<u64> = all.into();
        prop_assert_eq!(distinct.len(), all.len());
    }
}
