//! The three clocks, in one place: shells read them here and hand moments to the core as plain numbers.

use crate::model::{Millis, Nanos};
use rustix::time::{ClockId, clock_gettime};

fn nanos(clock: ClockId) -> Nanos {
    let now = clock_gettime(clock);
    // These clocks never read below zero.
    (now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64
}

/// CLOCK_BOOTTIME: a collector's own clock, whose sleep counts (LEDGER 7).
pub fn boottime() -> Nanos {
    nanos(ClockId::Boottime)
}

/// CLOCK_MONOTONIC: what rates are made with.
pub fn monotonic() -> Nanos {
    nanos(ClockId::Monotonic)
}

/// The wall clock, milliseconds since 1970: a stamp, never a measure.
pub fn wall() -> Millis {
    nanos(ClockId::Realtime) / 1_000_000
}

/// A number that differs from process to process: of the clock and the process id.
pub fn process_nonce() -> u64 {
    let seed = [nanos(ClockId::Realtime), nanos(ClockId::Boottime), u64::from(std::process::id())];
    let bytes: Vec<u8> = seed.iter().flat_map(|part| part.to_le_bytes()).collect();
    xxhash_rust::xxh3::xxh3_64(&bytes)
}
