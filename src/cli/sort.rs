//! The order of the rows, and how they keep their places while a table lives.
//!
//! Figures sort the greatest first, texts as people count (`web.2` before `web.10`), `-` or `--reverse` the other way
//! round; what is absent comes last either way, and equal rows are ordered by name.
//!
//! In a live table sorted by a figure ([`Steady`]) rows do not jump. A row moves up past the one above it only if it
//! exceeds that by a clear margin (a tenth, and at least what is worth notice: 1 percentage point, 1 MiB, 1 MB, one, 1 s),
//! or if it has been out of order with it in [`PATIENCE`] frames on end. Pure.

use crate::cli::key::{Key, Unit};
use crate::cli::row::Row;
use crate::cli::view::Base;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// For how many frames a row may stand one place too low.
pub const PATIENCE: u8 = 3;

/// What rows are sorted by.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Order {
    /// The key.
    pub key: Key,
    /// Against the key's usual direction.
    pub reversed: bool,
}

/// No key is called so.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("--sort {word:?}: there is no such key; keys: {}", Key::words().collect::<Vec<_>>().join(", "))]
pub struct Error {
    word: String,
}

impl Order {
    /// Reads `[-]KEY`.
    ///
    /// # Errors
    /// Where there is no such key.
    pub fn read(text: &str, of: Base, rates: bool) -> Result<Order, Error> {
        let (word, reversed) = text.strip_prefix('-').map_or((text, false), |word| (word, true));
        let key = Key::find(word, of, rates).ok_or_else(|| Error { word: text.to_owned() })?;
        Ok(Order { key, reversed })
    }

    /// Sorts rows exactly.
    pub fn sort(self, rows: &mut [Row]) {
        rows.sort_by_cached_key(|row| self.place(row));
    }

    fn place(self, row: &Row) -> Place {
        let value = match self.key {
            Key::Number(number) => (number.of)(row).map_or(Value::Absent, Value::Number),
            Key::Text(text) => {
                let text = (text.of)(row).into_iter().flatten().next().filter(|text| !text.is_empty());
                text.map_or(Value::Absent, |text| Value::Text(natural(text)))
            }
        };
        let name = row.short_name().or(row.id.as_deref()).unwrap_or_default();
        Place { value, name: natural(name), id: row.id.clone().unwrap_or_default(), reversed: self.reversed }
    }
}

#[derive(Clone, PartialEq, Debug)]
enum Value {
    Number(f64),
    Text(String),
    Absent,
}

#[derive(Clone, PartialEq, Debug)]
struct Place {
    value: Value,
    name: String,
    id: String,
    reversed: bool,
}

impl Eq for Place {}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Place) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Place) -> Ordering {
        let by_value = match (&self.value, &other.value) {
            (Value::Number(a), Value::Number(b)) => {
                if self.reversed {
                    a.total_cmp(b)
                } else {
                    b.total_cmp(a)
                }
            }
            (Value::Text(a), Value::Text(b)) => {
                if self.reversed {
                    b.cmp(a)
                } else {
                    a.cmp(b)
                }
            }
            (Value::Absent, Value::Absent) => Ordering::Equal,
            (Value::Absent, _) => Ordering::Greater,
            (_, Value::Absent) => Ordering::Less,
            _ => Ordering::Equal, // one key gives one kind
        };
        by_value.then_with(|| self.name.cmp(&other.name)).then_with(|| self.id.cmp(&other.id))
    }
}

/// The order of a live table's rows, from frame to frame.
#[derive(Debug, Default)]
pub struct Steady {
    order: Option<Order>,
    /// Of the rows of the last frame: their place, and for how many frames they stood below one they should be above.
    places: BTreeMap<String, (usize, u8)>,
}

impl Steady {
    /// Puts the rows of the next frame in order.
    pub fn arrange(&mut self, order: Order, rows: &mut Vec<Row>) {
        order.sort(rows);
        if let (Key::Number(number), true) = (order.key, self.order == Some(order)) {
            self.damp(order, number.unit, rows);
        } else {
            self.places.clear();
        }
        self.order = Some(order);
        let waited = |row: &Row| self.places.get(identity(row)).map_or(0, |(_, waited)| *waited);
        self.places = rows.iter().enumerate().map(|(at, row)| (identity(row).to_owned(), (at, waited(row)))).collect();
    }

    /// From exactly sorted rows back to the last frame's places, and from there only the moves that are due.
    fn damp(&mut self, order: Order, unit: Unit, rows: &mut Vec<Row>) {
        let mut shown: Vec<(Row, Place)> = rows
            .drain(..)
            .map(|row| {
                let place = order.place(&row);
                (row, place)
            })
            .collect();
        // A new row stands where it belongs: behind the last known row that sorts before it.
        let mut before = 0;
        let mut keys: Vec<(usize, usize)> = Vec::with_capacity(shown.len());
        for (exact, (row, _)) in shown.iter().enumerate() {
            if let Some((place, _)) = self.places.get(identity(row)) {
                before = *place;
            }
            keys.push((before, exact));
        }
        let mut sorted: Vec<_> = keys.into_iter().zip(shown.drain(..)).collect();
        sorted.sort_by_key(|(key, (row, _))| (key.0, !self.places.contains_key(identity(row)), key.1));
        let mut shown: Vec<(Row, Place)> = sorted.into_iter().map(|(_, row)| row).collect();
        let mut waits = vec![0; shown.len()];
        for at in 1..shown.len() {
            if shown[at].1 < shown[at - 1].1 {
                waits[at] = self.places.get(identity(&shown[at].0)).map_or(0, |(_, waited)| *waited) + 1;
            }
        }
        for from in 1..shown.len() {
            let mut at = from;
            while at > 0
                && shown[at].1 < shown[at - 1].1
                && (waits[at] >= PATIENCE || clear(unit, &shown[at].1.value, &shown[at - 1].1.value))
            {
                shown.swap(at, at - 1);
                waits.swap(at, at - 1);
                at -= 1;
            }
            if at != from {
                waits[at] = 0;
            }
        }
        for ((row, _), wait) in shown.iter().zip(waits) {
            self.places.entry(identity(row).to_owned()).or_default().1 = wait;
        }
        rows.extend(shown.into_iter().map(|(row, _)| row));
    }
}

/// What tells a row from the others.
pub(super) fn identity(row: &Row) -> &str {
    row.id.as_deref().or(row.name.as_deref()).unwrap_or_default()
}

/// Whether a difference is worth a move at once.
fn clear(unit: Unit, a: &Value, b: &Value) -> bool {
    let notable: f64 = match unit {
        Unit::Percent | Unit::Count | Unit::Seconds => 1.0,
        Unit::Memory => 1_048_576.0,
        Unit::Io => 1e6,
    };
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => (a - b).abs() >= notable.max(a.abs().max(b.abs()) * 0.1),
        _ => true, // a figure that came or went
    }
}

/// A sorting key by which `web.2` comes before `web.10`.
pub fn natural(name: &str) -> String {
    let mut key = String::new();
    for run in name.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()) {
        let run = String::from_utf8_lossy(run);
        if run.starts_with(|c: char| c.is_ascii_digit()) {
            key.push_str(&format!("{:0>20}", run.trim_start_matches('0')));
        } else {
            key.push_str(&run);
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::row::Figures;

    fn row(name: &str, cpu: Option<f64>) -> Row {
        let figures = Figures { cpu_percent: cpu, ..Figures::default() };
        Row { id: Some(format!("id-{name}")), name: Some(name.into()), figures, ..Row::default() }
    }

    fn by(text: &str) -> Order {
        Order::read(text, Base::Cpu, false).unwrap()
    }

    fn names(rows: &[Row]) -> Vec<&str> {
        rows.iter().filter_map(|row| row.name.as_deref()).collect()
    }

    /// One frame of rows `name=cpu`, and the names in the order shown.
    fn frame(steady: &mut Steady, line: &str) -> String {
        let cpu = |text: &str| text.parse().ok();
        let mut rows: Vec<Row> = line
            .split(' ')
            .map(|pair| pair.split_once('=').unwrap())
            .map(|(name, text)| row(name, cpu(text)))
            .collect();
        steady.arrange(by("cpu"), &mut rows);
        names(&rows).join(" ")
    }

    #[test]
    fn figures_sort_the_greatest_first_texts_as_people_count_and_absent_last() {
        let sorted = |text| {
            let mut rows =
                vec![row("web.10", Some(1.0)), row("db", None), row("web.2", Some(3.0)), row("api", Some(3.0))];
            by(text).sort(&mut rows);
            names(&rows).join(" ")
        };
        assert_eq!(sorted("name"), "api db web.2 web.10");
        assert_eq!(sorted("-name"), "web.10 web.2 db api");
        assert_eq!(sorted("cpu"), "api web.2 web.10 db");
        assert_eq!(sorted("-cpu"), "web.10 api web.2 db");
        assert!(Order::read("nope", Base::Cpu, false).unwrap_err().to_string().contains("keys: name, id,"));
    }

    #[test]
    fn rows_that_are_nearly_equal_change_places_only_after_three_frames() {
        let mut steady = Steady::default();
        assert_eq!(frame(&mut steady, "a=50.0 b=49.0 c=10"), "a b c");
        assert_eq!(frame(&mut steady, "a=50.0 b=51.0 c=10"), "a b c", "1: within a tenth");
        assert_eq!(frame(&mut steady, "a=50.0 b=50.5 c=10"), "a b c", "2");
        assert_eq!(frame(&mut steady, "a=50.0 b=50.5 c=10"), "b a c", "3");
        assert_eq!(frame(&mut steady, "a=50.0 b=50.5 c=10"), "b a c", "and stays");
    }

    #[test]
    fn one_frame_in_order_ends_the_wait() {
        let mut steady = Steady::default();
        frame(&mut steady, "a=50 b=49");
        for _ in 0..10 {
            assert_eq!(frame(&mut steady, "a=50 b=51"), "a b");
            assert_eq!(frame(&mut steady, "a=50 b=51"), "a b");
            assert_eq!(frame(&mut steady, "a=50 b=49"), "a b");
        }
    }

    #[test]
    fn a_clear_difference_moves_a_row_at_once_past_as_many_as_it_exceeds() {
        let mut steady = Steady::default();
        assert_eq!(frame(&mut steady, "a=90 b=60 c=30 d=0.1"), "a b c d");
        assert_eq!(frame(&mut steady, "a=90 b=60 c=30 d=75"), "a d b c");
        assert_eq!(frame(&mut steady, "a=0 b=60 c=30 d=75"), "d b c a");
        assert_eq!(frame(&mut steady, "a=0.9 b=60 c=30 d=75"), "d b c a", "0.9 is not worth a move");
        assert_eq!(frame(&mut steady, "a=0.9 b=60 c=-- d=75"), "d b a c", "a figure that went");
    }

    #[test]
    fn rows_that_come_and_go_disturb_nobody_else() {
        let mut steady = Steady::default();
        assert_eq!(frame(&mut steady, "a=50 b=49 c=10"), "a b c");
        assert_eq!(frame(&mut steady, "a=50 b=51 c=10 n=30"), "a b n c");
        assert_eq!(frame(&mut steady, "b=51 c=10 n=30"), "b n c");
        assert_eq!(frame(&mut steady, "z=99 b=51 c=10 n=30"), "z b n c");
    }
}
