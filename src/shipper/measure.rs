//! The shipper's own metrics, set from what it did and holds.

use crate::metrics::ShipperMetrics;
use crate::outbox::{Outbox, OutboxSizes};
use crate::source::{Faults, Reading, Round};
use crate::stat::CPU;
use std::time::Duration;

/// Counts a sample round; `faults` of this source by now, `before` of it when last counted.
pub(super) fn round(metrics: &ShipperMetrics, round: &Round, faults: &Faults, before: &Faults, took: Duration) {
    metrics.rounds.inc();
    metrics.round_seconds.inc_by(took.as_secs_f64());
    for (_, reading) in &round.readings {
        match reading {
            Reading::Fresh(_) => metrics.samples.inc(),
            Reading::Aged { .. } => metrics.samples_by_engine.inc(),
            Reading::Unread(_) => metrics.unread.inc(),
        }
    }
    let unseen = round.ended.iter().filter_map(|ended| ended.unseen_tail);
    unseen.for_each(|tail| metrics.unseen_tail_seconds.inc_by(tail as f64 / 1e9));
    for (fault, n) in faults.iter() {
        if let Some(counter) = metrics.faults.named(fault.name()) {
            counter.inc_by(n.saturating_sub(before.of(fault)));
        }
    }
}

/// What an outbox holds and gave up.
pub(super) struct Held {
    sizes: OutboxSizes,
    unconfirmed: u64,
    /// CPU seconds too old to be handed over.
    dropped_cpu: f64,
    interval: Duration,
}

impl Held {
    pub(super) fn of(outbox: &Outbox) -> Held {
        let dropped = outbox.dropped_amounts().or_zero(CPU);
        Held {
            sizes: outbox.sizes(),
            unconfirmed: outbox.unconfirmed(),
            dropped_cpu: dropped as f64 / 1e9,
            interval: outbox.between_rounds(),
        }
    }
}

/// Sets the gauges.
pub(super) fn held(metrics: &ShipperMetrics, held: &Held) {
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    metrics.tasks.set(count(held.sizes.tasks));
    metrics.rows.set(count(held.sizes.rows));
    metrics.pooled_rows.set(count(held.sizes.pooled));
    metrics.batches_unexposed.set(count(held.sizes.unexposed));
    metrics.batches_unconfirmed.set(i64::try_from(held.unconfirmed).unwrap_or(i64::MAX));
    metrics.dropped_cpu.inc_by((held.dropped_cpu - metrics.dropped_cpu.get()).max(0.0));
    metrics.effective_interval.set(held.interval.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Registry;
    use crate::source::Fault;

    #[test]
    fn every_fault_of_the_source_has_a_counter() {
        let metrics = ShipperMetrics::register(&Registry::new()).unwrap();
        assert!(Fault::ALL.iter().all(|fault| metrics.faults.named(fault.name()).is_some()));
    }
}
