//! What the daemons are told: YAML text and this machine's host name in, a checked config or *all* its mistakes out.
//!
//! Every mistake says where (line, column, dotted place), what is wrong and what to write instead. Unknown keys are
//! mistakes; a key that is left out, or has no value, means its default. The defaults stand where the keys are read
//! ([`Shipper::parse`], [`Collectord::parse`]); `config/*.yaml` spell them out for people, and a test keeps both equal.
//!
//! It deliberately reads no file, no environment and no clock, and resolves no name: text in, values out.

mod tree;
mod read;
mod value;
mod members;
mod shipper;
mod collectord;

pub use collectord::{Collectord, CollectordLimits, Role};
pub use members::{Address, Dns, MemberAddr, Members, parse_members};
pub use shipper::{Include, Shipper, ShipperLimits};

use std::fmt;

/// The longest text accepted, in bytes.
pub const MAX_TEXT: usize = 256 * 1024;
/// At most this many mistakes are told at once.
pub const MAX_MISTAKES: usize = 50;

/// One thing wrong with a config.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mistake {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1.
    pub column: usize,
    /// The dotted path of the key (`limits.max_tasks`, `members.static[2].addr`); empty for the whole text.
    pub place: String,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: ", self.line, self.column)?;
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        write!(f, "{}; {}", self.problem, self.remedy)
    }
}

/// Everything wrong with a config, in the order of its lines; shown one a line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Mistakes {
    /// The first [`MAX_MISTAKES`].
    pub list: Vec<Mistake>,
    /// How many there are beyond the list.
    pub more: usize,
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, mistake) in self.list.iter().enumerate() {
            write!(f, "{}{mistake}", if i == 0 { "" } else { "\n" })?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
