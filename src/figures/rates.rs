//! What a reading and the one before it say together: rates, shares of time, and what cannot be.
//!
//! Invariants: within one incarnation and over real elapsed time only; a decrease is a reset and says nothing; more than
//! the machine can give is no reading, and is named in [`Rates::impossible`].

use super::{MAX_CPUS, MicroPercent, PERCENT, scaled};
use crate::model::{Nanos, Values, bits};
use crate::stat::{self, Stat};
use crate::view::Previous;

/// What the kernel counts CPU time in where it is not exact.
const TICK: Nanos = 10_000_000;

/// The rates of a task or a machine between its newest reading and the one before.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rates {
    /// CPU time by elapsed time; 100 % is one CPU.
    pub cpu: Option<MicroPercent>,
    /// Bytes a second over the network, in and out.
    pub network: [Option<u64>; 2],
    /// Bytes a second from and to block devices.
    pub block: [Option<u64>; 2],
    /// CFS periods, and those of them in which it was throttled.
    pub periods: Option<(u64, u64)>,
    /// Share of time in which something waited for a CPU, for memory, for I/O (PSI some).
    pub pressure: [Option<MicroPercent>; 3],
    /// The mask of counters that rose by more than can be.
    pub impossible: u64,
    /// Time between the two readings.
    pub elapsed: Nanos,
}

impl Rates {
    /// Of `values` read at `monotonic` and the reading before; `cpus` is what the machine has, in nanocores, if known.
    pub fn of(values: &Values, monotonic: Nanos, previous: Option<&Previous>, cpus: Option<u64>) -> Rates {
        let mut rates = Rates::default();
        let Some(previous) = previous else { return rates };
        let Some(elapsed) = monotonic.checked_sub(previous.monotonic).filter(|nanos| *nanos > 0) else { return rates };
        rates.elapsed = elapsed;
        let rise = |stat: Stat| values.get(stat)?.checked_sub(previous.get(stat)?);
        let a_second = |stat| Some(scaled(rise(stat)?, 1_000_000_000, elapsed));
        rates.network = [a_second(stat::RX_BYTES), a_second(stat::TX_BYTES)];
        rates.block = [a_second(stat::BLOCK_READ), a_second(stat::BLOCK_WRITTEN)];
        let cpus = cpus.filter(|cpus| *cpus > 0).unwrap_or(MAX_CPUS.saturating_mul(1_000_000_000));
        let mut share = |stat: Stat, most: u64| {
            let rise = rise(stat)?;
            // Two clocks are read one after the other, and the kernel may count in ticks on each CPU: a twentieth and a
            // tick more is no fault.
            let most = u128::from(most) * (u128::from(elapsed) * 21 / 20 + u128::from(TICK));
            if u128::from(rise) * 1_000_000_000 > most {
                rates.impossible |= stat.bit();
                return None;
            }
            Some(scaled(rise, 100 * PERCENT, elapsed))
        };
        rates.cpu = share(stat::CPU, cpus);
        let waiting = [stat::CPU_WAITING, stat::MEMORY_WAITING, stat::IO_WAITING];
        rates.pressure =
            waiting.map(|stat| share(stat, 1_000_000_000).map(|percent: MicroPercent| percent.min(100 * PERCENT)));
        rates.periods = rise(stat::CPU_PERIODS).zip(rise(stat::THROTTLED_PERIODS));
        if let Some((periods, throttled)) = &mut rates.periods {
            // A period counts when it is over, throttling within it: one more is no fault.
            if *throttled > *periods + 1 {
                rates.periods = None;
                rates.impossible |= stat::THROTTLED_PERIODS.bit();
            } else {
                *throttled = (*throttled).min(*periods);
            }
        }
        rates
    }

    /// What cannot be, for people: one line per counter, about the thing called `name`.
    pub fn doubts<'a>(
        &'a self,
        name: &'a str,
        values: &'a Values,
        previous: Option<&'a Previous>,
    ) -> impl Iterator<Item = String> + 'a {
        bits(self.impossible).map(move |stat| {
            let before = previous.and_then(|previous| previous.get(stat)).unwrap_or(0);
            let rise = values.or_zero(stat).saturating_sub(before);
            let (rise, elapsed) = (rise as f64 / stat.row().unit.per_base() as f64, self.elapsed as f64 / 1e9);
            let name_of = stat.name();
            format!("{name}: {name_of} rose by {rise} within {elapsed:.3} s, which cannot be: no rate is shown of it")
        })
    }
}
