//! Where every increment is: LEDGER's L1 and L2, and that a scrape shows what was handed over.
//!
//! Each batch's amounts are followed as a *packet* from the moment they leave a pool. Its parts are still owed, or known
//! to be exposed, or went back to the pool, or were given up (too old; the shipper died). Whether they count is the
//! process's: it applied them (alive), or a scrape showed them (dead). Blur is what counts twice or not at all, and only
//! the kinds that LEDGER names are allowed: what a scrape showed is not owed once an answer that was sent after it has
//! arrived, and nothing is given up for its age that does not have it.

use crate::aged::Aged;
use crate::check::{Checked, violation};
use crate::host::COUNTED;
use crate::money::{Cells, Money, cells};
use crate::plan::MAX_CATCH_UP;
use std::collections::{BTreeMap, BTreeSet};
use swarmstats::aggregate::Scrape;
use swarmstats::model::{Gen, ServiceId};
use swarmstats::outbox::accounts::Owed;

/// (life of a shipper, epoch, batch number).
pub type PacketId = (usize, u64, u64);

#[derive(Debug)]
struct Packet {
    process: Gen,
    sent: Money,
    owed: Money,
    /// What is owed, by when it was read.
    parts: Aged,
    exposed: Money,
    returned: Money,
    /// Too old to be scraped in time (it had been acknowledged).
    unconfirmed: Money,
    /// Given up without knowing what became of it.
    dropped: Money,
    /// Its shipper is dead.
    orphaned: Money,
    acked: bool,
    /// (Counted twice, not counted), as booked.
    blur: (Money, Money),
}

#[derive(Debug)]
struct Process {
    alive: bool,
    applied: Vec<PacketId>,
    /// Σ of what they brought.
    ledger: Money,
    places: BTreeMap<PacketId, usize>,
    /// How many of `applied` a scrape has shown, per series.
    visible: Cells<usize>,
    /// The same of scrapes that the process knows to be written.
    confirmed: Cells<usize>,
    /// The last body, ingested or not: figures of a process never fall.
    body: Money,
    /// The last ingested body.
    ingested: Money,
    /// Since when a service has an account, and whether a body has shown it.
    born: BTreeMap<ServiceId, u64>,
    seen: BTreeSet<usize>,
}

/// Why amounts left what is owed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// An answer of a process said what was stored and exposed.
    Answer { process: Gen, stored: u64, exposed: u64 },
    /// Another process of the member answered.
    Dead { process: Gen },
    /// It said Bye: what scrapes had not shown goes back, to the unit.
    Bye { process: Gen, exposed: u64 },
    /// A round: what is as old as `max_catch_up` is given up.
    Old,
    /// A new epoch: nobody will say any more what became of what was sent.
    NewEpoch,
    /// Nothing may leave.
    Nothing,
}

#[derive(Debug, Default)]
pub struct Accounts {
    packets: BTreeMap<PacketId, Packet>,
    owing: BTreeMap<usize, BTreeSet<PacketId>>,
    /// What each life of a shipper has in its pools.
    pools: BTreeMap<usize, Aged>,
    processes: BTreeMap<Gen, Process>,
    /// Counted twice.
    pub over: Money,
    /// Not counted.
    pub under: Money,
    /// How often something was given up without knowing what became of it, or without its being scraped in time.
    pub n_dropped: u64,
    pub n_unconfirmed: u64,
    /// How often something went back to a pool.
    pub n_returned: u64,
    /// How often something in a pool was too old.
    pub n_stale: u64,
}

impl Accounts {
    pub fn born(&mut self, gen_: Gen) {
        let process = Process {
            alive: true,
            applied: Vec::new(),
            ledger: Money::default(),
            places: BTreeMap::new(),
            visible: Cells::default(),
            confirmed: Cells::default(),
            body: Money::default(),
            ingested: Money::default(),
            born: BTreeMap::new(),
            seen: BTreeSet::new(),
        };
        self.processes.insert(gen_, process);
    }

    /// A shipper read these increments.
    pub fn read(&mut self, life: usize, increments: &Money, now: u64) {
        self.pools.entry(life).or_default().add(now, increments);
    }

    /// What is in a shipper's pools is what it read and what came back, less what was sent and what was too old.
    pub fn pooled(&mut self, life: usize, pooled: &Money, cause: Cause, now: u64) -> Checked {
        let pool = self.pools.entry(life).or_default();
        let mut gone = pool.total();
        gone -= *pooled;
        match pool.take(&gone) {
            Some(old) if cause == Cause::Old => {
                self.n_stale += u64::from(!gone.is_zero());
                old.may_go(MAX_CATCH_UP, now)?;
                pool.may_stay(now)
            }
            _ if gone.is_zero() => Ok(()),
            _ => violation("L1", format!("{gone:?} left the pools by {cause:?}")),
        }
    }

    /// Compares what a shipper owes with what it owed before the call that `cause` describes.
    pub fn settle(&mut self, life: usize, epoch: u64, owed: &[Owed], cause: Cause, now: u64) -> Checked {
        let mut owed: BTreeMap<PacketId, (Gen, Money)> =
            owed.iter().map(|(gen_, n, amounts)| ((life, epoch, *n), (*gen_, Money::of(amounts)))).collect();
        let before: Vec<PacketId> = self.owing.entry(life).or_default().iter().copied().collect();
        for id in before {
            let left = owed.remove(&id).map_or(Money::default(), |(_, left)| left);
            let packet = self.packets.get_mut(&id).unwrap();
            let mut gone = packet.owed;
            gone -= left;
            if let Cause::Answer { process, stored, .. } = cause {
                packet.acked |= process == packet.process && id.2 <= stored;
            }
            if let Cause::Answer { process, exposed, .. } = cause
                && process == packet.process
                && id.2 <= exposed
                && !left.is_zero()
            {
                return violation("L1", format!("packet {id:?} is said to be exposed and still owed"));
            }
            if cause == Cause::Old && packet.acked {
                let mut kept = packet.parts.clone();
                drop(kept.take(&gone));
                kept.may_stay(now)?;
            }
            if gone.is_zero() {
                continue;
            }
            packet.owed = left;
            let Some(mut parts) = packet.parts.take(&gone) else {
                return violation("L1", format!("packet {id:?} grew by {gone:?}"));
            };
            if cause == Cause::Old {
                parts.may_go(MAX_CATCH_UP, now)?;
            }
            match cause {
                Cause::Old | Cause::NewEpoch if packet.acked => {
                    packet.unconfirmed += gone;
                    self.n_unconfirmed += 1;
                }
                Cause::Old | Cause::NewEpoch => {
                    packet.dropped += gone;
                    self.n_dropped += 1;
                }
                Cause::Answer { process, exposed, .. } | Cause::Bye { process, exposed }
                    if process == packet.process && id.2 <= exposed =>
                {
                    packet.exposed += gone;
                }
                Cause::Answer { process, stored, .. } if process == packet.process && id.2 > stored => {
                    packet.returned += gone;
                    self.pools.entry(life).or_default().merge(parts);
                    self.n_returned += 1;
                }
                Cause::Dead { process } if process == packet.process => {
                    packet.returned += gone;
                    self.pools.entry(life).or_default().merge(parts);
                    self.n_returned += 1;
                }
                Cause::Bye { process, .. } if process == packet.process => {
                    let of = &self.processes[&process];
                    let place = of.places.get(&id).copied().unwrap_or(usize::MAX);
                    let shown = gone.only(|cell| place < of.confirmed[cell]);
                    drop(parts.take(&shown));
                    packet.exposed += shown;
                    packet.returned += gone;
                    packet.returned -= shown;
                    self.pools.entry(life).or_default().merge(parts);
                    self.n_returned += 1;
                }
                _ => return violation("L1", format!("{gone:?} of packet {id:?} left the accounts by {cause:?}")),
            }
            if left.is_zero() {
                self.owing.entry(life).or_default().remove(&id);
            }
            self.weigh(id)?;
        }
        for (id, (process, sent)) in owed.into_iter().filter(|(_, (_, sent))| !sent.is_zero()) {
            let Some(parts) = self.pools.entry(life).or_default().take(&sent) else {
                return violation("L1", format!("packet {id:?} has more than the pools had: {sent:?}"));
            };
            let packet = Packet {
                process,
                sent,
                owed: sent,
                parts,
                exposed: Money::default(),
                returned: Money::default(),
                unconfirmed: Money::default(),
                dropped: Money::default(),
                orphaned: Money::default(),
                acked: false,
                blur: Default::default(),
            };
            if self.packets.insert(id, packet).is_some() {
                return violation("L1", format!("batch number {id:?} is used twice"));
            }
            self.owing.entry(life).or_default().insert(id);
        }
        Ok(())
    }

    /// A process applied a batch.
    pub fn applied(&mut self, gen_: Gen, id: PacketId) -> Checked {
        let Some(packet) = self.packets.get(&id) else { return Ok(()) };
        let sent = packet.sent;
        if packet.process != gen_ {
            return violation("L1", format!("packet {id:?} for {:?} was applied by {gen_:?}", packet.process));
        }
        let process = self.processes.get_mut(&gen_).unwrap();
        if process.places.insert(id, process.applied.len()).is_some() {
            return violation("L1", format!("packet {id:?} was applied twice"));
        }
        process.applied.push(id);
        process.ledger += sent;
        self.weigh(id)
    }

    /// A process's ledger is what the batches it applied brought.
    pub fn ledger(&self, gen_: Gen, ledger: &Money) -> Checked {
        let brought = &self.processes[&gen_].ledger;
        if brought == ledger {
            Ok(())
        } else {
            violation("L1", format!("{gen_:?} was brought {brought:?}, has {ledger:?}"))
        }
    }

    /// A scrape's body, at true time `now`; `ledger` is the process's at that moment. Returns how many of the batches it
    /// applied the body shows, per series.
    pub fn body(
        &mut self,
        gen_: Gen,
        scrape: &Scrape,
        ledger: &Money,
        ingested: bool,
        now: u64,
    ) -> Checked<Cells<usize>> {
        let mut visible = Cells::default();
        let process = self.processes.get_mut(&gen_).unwrap();
        let mut body = Money::default();
        for service in &scrape.services {
            let id = &service.service_id;
            body.add_values(id, &service.counters);
            let old = process.born.get(id).is_some_and(|born| born + 15_000 <= now);
            for (cell, stat) in cells(id).zip(COUNTED) {
                let Some(value) = service.counters.get(stat) else { continue };
                if process.seen.insert(cell) && value > 0 && !old {
                    return violation("birth", format!("series {id}/{stat:?} of {gen_:?} is born with {value}"));
                }
            }
        }
        for (cell, shown) in body.0.into_iter().enumerate() {
            let (before, held) = (process.body.0[cell], ledger.0[cell]);
            if shown < before {
                return violation("L2", format!("series {cell} of {gen_:?} fell from {before} to {shown}"));
            }
            // Amounts of a series are shown all, or while it waits for its 0 not at all.
            if shown != held && shown != 0 {
                return violation("L2", format!("series {cell} of {gen_:?} shows {shown} of {held}"));
            }
            if shown == held {
                visible[cell] = process.applied.len();
            }
            if ingested && shown == held {
                process.visible[cell] = process.applied.len();
            }
        }
        process.body = body;
        if ingested {
            process.ingested = body;
        }
        Ok(visible)
    }

    /// A body was fully written, and the process knows it.
    pub fn confirmed(&mut self, gen_: Gen, visible: &Cells<usize>) {
        let confirmed = &mut self.processes.get_mut(&gen_).unwrap().confirmed;
        confirmed.iter_mut().zip(visible).for_each(|(known, shown)| *known = *shown.max(known));
    }

    /// The last batch of a stream's epoch that such scrapes show of a process, with all before it: what an answer sent
    /// now is to say.
    pub fn shown(&self, gen_: Gen, life: usize, epoch: u64) -> u64 {
        let process = &self.processes[&gen_];
        let applied = process.applied.iter().filter(|id| (id.0, id.1) == (life, epoch));
        let is_shown = |id: &&PacketId| {
            let place = process.places[*id];
            self.packets[*id].sent.only(|cell| place >= process.confirmed[cell]).is_zero()
        };
        applied.take_while(is_shown).last().map_or(0, |id| id.2)
    }

    /// An answer arrived that says `exposed`, and was sent when scrapes had shown the batches up to `shown`.
    pub fn answered(&self, (life, epoch): (usize, u64), gen_: Gen, exposed: u64, shown: u64) -> Checked {
        let of_epoch = self.packets.range((life, epoch, 0)..=(life, epoch, exposed.max(shown)));
        let applied = &self.processes[&gen_].places;
        for (id, packet) in of_epoch.filter(|(id, _)| applied.contains_key(id)) {
            if id.2 <= shown && !(packet.owed.is_zero() && packet.returned.is_zero()) {
                let text =
                    format!("a scrape showed packet {id:?} before an answer, and it is owed after it: {packet:?}");
                return violation("L1", text);
            }
            if id.2 > shown {
                return violation(
                    "L1",
                    format!("packet {id:?} is said to be exposed, no scrape of {gen_:?} showed it"),
                );
            }
        }
        Ok(())
    }

    /// A process has an account of these services.
    pub fn accounts_of<'a>(&mut self, gen_: Gen, services: impl Iterator<Item = &'a ServiceId>, now: u64) {
        let process = self.processes.get_mut(&gen_).unwrap();
        let mut old = std::mem::take(&mut process.born);
        process.born = services.map(|service| (service.clone(), old.remove(service).unwrap_or(now))).collect();
        for service in old.into_keys() {
            for cell in cells(&service) {
                process.seen.remove(&cell);
                process.body.0[cell] = 0;
            }
        }
    }

    pub fn process_died(&mut self, gen_: Gen) -> Checked {
        let mine: Vec<_> =
            self.packets.iter().filter(|(_, packet)| packet.process == gen_).map(|(id, _)| *id).collect();
        self.processes.get_mut(&gen_).unwrap().alive = false;
        mine.into_iter().try_for_each(|id| self.weigh(id))
    }

    pub fn n_dead(&self) -> u64 {
        self.processes.values().filter(|process| !process.alive).count() as u64
    }

    /// What dead processes had shown.
    pub fn last_scraped(&self) -> Money {
        let dead = self.processes.values().filter(|process| !process.alive);
        dead.map(|process| process.ingested).sum()
    }

    pub fn shipper_died(&mut self, life: usize) -> Checked {
        self.pools.remove(&life);
        for id in self.owing.remove(&life).unwrap_or_default() {
            let packet = self.packets.get_mut(&id).unwrap();
            packet.orphaned += std::mem::take(&mut packet.owed);
            self.weigh(id)?;
        }
        Ok(())
    }

    /// What is owed and does not count at its process.
    pub fn owed(&self) -> Money {
        let packets = self.owing.values().flatten().map(|id| (*id, &self.packets[id]));
        packets.map(|(id, packet)| packet.owed.only(|cell| !self.counts(id, packet, cell))).sum()
    }

    /// Everything ever owed by a shipper counts at its process: nothing is under way.
    pub fn all_handed_over(&self) -> bool {
        self.owed().is_zero()
    }

    fn counts(&self, id: PacketId, packet: &Packet, cell: usize) -> bool {
        let process = &self.processes[&packet.process];
        let Some(place) = process.places.get(&id) else { return false };
        process.alive || *place < process.visible[cell]
    }

    /// The packet's (counted twice, not counted).
    fn blur(&self, id: PacketId) -> (Money, Money) {
        let packet = &self.packets[&id];
        let (mut over, mut under) = (packet.returned, packet.unconfirmed);
        over += packet.dropped;
        under += packet.orphaned;
        under += packet.exposed;
        (over.only(|cell| self.counts(id, packet, cell)), under.only(|cell| !self.counts(id, packet, cell)))
    }

    /// Books the packet's blur, and refuses the kinds that must not be.
    fn weigh(&mut self, id: PacketId) -> Checked {
        let (over, under) = self.blur(id);
        let packet = self.packets.get_mut(&id).unwrap();
        let (old_over, old_under) = std::mem::replace(&mut packet.blur, (over, under));
        self.over += over;
        self.over -= old_over;
        self.under += under;
        self.under -= old_under;
        let packet = &self.packets[&id];
        let counts = |cell: usize| self.counts(id, packet, cell);
        let alive = self.processes[&packet.process].alive;
        if alive && !packet.returned.only(counts).is_zero() {
            return violation("L1", format!("packet {id:?} is counted by {:?} and was handed on", packet.process));
        }
        if !packet.exposed.only(|cell| !counts(cell)).is_zero() {
            let text = format!("packet {id:?} was taken for exposed, but no scrape of {:?} shows it", packet.process);
            return violation("L1", text);
        }
        Ok(())
    }
}
