//! What an outbox says of itself: rows for the shipper's exposition, how its members stand, how much it holds and gave up.

use super::peer::{self, Peer};
use super::{Outbox, rows};
use crate::model::{MemberId, Nanos, RowMeta, Values};
use std::sync::Arc;

/// A row for the shipper's own exposition.
#[derive(Clone, Debug)]
pub struct RowFigures {
    /// Its texts.
    pub meta: Arc<RowMeta>,
    /// Totals and gauge sums.
    pub values: Values,
    /// Tasks read in the newest round.
    pub fresh: u64,
}

/// How much the outbox holds and gave up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxSizes {
    /// Running tasks.
    pub tasks: usize,
    /// Rows.
    pub rows: usize,
    /// Peers that something is owed to or sent to.
    pub peers: usize,
    /// Batches acknowledged, not known to be scraped.
    pub unexposed: usize,
    /// Rows with amounts in their pool.
    pub pooled: usize,
}

/// How one member stands with this shipper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFigures {
    /// Which.
    pub member: MemberId,
    /// It is in the ring; else something is still owed to it.
    pub in_ring: bool,
    /// It may be given amounts and leases (LEDGER 8).
    pub usable: bool,
    /// It said that it wants to leave.
    pub draining: bool,
    /// Batches with amounts that are in flight, or acknowledged and not known to be scraped.
    pub owed_batches: usize,
    /// For how long the oldest of them is owed.
    pub owed_for: Option<Nanos>,
}

/// Batches and what they handed over, counted from the start on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub batches: u64,
    /// Σ of their amounts.
    pub amounts: Values,
}

impl Tally {
    pub(super) fn count(&mut self, back: &[peer::Sent]) {
        self.batches += back.len() as u64;
        back.iter().flat_map(|sent| sent.amounts.values()).for_each(|aged| self.amounts.add_all(&aged.total()));
    }
}

impl Outbox {
    /// Rows for the shipper's own exposition: exact with no protocol.
    pub fn rows(&self) -> Vec<RowFigures> {
        let figures = |row: &rows::Row| {
            let mut values = row.values.clone();
            values.retain(!row.counts.lacking());
            RowFigures { meta: row.meta.clone(), values, fresh: row.counts.fresh }
        };
        self.books.rows.values().map(figures).collect()
    }

    /// Amounts dropped since the start because they were too old to be handed over.
    pub fn dropped_amounts(&self) -> &Values {
        &self.books.dropped
    }

    /// How much is held.
    pub fn sizes(&self) -> OutboxSizes {
        OutboxSizes {
            tasks: self.books.tasks.len(),
            rows: self.books.rows.len(),
            peers: self.peers.len(),
            unexposed: self.peers.values().map(Peer::n_unexposed).sum(),
            pooled: self.books.rows.values().filter(|row| !row.pool.is_empty()).count(),
        }
    }

    /// The time between the two newest rounds; zero before there are two.
    pub fn between_rounds(&self) -> std::time::Duration {
        let between = self.books.monotonic - self.books.previous;
        std::time::Duration::from_nanos(if self.books.previous == 0 { 0 } else { between })
    }

    /// How every member stands that is in the ring, or that something is owed to.
    pub fn peers(&self, now: Nanos) -> Vec<PeerFigures> {
        let ring = self.ring.as_ref();
        let figures = |(member, peer): (&MemberId, &Peer)| PeerFigures {
            member: member.clone(),
            in_ring: ring.is_some_and(|ring| ring.contains(member)),
            usable: peer.usable(now, self.cfg.lease),
            draining: peer.is_draining(),
            owed_batches: peer.n_owed(),
            owed_for: peer.owed_since().map(|since| now.saturating_sub(since)),
        };
        self.peers.iter().map(figures).collect()
    }

    /// How often since the start a key was sent to another member than before.
    pub fn moves(&self) -> u64 {
        self.books.moves
    }

    /// How often since the start a lease went on to another process because its holder was dead, gone or unheard of.
    pub fn takeovers(&self) -> u64 {
        self.books.takeovers
    }

    /// What was handed on because its process had died (LEDGER 10). What of it a scrape had shown without the shipper's
    /// knowing is counted twice (LEDGER's blur).
    pub fn returned(&self) -> &Tally {
        &self.returned
    }

    /// What was stored and forgotten because no scrape showed it within `max_catch_up`: shown by the next scrape, or
    /// missing if its process died before that.
    pub fn unconfirmed(&self) -> &Tally {
        &self.unconfirmed
    }
}

pub mod accounts {
    //! Where every amount is: what the simulation checks LEDGER's L1 with.
    use super::*;
    use crate::model::{Gen, ServiceId};
    use std::collections::BTreeMap;

    /// Amounts owed to one process: (process, batch number or `None` while in a pool, per service).
    pub type Owed = (Gen, u64, BTreeMap<ServiceId, Values>);

    impl Outbox {
        /// Amounts in pools, by service.
        pub fn pooled(&self) -> BTreeMap<ServiceId, Values> {
            self.books.rows.iter().map(|(service, row)| (service.clone(), row.pool.total())).collect()
        }
        /// Amounts dropped and counted, by service.
        pub fn dropped(&self) -> BTreeMap<ServiceId, Values> {
            self.books.rows.iter().map(|(service, row)| (service.clone(), row.dropped.clone())).collect()
        }
        /// Amounts sent and not settled.
        pub fn owed(&self) -> Vec<Owed> {
            self.peers.values().flat_map(Peer::owed).collect()
        }
    }
}
