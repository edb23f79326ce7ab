//! What goes wrong, and when it all ends.

use crate::check::Checked;
use crate::net::Way;
use crate::plan::HEAL;
use crate::world::{Actor, Event, World};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A collector dies without a word.
    Crash,
    /// A collector leaves with Bye.
    Leave,
    FreezeCollector,
    FreezeShipper,
    /// Nothing passes one way between a node and a member.
    Cut,
    /// A stream is reset.
    Reset,
    /// Batches are sent twice.
    Repeat,
    /// A member joins or leaves the ring; each process hears of it at its own time.
    Member,
    /// A shipper dies; the next one has a new epoch.
    Shipper,
    /// The reader does not reach a member.
    CutReader,
    /// Shippers of an earlier or a later version.
    Version,
}

impl Fault {
    pub const ALL: [Fault; 11] = [
        Fault::Crash,
        Fault::Leave,
        Fault::FreezeCollector,
        Fault::FreezeShipper,
        Fault::Cut,
        Fault::Reset,
        Fault::Repeat,
        Fault::Member,
        Fault::Shipper,
        Fault::CutReader,
        Fault::Version,
    ];
}

impl World {
    pub fn fault(&mut self) -> Checked {
        if self.now >= HEAL {
            return Ok(());
        }
        let delay = self.rng.between(100, 1_600);
        self.after(delay, Event::Fault);
        let kinds = self.cfg.kinds.clone();
        let Some(kind) = self.rng.pick(&kinds) else { return Ok(()) };
        let (number, node) =
            (self.rng.below(self.cfg.n_members as u64) as usize, self.rng.below(self.cfg.n_nodes as u64) as usize);
        match kind {
            Fault::Crash if self.rng.chance(200) && self.current[number].is_some() => {
                self.note("collector crashed");
                let reset = self.rng.chance(600);
                self.kill(number, reset)?;
            }
            Fault::Leave if self.rng.chance(200) => self.terminate(number),
            Fault::FreezeCollector if self.rng.chance(400) => {
                let until = self.now + self.rng.between(300, 15_000);
                if let Some(process) = self.current[number].and_then(|gen_| self.processes.get_mut(&gen_)) {
                    process.thaw = process.thaw.max(until.min(HEAL));
                    self.note("collector frozen");
                    self.log(|_| format!("member {number}: frozen until {until}"));
                }
            }
            Fault::FreezeShipper if self.rng.chance(300) => {
                let until = self.now + self.rng.between(300, 12_000);
                if let Some(shipper) = &mut self.shippers[node] {
                    shipper.thaw = shipper.thaw.max(until.min(HEAL));
                    self.note("shipper frozen");
                    self.log(|_| format!("node {node}: frozen until {until}"));
                }
            }
            Fault::Cut => {
                let (way, until) =
                    (if self.rng.chance(500) { Way::Up } else { Way::Down }, self.now + self.rng.between(500, 20_000));
                self.net.cuts.insert((node, number, way), until.min(HEAL));
                self.note(if way == Way::Up { "cut up" } else { "cut down" });
                self.log(|_| format!("node {node} to member {number}: {way:?} cut until {until}"));
            }
            Fault::Reset => {
                let open: Vec<_> =
                    self.shippers[node].iter().flat_map(|shipper| shipper.links.keys().cloned()).collect();
                if let Some(member) = self.rng.pick(&open) {
                    self.note("stream reset");
                    self.close(node, &member)?;
                }
            }
            Fault::CutReader => {
                let until = self.now + self.rng.between(500, 10_000);
                self.reader_cuts.insert(number, until.min(HEAL));
                self.note("reader cut off");
            }
            Fault::Member => self.change_members(number),
            Fault::Shipper if self.rng.chance(150) && self.shippers[node].is_some() => {
                self.kill_shipper(node)?;
                let at = (self.now + self.rng.between(300, 8_000)).min(HEAL);
                self.at(at, Event::Ship(node));
            }
            _ => {}
        }
        Ok(())
    }

    fn change_members(&mut self, number: usize) {
        let members = self.members ^ 1 << number;
        if members == 0 {
            return;
        }
        self.members = members;
        self.note("ring changed");
        self.tell_members(12_000);
    }

    /// Everyone learns the membership, each within so many ms.
    fn tell_members(&mut self, within: u64) {
        self.n_changes += 1;
        let (nth, members) = (self.n_changes, self.members);
        let shippers = (0..self.cfg.n_nodes).map(Actor::Shipper);
        let all = shippers.chain((0..self.cfg.n_members).map(Actor::Member)).chain([Actor::Reader]);
        for actor in all.collect::<Vec<_>>() {
            let delay = self.rng.below(within);
            self.after(delay, Event::View(actor, nth, members));
        }
    }

    pub fn heal(&mut self) -> Checked {
        self.net.cuts.clear();
        self.log(|_| "heal".to_owned());
        if self.rng.chance(500) {
            self.members = (1 << self.cfg.n_members) - 1;
        }
        self.tell_members(8_000);
        Ok(())
    }
}
