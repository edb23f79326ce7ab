//! The ledger of one process: per service, the increments it was handed; what Prometheus scrapes (LEDGER 8–9, 13).
//!
//! A series, one stat of a service, is born with 0 and shows no amount until that 0 was scraped (or the amount waited for
//! 15 s), so that `increase()` sees its birth. Until then amounts are held back, and the batches they came in do not count
//! as exposed.

use crate::model::{Nanos, NodeId, RowMeta, ServiceId, Values, bits};
use crate::stat::Stat;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long an amount waits for the 0 of its series to be scraped.
const BIRTH: Nanos = 15_000_000_000;

/// One service's counters in this process.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) name: Arc<str>,
    pub(super) stack: Arc<str>,
    /// What a scrape shows of the series that are born.
    pub(super) shown: Values,
    /// Amounts of series that are not, by the node they came from: one born takes no part in what another waits for.
    held: BTreeMap<(NodeId, Stat), Held>,
    /// When a row of the service was last here.
    last_row: Nanos,
}

/// An amount held back since this moment and this batch of this epoch.
#[derive(Debug)]
struct Held {
    since: Nanos,
    epoch: u64,
    first: u64,
    amount: u64,
}

/// All accounts of this process.
#[derive(Debug, Default)]
pub(super) struct Ledger(BTreeMap<ServiceId, Account>);

impl Ledger {
    /// A row of the service is here: its series exists from now on.
    pub(super) fn open(&mut self, row: &RowMeta, now: Nanos) -> &mut Account {
        let account = self.0.entry(row.service_id.clone()).or_insert_with(|| Account {
            name: row.service_name.clone(),
            stack: row.stack.clone(),
            shown: Values::default(),
            held: BTreeMap::new(),
            last_row: now,
        });
        account.last_row = now;
        account
    }

    /// Books what batch `n` hands over for a row.
    pub(super) fn add(&mut self, row: &RowMeta, epoch: u64, n: u64, amounts: &Values, now: Nanos) {
        let account = self.open(row, now);
        if amounts.present() & !account.shown.present() == 0 {
            account.shown.add_all(amounts);
            return;
        }
        let mut shown = amounts.clone();
        shown.retain(account.shown.present());
        for stat in bits(amounts.present() & !account.shown.present()) {
            let held = account.held.entry((row.node_id.clone(), stat));
            let held = held.or_insert(Held { since: now, epoch, first: n, amount: 0 });
            if held.epoch != epoch {
                (held.epoch, held.first) = (epoch, n);
            }
            held.amount += amounts.or_zero(stat);
        }
        account.shown.add_all(&shown);
    }

    /// The last batch of a node, up to `stored`, whose amounts a scrape now would show.
    pub(super) fn showable(&self, node: &NodeId, epoch: u64, stored: u64) -> u64 {
        let held = self.0.values().flat_map(|account| &account.held);
        let held = held.filter(|((of, _), held)| of == node && held.epoch == epoch);
        held.map(|(_, held)| held.first - 1).fold(stored, u64::min)
    }

    /// The series whose amounts from a node a scrape now would not show.
    pub(super) fn held(&self, node: &NodeId, epoch: u64) -> Vec<(ServiceId, u64)> {
        let of_node = |account: &Account| {
            let held = account.held.iter().filter(|((of, _), held)| of == node && held.epoch == epoch);
            held.fold(0, |mask, ((_, stat), _)| mask | stat.bit())
        };
        let series = self.0.iter().map(|(service, account)| (service.clone(), of_node(account)));
        series.filter(|(_, series)| *series != 0).collect()
    }

    /// Shows what has waited long enough; before a scrape's snapshot.
    pub(super) fn ripen(&mut self, now: Nanos) {
        for account in self.0.values_mut() {
            let ripe = account.held.iter().filter(|(_, held)| now.saturating_sub(held.since) >= BIRTH);
            let ripe = ripe.fold(0, |mask, ((_, stat), _)| mask | stat.bit());
            account.bear(ripe);
        }
    }

    /// These series of a service were scraped: they are born.
    pub(super) fn scraped(&mut self, service: &ServiceId, series: u64) {
        if let Some(account) = self.0.get_mut(service) {
            account.bear(series);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ServiceId, &Account)> {
        self.0.iter()
    }

    /// Everything handed over, shown or held, by service.
    pub(super) fn totals(&self) -> BTreeMap<ServiceId, Values> {
        let total = |account: &Account| {
            let mut total = account.shown.clone();
            account.held.iter().for_each(|((_, stat), held)| total.add(*stat, held.amount));
            total
        };
        self.0.iter().map(|(service, account)| (service.clone(), total(account))).collect()
    }

    /// Forgets accounts whose service had no row here for `keep`.
    pub(super) fn expire(&mut self, now: Nanos, keep: Nanos) {
        self.0.retain(|_, account| now.saturating_sub(account.last_row) < keep);
    }

    /// A row of the service is still here.
    pub(super) fn touch(&mut self, service: &ServiceId, now: Nanos) {
        if let Some(account) = self.0.get_mut(service) {
            account.last_row = now;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Account {
    /// The series that amounts are held back for.
    pub(super) fn waiting(&self) -> u64 {
        self.held.keys().fold(0, |mask, (_, stat)| mask | stat.bit())
    }

    /// Series show their amounts from here on.
    fn bear(&mut self, series: u64) {
        for stat in bits(series) {
            self.shown.add(stat, 0);
        }
        let shown = &mut self.shown;
        self.held.retain(|(_, stat), held| {
            let born = series & stat.bit() != 0;
            if born {
                shown.add(*stat, held.amount);
            }
            !born
        });
    }
}
