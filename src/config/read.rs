//! Reads a tree by name, collecting mistakes on the way instead of stopping at the first.
//!
//! A reader of a section asks for each key it knows, with its default; what nobody asked for is an unknown key.

use super::tree::{self, Node};
use super::{MAX_MISTAKES, MAX_TEXT, Mistake, Mistakes};
use std::cell::RefCell;

/// Why a value is refused, and what to write instead.
pub(super) struct Wrong {
    pub(super) problem: String,
    pub(super) remedy: String,
}

/// Makes a [`Wrong`].
pub(super) fn wrong(problem: impl Into<String>, remedy: impl Into<String>) -> Wrong {
    Wrong { problem: problem.into(), remedy: remedy.into() }
}

/// Where something stands: its address in the tree and its dotted place.
#[derive(Clone, Default)]
struct Spot {
    address: Vec<usize>,
    place: String,
}

impl Spot {
    fn key(&self, entry: usize, key: &str) -> Spot {
        let dot = if self.place.is_empty() { "" } else { "." };
        let place = format!("{}{dot}{}", self.place, shortened(key));
        Spot { address: [&*self.address, &[entry]].concat(), place }
    }
    fn item(&self, n: usize) -> Spot {
        Spot { address: [&*self.address, &[n]].concat(), place: format!("{}[{n}]", self.place) }
    }
}

/// What was found out while reading one text.
#[derive(Default)]
struct Findings {
    wrong: Vec<(Spot, Wrong)>,
    unknown: Vec<Spot>,
    /// The place of every key that a section asked for.
    known: Vec<String>,
}

/// Reads a whole text: `read` gets its root, and what it returns counts only if nothing was wrong.
pub(super) fn parse<T>(text: &str, read: impl FnOnce(Value<'_>) -> T) -> Result<T, Mistakes> {
    parse_noting_keys(text, read).0
}

/// [`parse`], and the places of all keys asked for.
pub(super) fn parse_noting_keys<T>(
    text: &str,
    read: impl FnOnce(Value<'_>) -> T,
) -> (Result<T, Mistakes>, Vec<String>) {
    let whole = |line, column, problem: String, remedy: &str| {
        let (place, remedy) = (String::new(), remedy.to_owned());
        (Err(Mistakes { list: vec![Mistake { line, column, place, problem, remedy }], more: 0 }), Vec::new())
    };
    if text.len() > MAX_TEXT {
        return whole(1, 1, format!("{} bytes of YAML", text.len()), &format!("{MAX_TEXT} (256 KiB) are allowed"));
    }
    let root = match tree::parse(text) {
        Ok(root) => root,
        Err(err) => {
            let remedy = "check the indentation, quotes and colons there (YAML allows no tabs)";
            return whole(err.line, err.column, err.problem, remedy);
        }
    };
    let findings = RefCell::default();
    let value = read(Value { node: &root, spot: Spot::default(), findings: &findings });
    let Findings { mut wrong, unknown, known } = findings.into_inner();
    wrong.extend(unknown.into_iter().map(|spot| {
        let remedy = suggestion(&spot.place, &known);
        (spot, self::wrong("unknown key", remedy))
    }));
    if wrong.is_empty() {
        return (Ok(value), known);
    }
    wrong.sort_by(|a, b| a.0.address.cmp(&b.0.address));
    let more = wrong.len().saturating_sub(MAX_MISTAKES);
    wrong.truncate(MAX_MISTAKES);
    let list = wrong.into_iter().map(|(Spot { address, place }, Wrong { problem, remedy })| {
        let (line, column) = tree::locate(text, &address);
        Mistake { line, column, place, problem, remedy }
    });
    (Err(Mistakes { list: list.collect(), more }), known)
}

/// A value with its place.
pub(super) struct Value<'a> {
    node: &'a Node,
    spot: Spot,
    findings: &'a RefCell<Findings>,
}

impl<'a> Value<'a> {
    /// Whether it is a list at all.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.node, Node::List(_))
    }
    /// Notes a mistake here.
    pub(super) fn refuse(&self, wrong: Wrong) {
        self.findings.borrow_mut().wrong.push((self.spot.clone(), wrong));
    }
    /// The value a parser makes of it, or a mistake noted.
    pub(super) fn read<T>(&self, parse: impl FnOnce(&Node) -> Result<T, Wrong>) -> Option<T> {
        parse(self.node).map_err(|wrong| self.refuse(wrong)).ok()
    }
    /// Its items; not a list is a mistake and has none.
    pub(super) fn items(&self) -> Vec<Value<'a>> {
        match self.node {
            Node::List(list) => list
                .iter()
                .enumerate()
                .map(|(n, node)| Value { node, spot: self.spot.item(n), findings: self.findings })
                .collect(),
            other => {
                self.refuse(wrong(
                    format!("{} where a list belongs", kind(other)),
                    "write [a, b], or a `- ` line for each",
                ));
                Vec::new()
            }
        }
    }
    /// Reads it as a section of keys; what is none is a mistake and read as an empty one.
    pub(super) fn section<T>(self, read: impl FnOnce(&mut Section<'a>) -> T) -> T {
        let here = if self.spot.place.is_empty() { "the text" } else { "it" };
        self.section_like(&format!("{here} as `key: value` lines"), read)
    }
    /// The same, with what to write instead of what is no section.
    pub(super) fn section_like<T>(self, instead: &str, read: impl FnOnce(&mut Section<'a>) -> T) -> T {
        let is_none = !matches!(self.node, Node::Map(_) | Node::Null);
        let entries: &[(String, Node)] = match self.node {
            Node::Map(entries) => entries,
            Node::Null => &[],
            other => {
                self.refuse(wrong(format!("{} where keys belong", kind(other)), format!("write {instead}")));
                &[]
            }
        };
        let mut section = Section { entries, spot: self.spot, findings: self.findings, asked: Vec::new(), is_none };
        let value = read(&mut section);
        section.finish();
        value
    }
}

/// The entries of a mapping, asked for by name.
pub(super) struct Section<'a> {
    entries: &'a [(String, Node)],
    spot: Spot,
    findings: &'a RefCell<Findings>,
    asked: Vec<&'static str>,
    /// Something else stands where a section belongs, and that was said.
    is_none: bool,
}

impl<'a> Section<'a> {
    /// The value of a key, unless it is left out or empty.
    pub(super) fn get(&mut self, key: &'static str) -> Option<Value<'a>> {
        self.asked.push(key);
        self.findings.borrow_mut().known.push(self.spot.key(0, key).place);
        let (entry, (_, node)) = self.entries.iter().enumerate().find(|(_, (name, _))| name == key)?;
        (*node != Node::Null).then(|| Value { node, spot: self.spot.key(entry, key), findings: self.findings })
    }
    /// The value of a key that has a default.
    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        default: T,
        parse: impl FnOnce(&Node) -> Result<T, Wrong>,
    ) -> T {
        self.get(key).and_then(|value| value.read(parse)).unwrap_or(default)
    }
    /// The value of a key that may be left out.
    pub(super) fn optional<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&Node) -> Result<T, Wrong>,
    ) -> Option<T> {
        self.get(key).and_then(|value| value.read(parse))
    }
    /// The value of a key that must be there.
    pub(super) fn required<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&Node) -> Result<T, Wrong>,
    ) -> Option<T> {
        match self.get(key) {
            Some(value) => value.read(parse),
            None if self.is_none => None,
            None => {
                self.refuse(key, wrong(format!("no `{key}`"), format!("add `{key}: …`")));
                None
            }
        }
    }
    /// A section below; left out, its keys have their defaults.
    pub(super) fn section<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Section<'a>) -> T) -> T {
        let absent = Value { node: &Node::Null, spot: self.spot.key(0, key), findings: self.findings };
        self.get(key).unwrap_or(absent).section(read)
    }
    /// The same, with what to write instead of what is no section.
    pub(super) fn section_like<T>(
        &mut self,
        key: &'static str,
        instead: &str,
        read: impl FnOnce(&mut Section<'a>) -> T,
    ) -> T {
        let absent = Value { node: &Node::Null, spot: self.spot.key(0, key), findings: self.findings };
        self.get(key).unwrap_or(absent).section_like(instead, read)
    }
    /// Whether a key was given a value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(name, node)| name == key && *node != Node::Null)
    }
    /// Notes a mistake at a key, or at the section where it is left out.
    pub(super) fn refuse(&self, key: &str, wrong: Wrong) {
        let entry = self.entries.iter().position(|(name, _)| name == key);
        let spot = entry.map_or_else(|| self.spot.clone(), |entry| self.spot.key(entry, key));
        self.findings.borrow_mut().wrong.push((spot, wrong));
    }

    /// The same at a key of a section below, or at that section, or here, where they are left out.
    pub(super) fn refuse_below(&self, section: &str, key: &str, wrong: Wrong) {
        let below = self.entries.iter().position(|(name, _)| name == section);
        let spot = below.map_or_else(
            || self.spot.clone(),
            |entry| {
                let spot = self.spot.key(entry, section);
                let keys = match &self.entries[entry].1 {
                    Node::Map(keys) => keys.iter().position(|(name, _)| name == key),
                    _ => None,
                };
                keys.map_or(spot.clone(), |at| spot.key(at, key))
            },
        );
        self.findings.borrow_mut().wrong.push((spot, wrong));
    }

    /// Whether nothing was wrong at or below a key so far.
    pub(super) fn is_right(&self, key: &str) -> bool {
        let entry = self.entries.iter().position(|(name, _)| name == key);
        let address = entry.map_or_else(Vec::new, |entry| self.spot.key(entry, key).address);
        entry.is_none() || !self.findings.borrow().wrong.iter().any(|(spot, _)| spot.address.starts_with(&address))
    }

    /// Notes keys that nobody asked for, and keys given twice.
    fn finish(self) {
        let mut findings = self.findings.borrow_mut();
        for (entry, (key, _)) in self.entries.iter().enumerate() {
            let spot = self.spot.key(entry, key);
            if !self.asked.contains(&key.as_str()) {
                findings.unknown.push(spot);
            } else if self.entries[..entry].iter().any(|(earlier, _)| earlier == key) {
                findings.wrong.push((spot, wrong("given twice", "keep one of them")));
            }
        }
    }
}

/// What a node is, for messages.
pub(super) fn kind(node: &Node) -> String {
    match node {
        Node::Null => "nothing".to_owned(),
        Node::Text(text) => format!("{:?}", shortened(text)),
        Node::Integer(number) => number.to_string(),
        Node::Other(what) => (*what).to_owned(),
        Node::List(_) => "a list".to_owned(),
        Node::Map(_) => "a section of keys".to_owned(),
    }
}

/// The beginning of a text, short enough for a message.
fn shortened(text: &str) -> &str {
    text.char_indices().nth(64).map_or(text, |(end, _)| text.get(..end).unwrap_or(text))
}

/// The remedy for an unknown key: the known place that looks most like it, or the keys that could stand beside it.
fn suggestion(place: &str, known: &[String]) -> String {
    let (parent, key) = split(place);
    // The same key in another section, or a slip of the pen in this one.
    let distance = |other: &str| {
        let (other_parent, other_key) = split(other);
        if other_parent == parent { edits(key, other_key) } else { edits(key, other_key) * 2 + 1 }
    };
    let nearest = known.iter().map(|other| (distance(other), other)).min();
    match nearest {
        Some((distance, other)) if distance <= (key.chars().count() / 3).max(1) => {
            let (other_parent, other_key) = split(other);
            format!("did you mean `{}`?", if other_parent == parent { other_key } else { other })
        }
        _ => {
            let mut beside: Vec<_> = known.iter().filter(|k| split(k).0 == parent).map(|k| split(k).1).collect();
            beside.sort_unstable();
            beside.dedup();
            format!("the keys here are {}", beside.join(", "))
        }
    }
}

/// A place's section and its last key; the numbers of list items do not matter.
fn split(place: &str) -> (String, &str) {
    let (parent, key) = place.rsplit_once('.').unwrap_or(("", place));
    let parent = parent.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)).collect();
    (parent, key)
}

/// The least number of characters to insert, delete or replace to make one word of the other (Levenshtein).
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replace = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
