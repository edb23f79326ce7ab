//! What rows can be sorted and filtered by: the words users write, and what they mean of a row.
//!
//! A figure that is absent is no figure: it satisfies no filter and sorts last. Pure.

use crate::cli::row::{Row, whole};
use crate::cli::view::Base;

/// What a number means, so how it is written and which differences matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// `80` or `80%`.
    Percent,
    /// `1.5GiB`, `500m`: base 1024, as Docker reads sizes of memory.
    Memory,
    /// `20MB`, `1g`: base 1000 unless the unit has an `i`.
    Io,
    /// A plain number.
    Count,
    /// `90s`, `5m`, `2h`, `1d`.
    Seconds,
}

/// A figure to sort and filter by.
#[derive(Debug)]
pub struct Number {
    /// What users call it.
    pub word: &'static str,
    /// What it is.
    pub unit: Unit,
    /// The figure, if there is one.
    pub of: fn(&Row) -> Option<f64>,
}

/// A text to sort and filter by.
#[derive(Debug)]
pub struct Text {
    /// What users call it.
    pub word: &'static str,
    /// The texts that count as it; the first that is there sorts.
    pub of: for<'a> fn(&'a Row) -> [Option<&'a str>; 2],
}

/// The keys that are figures.
pub const NUMBERS: &[Number] = &[
    Number { word: "cpu", unit: Unit::Percent, of: |row| row.figures.cpu_percent },
    Number { word: "cpu-of-node", unit: Unit::Percent, of: |row| row.figures.cpu_percent_of_node },
    Number { word: "cpu-of-limit", unit: Unit::Percent, of: |row| row.figures.cpu_percent_of_limit },
    Number { word: "mem", unit: Unit::Memory, of: |row| whole(row.figures.memory_used_bytes) },
    Number { word: "mem%", unit: Unit::Percent, of: |row| row.figures.memory_percent },
    Number { word: "limit", unit: Unit::Memory, of: |row| whole(row.figures.memory_limit_bytes) },
    Number { word: "swap", unit: Unit::Memory, of: |row| whole(row.figures.memory_swap_bytes) },
    Number {
        word: "net",
        unit: Unit::Io,
        of: |row| sum(whole(row.figures.network_receive_bytes), whole(row.figures.network_transmit_bytes)),
    },
    Number {
        word: "net-rate",
        unit: Unit::Io,
        of: |row| sum(row.figures.network_receive_bytes_per_second, row.figures.network_transmit_bytes_per_second),
    },
    Number {
        word: "block",
        unit: Unit::Io,
        of: |row| sum(whole(row.figures.block_read_bytes), whole(row.figures.block_written_bytes)),
    },
    Number {
        word: "block-rate",
        unit: Unit::Io,
        of: |row| sum(row.figures.block_read_bytes_per_second, row.figures.block_written_bytes_per_second),
    },
    Number { word: "pids", unit: Unit::Count, of: |row| whole(row.figures.pids) },
    Number { word: "tasks", unit: Unit::Count, of: |row| whole(row.tasks.map(|tasks| tasks.known)) },
    Number { word: "throttled", unit: Unit::Percent, of: |row| row.figures.cpu_throttled_percent },
    Number { word: "psi-cpu", unit: Unit::Percent, of: |row| row.figures.pressure_cpu_percent },
    Number { word: "psi-mem", unit: Unit::Percent, of: |row| row.figures.pressure_memory_percent },
    Number { word: "psi-io", unit: Unit::Percent, of: |row| row.figures.pressure_io_percent },
    Number { word: "oom", unit: Unit::Count, of: |row| whole(row.figures.oom_kills) },
    Number { word: "restarts", unit: Unit::Count, of: |row| whole(row.figures.restarts) },
    Number { word: "load", unit: Unit::Count, of: |row| row.machine.figures.load1 },
    Number { word: "age", unit: Unit::Seconds, of: |row| row.age_seconds },
    Number { word: "up", unit: Unit::Seconds, of: |row| row.up_seconds() },
];

/// The keys that are texts.
pub const TEXTS: &[Text] = &[
    Text { word: "name", of: |row| [row.short_name().or(row.id.as_deref()), row.name.as_deref()] },
    Text { word: "id", of: |row| [row.id.as_deref(), row.container_id.as_deref()] },
    Text { word: "service", of: |row| [row.service_name.as_deref(), row.service_id.as_deref()] },
    Text { word: "node", of: |row| [row.node_name.as_deref(), row.node_id.as_deref()] },
    Text { word: "stack", of: |row| [row.stack.as_deref(), None] },
    Text { word: "state", of: |row| [row.state_word(), None] },
    Text { word: "health", of: |row| [row.health.as_deref(), None] },
    Text { word: "image", of: |row| [row.image.as_deref(), None] },
];

/// One key.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    /// A figure.
    Number(&'static Number),
    /// A text.
    Text(&'static Text),
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.word() == other.word()
    }
}

impl Key {
    /// What users call it.
    pub fn word(self) -> &'static str {
        match self {
            Key::Number(number) => number.word,
            Key::Text(text) => text.word,
        }
    }

    /// The key of that word. `cpu`, `net` and `block` mean what the table shows under that heading.
    pub fn find(word: &str, of: Base, rates: bool) -> Option<Key> {
        let word = match (word, of, rates) {
            ("cpu", Base::Node, _) => "cpu-of-node",
            ("cpu", Base::Limit, _) => "cpu-of-limit",
            ("net", _, true) => "net-rate",
            ("block", _, true) => "block-rate",
            _ => word,
        };
        let number = NUMBERS.iter().find(|number| number.word == word).map(Key::Number);
        number.or_else(|| TEXTS.iter().find(|text| text.word == word).map(Key::Text))
    }

    /// All words, for messages and completion.
    pub fn words() -> impl Iterator<Item = &'static str> {
        TEXTS.iter().map(|text| text.word).chain(NUMBERS.iter().map(|number| number.word))
    }
}

impl Unit {
    /// Reads a number as users write it; `None` if it is none, or negative.
    pub fn read(self, text: &str) -> Option<f64> {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits);
        let suffix = suffix.strip_prefix(' ').unwrap_or(suffix); // as Docker reads sizes
        let factor = match self {
            Unit::Percent => ["", "%"].contains(&suffix).then_some(1.0),
            Unit::Count => suffix.is_empty().then_some(1.0),
            Unit::Seconds => match suffix {
                "" | "s" => Some(1.0),
                "ms" => Some(1e-3),
                "m" => Some(60.0),
                "h" => Some(3600.0),
                "d" => Some(86_400.0),
                _ => None,
            },
            Unit::Memory | Unit::Io => self.size(&suffix.to_ascii_lowercase()),
        };
        number.parse::<f64>().ok().zip(factor).map(|(number, factor)| number * factor)
    }

    fn size(self, suffix: &str) -> Option<f64> {
        let prefix = suffix.strip_suffix('b').unwrap_or(suffix);
        let (prefix, binary) = match prefix.strip_suffix('i') {
            Some(prefix) => (prefix, true),
            None => (prefix, self == Unit::Memory),
        };
        let power = ["", "k", "m", "g", "t", "p"].iter().position(|known| *known == prefix)?;
        Some(if binary { 1024_f64 } else { 1000.0 }.powi(power as i32))
    }

    /// What is written after a comparison, for messages.
    pub fn example(self) -> &'static str {
        match self {
            Unit::Percent => "80",
            Unit::Memory => "1GiB",
            Unit::Io => "20MB",
            Unit::Count => "10",
            Unit::Seconds => "5m",
        }
    }
}

fn sum(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // docker/go-units: RAMInBytes takes every unit as binary, FromHumanSize as decimal unless it is an IEC one.
    #[test]
    fn sizes_are_read_as_docker_reads_them() {
        let memory = |text| Unit::Memory.read(text);
        assert_eq!(memory("32"), Some(32.0));
        assert_eq!(memory("32kb"), Some(32_768.0));
        assert_eq!(memory("1GiB"), Some(1_073_741_824.0));
        assert_eq!(memory("1 GiB"), Some(1_073_741_824.0));
        assert_eq!(memory("1g"), Some(1_073_741_824.0));
        assert_eq!(memory("1.5m"), Some(1_572_864.0));
        assert_eq!(Unit::Io.read("32kB"), Some(32_000.0));
        assert_eq!(Unit::Io.read("32KiB"), Some(32_768.0));
        for bad in ["", "GiB", "1x", "-1", "1  GiB", "1 x", "1.2.3", "∞"] {
            assert_eq!(memory(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn percentages_counts_and_durations() {
        assert_eq!([Unit::Percent.read("80%"), Unit::Percent.read("0.5")], [Some(80.0), Some(0.5)]);
        assert_eq!([Unit::Count.read("10"), Unit::Count.read("10%")], [Some(10.0), None]);
        assert_eq!(
            ["90s", "5m", "2h", "1d", "250ms"].map(|text| Unit::Seconds.read(text)),
            [90.0, 300.0, 7200.0, 86_400.0, 0.25].map(Some)
        );
    }

    #[test]
    fn a_key_means_what_the_table_shows_under_its_heading() {
        let word = |word, of, rates| Key::find(word, of, rates).map(Key::word);
        assert_eq!(word("cpu", Base::Cpu, true), Some("cpu"));
        assert_eq!(word("cpu", Base::Node, false), Some("cpu-of-node"));
        assert_eq!(word("net", Base::Cpu, true), Some("net-rate"));
        assert_eq!(word("block", Base::Cpu, false), Some("block"));
        assert_eq!(word("nope", Base::Cpu, false), None);
    }
}
