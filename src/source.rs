//! How a node's figures are read: which containers run, and what the kernel says about each.
//!
//! The map, in reading order: [`parse`] bytes of the kernel's files → figures (pure); [`sums`] counters per interface
//! and device → sums that never fall; [`files`] which file gives which stat; [`cgroup`] where a container's files are;
//! [`machine`] what can be seen at all; [`limits`], [`spread`] and [`reader`] one task, its descriptors held open; [`node`] the
//! machine's own figures; [`engine`] the Docker Engine API; [`describe`] labels → a task's texts; [`life`] what the engine
//! alone knows of a container; [`record`] the engine's own record → figures, where the kernel cannot be seen; [`round`]
//! what a tick gives; [`table`] the node's tasks and one tick over them; [`ending`] a container's last moment; [`watch`]
//! what the engine's news mean; [`discovery`] the loop that gets them; [`docker`] all of it, for the shipper's loop.
//!
//! Invariants: what cannot be read is absent, never 0; one bad line or file spoils only its own field; one container
//! delays no other; whatever was not understood is counted in [`Faults`].
//!
//! It deliberately knows nothing of rows, rings, the wire or rates.

pub mod parse;
pub mod sums;
pub mod files;
pub mod cgroup;
pub mod machine;
pub mod limits;
pub mod spread;
pub mod node;
pub mod reader;
pub mod engine;
pub mod describe;
pub mod life;
pub mod record;
pub mod round;
pub mod table;
pub mod ending;
pub mod watch;
pub mod discovery;
pub mod docker;

#[cfg(test)]
pub(crate) mod fake;

pub use docker::{Config, Docker, Node};
pub use life::{Exit, Life};
pub use round::{Ended, Reading, Round, Unread};

macro_rules! faults {
    ($($(#[$doc:meta])* $ident:ident $name:literal)*) => {
        /// Why something was not read or not understood.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Fault { $($(#[$doc])* $ident),* }

        impl Fault {
            /// Every reason, in order.
            pub const ALL: &[Fault] = &[$(Fault::$ident),*];

            /// The reason as a metric's label: lower case, words joined by `_`.
            pub const fn name(self) -> &'static str {
                match self { $(Fault::$ident => $name),* }
            }
        }
    };
}

faults! {
    /// A line or row of a kernel file that makes no sense; the others of that file count.
    Malformed "malformed"
    /// A kernel file that could not be read; its stats are absent this round.
    Unreadable "unreadable"
    /// A kernel file that may not be read: permission denied.
    Denied "denied"
    /// No descriptor left: raise the limit of open files.
    OpenFiles "open_files"
    /// A cgroup that went away under its reader.
    Gone "gone"
    /// A container whose cgroup cannot be seen from here; the engine is asked instead.
    Unseen "unseen"
    /// A process id that is another container's by now; network figures are absent.
    OtherProcess "other_process"
    /// More interfaces, devices or tasks than are taken.
    Bounds "bounds"
    /// An incarnation whose last moments could not be read.
    UnseenTail "unseen_tail"
    /// A request that the engine did not answer in time, or not well.
    Engine "engine"
    /// An event line that was too long or not understood.
    Event "event"
    /// A container whose names or ids no figure can be shown under.
    Identity "identity"
    /// A controller that is off for a container, as in rootless mode or on a machine without memory accounting; its
    /// figures are absent.
    NoController "no_controller"
}

/// How often each [`Fault`] happened since the process began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Faults([u64; Fault::ALL.len()]);

impl Default for Faults {
    fn default() -> Self {
        Faults([0; Fault::ALL.len()])
    }
}

impl Faults {
    /// Counts one.
    pub fn count(&mut self, fault: Fault) {
        self.add(fault, 1);
    }
    /// Counts several.
    pub fn add(&mut self, fault: Fault, n: u64) {
        self.0[fault as usize] += n;
    }
    /// How often a fault happened.
    pub fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }
    /// Each reason with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Fault, u64)> + '_ {
        Fault::ALL.iter().map(|fault| (*fault, self.of(*fault)))
    }
}
