//! YAML text as a tree whose every node can be found again in the text; the only file that names `serde_yaml`.
//!
//! `serde_yaml` tells positions only in its errors, so a node is located by walking to it a second time and failing
//! there: the error then says exactly where, in block and flow style alike. A node's address is the list of entry
//! numbers on the way to it, which also tells two equal keys apart.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A YAML value.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Node {
    Null,
    Text(String),
    Integer(i128),
    /// A boolean or a float: nothing here is one, so only its kind is kept, for the message.
    Other(&'static str),
    List(Vec<Node>),
    /// In the order of the text, equal keys included.
    Map(Vec<(String, Node)>),
}

/// A text that is not YAML.
pub(super) struct SyntaxError {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) problem: String,
}

/// Reads a text; an empty one is `Null`.
pub(super) fn parse(text: &str) -> Result<Node, SyntaxError> {
    Node::deserialize(serde_yaml::Deserializer::from_str(text)).or_else(|err| {
        // A text of comments alone has no document, which is no mistake here.
        if text.lines().all(|line| line.trim_start().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(Node::Null);
        }
        let (line, column) = err.location().map_or((1, 1), |at| (at.line(), at.column()));
        let problem = err.to_string();
        let problem = problem.split(" at line ").next().unwrap_or_default().to_owned();
        Err(SyntaxError { line, column, problem })
    })
}

/// Line and column of a node of a text that [`parse`] took: of its key if it has one, else of the value.
pub(super) fn locate(text: &str, address: &[usize]) -> (usize, usize) {
    let failure = Find(address).deserialize(serde_yaml::Deserializer::from_str(text)).err();
    failure.and_then(|err| err.location()).map_or((1, 1), |at| (at.line(), at.column()))
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain YAML without tags")
    }
    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }
    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }
    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }
    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(Node::Integer(number.into()))
    }
    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Integer(number.into()))
    }
    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Other("a boolean"))
    }
    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Other("a decimal number"))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Node, Node>()? {
            let key = match key {
                Node::Text(text) => text,
                Node::Integer(number) => number.to_string(),
                _ => return Err(A::Error::custom("a key that is not a word")),
            };
            map.push((key, value));
        }
        Ok(Node::Map(map))
    }
}

/// Walks to an address and fails there.
struct Find<'a>(&'a [usize]);

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = ();

    /// Every visit that is not overridden fails with this: the walk has arrived.
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the end of the walk")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let [at, rest @ ..] = self.0 else { return Err(A::Error::custom("here")) };
        for _ in 0..*at {
            items.next_element::<IgnoredAny>()?;
        }
        items.next_element_seed(Find(rest)).map(|_| ())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let [at, rest @ ..] = self.0 else { return Err(A::Error::custom("here")) };
        for _ in 0..*at {
            entries.next_entry::<IgnoredAny, IgnoredAny>()?;
        }
        if rest.is_empty() {
            return entries.next_key_seed(Find(rest)).map(|_| ());
        }
        entries.next_key::<IgnoredAny>()?;
        entries.next_value_seed(Find(rest))
    }
}
