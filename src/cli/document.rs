//! A router's JSON document passed on: the same tokens, on one line, with the rows that the table has.
//!
//! Numbers and unknown fields are kept as the router wrote them, so what is added up from the document is what the table
//! shows. Pure.

use crate::cli::format::plain;
use crate::cli::row::Row;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The document with only these rows of its list, in this order, which are then taken out of them, so that none is passed
/// on twice; what is no such document is passed on as it came.
pub fn selected(document: &str, list: &str, rows: &mut Vec<&Row>) -> String {
    /// What a row is known by.
    #[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
    struct Identity<'a> {
        #[serde(borrow, default)]
        id: Option<std::borrow::Cow<'a, str>>,
        #[serde(borrow, default)]
        name: Option<std::borrow::Cow<'a, str>>,
    }
    let parts: Option<(BTreeMap<&str, &RawValue>, Vec<&RawValue>)> = (|| {
        let whole: BTreeMap<&str, &RawValue> = serde_json::from_str(document).ok()?;
        let rows = serde_json::from_str(whole.get(list)?.get()).ok()?;
        Some((whole, rows))
    })();
    let Some((whole, items)) = parts else { return one_line(document) };
    let by_identity: BTreeMap<Identity<'_>, &RawValue> =
        items.into_iter().filter_map(|item| Some((serde_json::from_str(item.get()).ok()?, item))).collect();
    let mut shown = vec![];
    rows.retain(|row| {
        let (id, name) = (row.id.as_deref().map(Into::into), row.name.as_deref().map(Into::into));
        let item = by_identity.get(&Identity { id, name });
        shown.extend(item.map(|item| item.get()));
        item.is_none()
    });
    let shown = format!("[{}]", shown.join(","));
    let fields = whole.iter().map(|(key, value)| {
        let value = if *key == list { &shown } else { value.get() };
        format!("{}:{value}", serde_json::Value::from(*key))
    });
    one_line(&format!("{{{}}}", fields.collect::<Vec<_>>().join(",")))
}

/// A JSON document on one line: the same tokens, with nothing in them that a terminal obeys.
///
/// In JSON a line break or tab can only stand between tokens.
fn one_line(document: &str) -> String {
    plain(&document.trim().replace(['\n', '\r', '\t'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> serde_json::Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn rows_are_selected_and_put_in_order_and_their_numbers_stay_as_written() {
        let document = r#"{"complete": true, "new": {"x": [1]}, "tasks": [
            {"id": "a", "name": "web.1", "figures": {"cpu_percent": 1.500000, "memory_used_bytes": 18446744073709551615}},
            {"id": "b", "name": null}, {"id": "c", "name": "w\u0065b.3"}]}"#;
        let row =
            |id: &str, name: Option<&str>| Row { id: Some(id.into()), name: name.map(Into::into), ..Row::default() };
        let rows = [row("c", Some("web.3")), row("a", Some("web.1")), row("x", None)];
        let mut left: Vec<&Row> = rows.iter().collect();
        let line = selected(document, "tasks", &mut left);
        assert_eq!(left, [&rows[2]], "the others are passed on");
        assert!(line.contains(r#""cpu_percent": 1.500000, "memory_used_bytes": 18446744073709551615"#), "{line}");
        let ids: Vec<_> = value(&line)["tasks"].as_array().unwrap().iter().map(|task| task["id"].clone()).collect();
        assert_eq!(ids, ["c", "a"]);
        assert_eq!((&value(&line)["complete"], &value(&line)["new"]["x"][0]), (&true.into(), &1.into()));
        assert_eq!(
            value(&selected(document, "tasks", &mut vec![&row("b", None)]))["tasks"],
            value(r#"[{"id": "b", "name": null}]"#)
        );
    }

    #[test]
    fn a_document_on_one_line_has_the_same_meaning_and_no_control_character() {
        let document = "{\n\t\"a\": \"x\u{9b}2J\u{7f}\",\r\n \"b\": 1.50}\n";
        let line = one_line(document);
        assert_eq!(line, "{  \"a\": \"x\\u009b2J\\u007f\",   \"b\": 1.50}");
        assert_eq!(value(&line), value(document));
    }
}
