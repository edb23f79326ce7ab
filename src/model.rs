//! The vocabulary: ids, keys, versions, and what is known of a task, a row and a node.
//!
//! Once a value has one of these types it is good: constructors check. Integers only; time is a parameter and a
//! plain number of nanoseconds ([`Nanos`]) or milliseconds ([`Millis`]) of a clock that each use names.
//! It deliberately does nothing: no I/O, no clock, no randomness.

use crate::stat::{self, Group, N_STATS, Stat};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// Nanoseconds of a monotonic clock (which one, each use says).
pub type Nanos = u64;
/// Milliseconds; of the wall clock where it stands for a moment.
pub type Millis = u64;

/// The longest id or name accepted, in bytes.
pub const MAX_NAME: usize = 255;

/// Why a text cannot be an id or a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing there.
    #[error("the {0} is empty")]
    Empty(&'static str),
    /// Longer than [`MAX_NAME`] bytes.
    #[error("the {0} is {1} bytes long, {MAX_NAME} are allowed")]
    TooLong(&'static str, usize),
    /// A control character or white space.
    #[error("the {0} {1:?} has a control character or white space")]
    Character(&'static str, String),
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and takes a text: 1 to 255 bytes, no white space, no control characters.
            pub fn new(text: impl AsRef<str>) -> Result<Self, NameError> {
                let text = text.as_ref();
                if text.is_empty() {
                    Err(NameError::Empty($what))
                } else if text.len() > MAX_NAME {
                    Err(NameError::TooLong($what, text.len()))
                } else if !text.bytes().all(|byte| byte.is_ascii_graphic())
                    && text.chars().any(|c| c.is_control() || c.is_whitespace())
                {
                    Err(NameError::Character($what, text.chars().take(64).collect()))
                } else {
                    Ok(Self(text.into()))
                }
            }
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

id!(
    /// A Swarm task's id; where there is no Swarm, the container's.
    TaskId "task id"
);
id!(
    /// A Swarm service's id; for Compose `compose/<project>/<service>`, for a plain container its name.
    ServiceId "service id"
);
id!(
    /// A Swarm node's id; where there is no Swarm, the engine's.
    NodeId "node id"
);
id!(
    /// A ring entry's identity: configured, never an address.
    MemberId "member id"
);

impl NodeId {
    /// Below every id, for ranges; not an id itself.
    pub(crate) fn lowest() -> NodeId {
        NodeId("".into())
    }
}

/// What is sharded, replicated and versioned.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// A task's sample.
    Task(TaskId),
    /// A node's row: which service rows the node has.
    Node(NodeId),
    /// The row of one (node, service).
    Row(NodeId, ServiceId),
}

impl Key {
    /// The bytes that are hashed: `t\0<task>`, `n\0<node>`, `r\0<node>\0<service>`.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Key::Task(task) => [b"t\0", task.as_str().as_bytes()].concat(),
            Key::Node(node) => [b"n\0", node.as_str().as_bytes()].concat(),
            Key::Row(node, service) => [b"r\0", node.as_str().as_bytes(), b"\0", service.as_str().as_bytes()].concat(),
        }
    }
}

/// One process of a member: changes with each start. Two processes of one member never live at once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Gen(pub u64);

/// The digest of a membership with its parameters; equal ids mean equal owners for every key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RingId(pub u64);

impl RingId {
    /// Both see a ring, and not the same; 0 is none yet.
    pub fn contradicts(self, other: RingId) -> bool {
        self != other && self != RingId::default() && other != RingId::default()
    }
}

impl fmt::Display for RingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for RingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// How new a sample is: the shipper's epoch, then its sample round. Never a wall clock alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Version {
    /// Of the shipper's life: higher after each start.
    pub epoch: u64,
    /// The sample round within it.
    pub q: u64,
}

/// A set of stats with presence: absent is not zero.
#[derive(Clone, PartialEq, Eq)]
pub struct Values {
    present: u64,
    values: [u64; N_STATS],
}

impl Default for Values {
    fn default() -> Self {
        Values { present: 0, values: [0; N_STATS] }
    }
}

impl Values {
    /// The stats of a mask with these values, in order of their numbers.
    pub(crate) fn of_mask(present: u64, numbers: impl Iterator<Item = u64>) -> Values {
        let mut values = Values { present, values: [0; N_STATS] };
        bits(present).zip(numbers).for_each(|(stat, number)| values.values[stat.number()] = number);
        values
    }
    /// The value of a stat, or `None` if absent.
    pub fn get(&self, stat: Stat) -> Option<u64> {
        (self.present & stat.bit() != 0).then(|| self.values[stat.number()])
    }
    /// The value of a stat, 0 where absent: for adding up only.
    pub fn or_zero(&self, stat: Stat) -> u64 {
        self.values[stat.number()]
    }
    /// Sets a stat present.
    pub fn set(&mut self, stat: Stat, value: u64) {
        self.present |= stat.bit();
        self.values[stat.number()] = value;
    }
    /// Sets a stat, or makes it absent.
    pub fn put(&mut self, stat: Stat, value: Option<u64>) {
        match value {
            Some(value) => self.set(stat, value),
            None => self.clear(stat),
        }
    }
    /// Makes a stat absent.
    pub fn clear(&mut self, stat: Stat) {
        self.present &= !stat.bit();
        self.values[stat.number()] = 0;
    }
    /// Adds to a stat (making it present), without wrapping.
    pub fn add(&mut self, stat: Stat, amount: u64) {
        self.present |= stat.bit();
        let value = &mut self.values[stat.number()];
        *value = value.saturating_add(amount);
    }
    /// Adds every present value of another set.
    pub fn add_all(&mut self, other: &Values) {
        for (stat, value) in other.iter() {
            self.add(stat, value);
        }
    }
    /// The presence mask.
    pub fn present(&self) -> u64 {
        self.present
    }
    /// The stats of a mask alone.
    pub fn masked(&self, mask: u64) -> Values {
        let mut values = Values::default();
        for stat in bits(self.present & mask) {
            values.set(stat, self.values[stat.number()]);
        }
        values
    }
    /// Keeps only the stats of a mask.
    pub fn retain(&mut self, mask: u64) {
        let gone = self.present & !mask;
        self.present &= mask;
        for stat in bits(gone) {
            self.values[stat.number()] = 0;
        }
    }
    /// The present stats with their values, in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Stat, u64)> + '_ {
        bits(self.present).map(|stat| (stat, self.values[stat.number()]))
    }
    /// Whether nothing is present.
    pub fn is_empty(&self) -> bool {
        self.present == 0
    }
    /// The mask of stats whose value is another one here, an absent one taken for 0.
    pub fn differing(&self, other: &Values) -> u64 {
        let pairs = self.values.iter().zip(&other.values).enumerate();
        pairs.fold(0, |mask, (number, (one, other))| mask | u64::from(one != other) << number)
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl FromIterator<(Stat, u64)> for Values {
    fn from_iter<I: IntoIterator<Item = (Stat, u64)>>(pairs: I) -> Self {
        let mut values = Values::default();
        for (stat, value) in pairs {
            values.set(stat, value);
        }
        values
    }
}

/// The stats of a mask, lowest number first; bits beyond the catalogue are passed over.
pub fn bits(mut mask: u64) -> impl Iterator<Item = Stat> {
    std::iter::from_fn(move || {
        while mask != 0 {
            let number = mask.trailing_zeros();
            mask &= mask - 1;
            if let Some(stat) = Stat::from_number(number) {
                return Some(stat);
            }
        }
        None
    })
}

/// What goes with a row beside its values: how many of the node's tasks are in which state, and how many have a stat.
///
/// `have[stat]` is the k of "k of n have it": a memory limit that one task lacks is no limit of the service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Tasks running on the node.
    pub running: u64,
    /// Of those, read in the newest round.
    pub fresh: u64,
    /// Tasks that ended since the row began.
    pub ended: u64,
    /// Per stat, how many fresh tasks have it.
    pub have: [u64; N_STATS],
}

impl Default for Counts {
    fn default() -> Self {
        Counts { running: 0, fresh: 0, ended: 0, have: [0; N_STATS] }
    }
}

/// How many numbers a [`Counts`] is as a list.
pub const N_COUNTS: usize = 3 + N_STATS;

impl Counts {
    /// The mask of stats that a fresh task lacks and that are therefore none of the group: limits.
    pub fn lacking(&self) -> u64 {
        let lacks = |stat: &Stat| stat.row().group == Group::SumIfAll && self.have[stat.number()] < self.fresh;
        Stat::all().filter(lacks).fold(0, |mask, stat| mask | stat.bit())
    }
    /// Running, fresh, ended, then who has each stat by its number.
    pub fn list(&self) -> Vec<u64> {
        [self.running, self.fresh, self.ended].into_iter().chain(self.have).collect()
    }
    /// The counts of such a list; a shorter one (an older peer's) has nothing of the later stats.
    pub fn of_list(list: &[u64]) -> Counts {
        let at = |place: usize| list.get(place).copied().unwrap_or(0);
        Counts { running: at(0), fresh: at(1), ended: at(2), have: std::array::from_fn(|number| at(3 + number)) }
    }
}

/// Container labels worth carrying: only those the config names, bounded in number and size.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;
/// At most this many labels a task.
pub const MAX_LABELS: usize = 16;
/// At most this many bytes in a label's value; longer ones are cut.
pub const MAX_LABEL_VALUE: usize = 128;

/// Everything about a task that is text or does not change within an incarnation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskMeta {
    /// Swarm's task id, or the container's.
    pub task_id: TaskId,
    /// `<service>.<slot or node>.<task id>`, or the container's name.
    pub task_name: Arc<str>,
    /// The slot: task name minus `<service name>.` and `.<task id>`; empty where there is none.
    pub slot: Arc<str>,
    /// Its service.
    pub service_id: ServiceId,
    /// The service's name.
    pub service_name: Arc<str>,
    /// `com.docker.stack.namespace`, or empty.
    pub stack: Arc<str>,
    /// The node it was read on.
    pub node_id: NodeId,
    /// That node's name.
    pub node_name: Arc<str>,
    /// With `started_at`, the incarnation.
    pub container_id: Arc<str>,
    /// The image as the container names it.
    pub image: Arc<str>,
    /// When the container was started, wall clock.
    pub started_at: Millis,
    /// Whitelisted container labels.
    pub labels: Labels,
    /// Its network namespace is another task's, whose figures count in sums.
    pub shares_netns: bool,
}

impl TaskMeta {
    /// Whether two are the same incarnation: counters go on from one to the other.
    pub fn same_incarnation(&self, other: &TaskMeta) -> bool {
        self.container_id == other.container_id && self.started_at == other.started_at
    }
    /// The stats of this task that count in sums over tasks.
    pub fn grouped(&self) -> u64 {
        if self.shares_netns { stat::GROUPED & !stat::PER_NETNS } else { stat::GROUPED }
    }
}

/// Which (node, service) a row speaks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowMeta {
    /// The node.
    pub node_id: NodeId,
    /// Its name.
    pub node_name: Arc<str>,
    /// The service.
    pub service_id: ServiceId,
    /// Its name.
    pub service_name: Arc<str>,
    /// Its stack, or empty.
    pub stack: Arc<str>,
    /// Ended tasks are remembered since this moment, wall clock.
    pub since: Millis,
}

/// A node's own row: which service rows belong to it, so that a reader knows when it has them all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeMeta {
    /// The node.
    pub node_id: NodeId,
    /// Its name.
    pub node_name: Arc<str>,
    /// The services it has rows of.
    pub services: Vec<ServiceId>,
    /// When its shipper began, wall clock.
    pub since: Millis,
}

/// What an entry of the stream is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Subject {
    /// A task's sample.
    Task(Arc<TaskMeta>),
    /// A (node, service) row.
    Row(Arc<RowMeta>),
    /// A node's row.
    Node(Arc<NodeMeta>),
}

impl Subject {
    /// Its key.
    pub fn key(&self) -> Key {
        match self {
            Subject::Task(task) => Key::Task(task.task_id.clone()),
            Subject::Row(row) => Key::Row(row.node_id.clone(), row.service_id.clone()),
            Subject::Node(node) => Key::Node(node.node_id.clone()),
        }
    }
    /// The node it speaks about: a connection speaks for one node only.
    pub fn node_id(&self) -> &NodeId {
        match self {
            Subject::Task(task) => &task.node_id,
            Subject::Row(row) => &row.node_id,
            Subject::Node(node) => &node.node_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_refuse_what_no_engine_makes() {
        assert!(TaskId::new("9mnpnzenvg8p8tdbtq4wvbkcz").is_ok());
        assert_eq!(TaskId::new(""), Err(NameError::Empty("task id")));
        assert!(matches!(NodeId::new("a b"), Err(NameError::Character("node id", _))));
        assert!(matches!(ServiceId::new("x".repeat(256)), Err(NameError::TooLong("service id", 256))));
    }

    #[test]
    fn absent_is_not_zero() {
        let mut values = Values::default();
        assert_eq!(values.get(stat::PIDS), None);
        values.set(stat::PIDS, 0);
        assert_eq!(values.get(stat::PIDS), Some(0));
        values.clear(stat::PIDS);
        assert_eq!(values, Values::default());
    }

    #[test]
    fn key_bytes_are_pinned() {
        let node = NodeId::new("n1").unwrap();
        assert_eq!(Key::Task(TaskId::new("t1").unwrap()).bytes(), b"t\0t1");
        assert_eq!(Key::Node(node.clone()).bytes(), b"n\0n1");
        assert_eq!(Key::Row(node, ServiceId::new("s1").unwrap()).bytes(), b"r\0n1\0s1");
    }
}
