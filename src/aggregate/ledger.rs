//! The ledger of one process: per service, the increments it was handed; what Prometheus scrapes (LEDGER 8–9, 13).
//!
//! A series is born with 0 and shows no amount until that 0 was scraped (or 15 s passed), so that `increase()` sees
//! its birth. Until then amounts are held back, and the batches they came in do not count as exposed.

use crate::model::{Nanos, NodeId, RowMeta, ServiceId, Values};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long a new series waits for its 0 to be scraped.
const BIRTH: Nanos = 15_000_000_000;

/// One service's counters in this process.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) name: Arc<str>,
    pub(super) stack: Arc<str>,
    /// What a scrape shows.
    pub(super) shown: Values,
    /// Held back until the 0 was shown: per node, since which batch of which epoch.
    held: BTreeMap<NodeId, Held>,
    born: Nanos,
    zero_shown: bool,
    /// When a row of the service was last here.
    last_row: Nanos,
}

#[derive(Debug)]
struct Held {
    epoch: u64,
    first: u64,
    amounts: Values,
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
            born: now,
            zero_shown: false,
            last_row: now,
        });
        account.last_row = now;
        account
    }

    /// Books what batch `n` hands over for a row.
    pub(super) fn add(&mut self, row: &RowMeta, epoch: u64, n: u64, amounts: &Values, now: Nanos) {
        let account = self.open(row, now);
        if account.released(now) {
            account.release();
            account.shown.add_all(amounts);
            return;
        }
        let held = account.held.entry(row.node_id.clone());
        let held = held.or_insert_with(|| Held { epoch, first: n, amounts: Values::default() });
        if held.epoch != epoch {
            (held.epoch, held.first) = (epoch, n);
        }
        held.amounts.add_all(amounts);
    }

    /// The last batch of a node, up to `stored`, whose amounts a scrape now would show.
    pub(super) fn showable(&self, node: &NodeId, epoch: u64, stored: u64) -> u64 {
        let held = self.0.values().filter_map(|account| account.held.get(node));
        held.filter(|held| held.epoch == epoch).map(|held| held.first - 1).fold(stored, u64::min)
    }

    /// Shows what has waited long enough; before a scrape's snapshot.
    pub(super) fn ripen(&mut self, now: Nanos) {
        for account in self.0.values_mut().filter(|account| account.released(now)) {
            account.release();
        }
    }

    /// The 0 of these services was scraped.
    pub(super) fn zeros_shown<'a>(&mut self, services: impl IntoIterator<Item = &'a ServiceId>) {
        for service in services {
            if let Some(account) = self.0.get_mut(service) {
                account.zero_shown = true;
                account.release();
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ServiceId, &Account)> {
        self.0.iter()
    }

    /// Everything handed over, shown or held, by service.
    pub(super) fn totals(&self) -> BTreeMap<ServiceId, Values> {
        let total = |account: &Account| {
            let mut total = account.shown.clone();
            account.held.values().for_each(|held| total.add_all(&held.amounts));
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
    pub(super) fn waits_for_zero(&self) -> bool {
        !self.zero_shown
    }
    fn released(&self, now: Nanos) -> bool {
        self.zero_shown || now.saturating_sub(self.born) >= BIRTH
    }
    fn release(&mut self) {
        for held in std::mem::take(&mut self.held).into_values() {
            self.shown.add_all(&held.amounts);
        }
    }
}
