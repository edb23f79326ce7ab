//! What an examination found, and how it is told: as a list for people, or as JSON.
//!
//! Each finding says what is so; one that is not well also says why that matters and what helps. Its `code` never
//! changes, so that a script can look for it. Pure.

use crate::cli::format::{plain, printable};
use serde::Serialize;

/// How bad.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Well.
    Ok,
    /// Figures come, but fewer, older or less safe than they could be.
    Warn,
    /// Tasks are not shown, or wrongly.
    Fail,
}

/// What was examined; findings are listed by it, in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The Docker engine here.
    Engine,
    /// The kernel here.
    Machine,
    /// The router asked.
    Router,
    /// Who owns what.
    Ring,
    /// The shippers, node by node.
    Nodes,
    /// The wall clocks.
    Clocks,
    /// Ports and who may reach them.
    Ports,
    /// The task or service named.
    Task,
}

impl Part {
    fn heading(self) -> &'static str {
        match self {
            Part::Engine => "Engine",
            Part::Machine => "This machine",
            Part::Router => "Router",
            Part::Ring => "Ring",
            Part::Nodes => "Nodes",
            Part::Clocks => "Clocks",
            Part::Ports => "Ports",
            Part::Task => "Task",
        }
    }
}

/// One thing found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// Where.
    pub part: Part,
    /// Which kind, for scripts.
    pub code: &'static str,
    /// What is so.
    pub what: String,
    /// Why that matters; empty if all is well.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub why: &'static str,
    /// What helps; empty if all is well.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

impl Finding {
    /// Something that is well.
    pub fn ok(part: Part, code: &'static str, what: impl Into<String>) -> Finding {
        Finding { severity: Severity::Ok, part, code, what: what.into(), why: "", remedy: String::new() }
    }
    /// Something that could be better.
    pub fn warn(
        part: Part,
        code: &'static str,
        what: impl Into<String>,
        why: &'static str,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding { severity: Severity::Warn, part, code, what: what.into(), why, remedy: remedy.into() }
    }
    /// Something that is broken.
    pub fn fail(
        part: Part,
        code: &'static str,
        what: impl Into<String>,
        why: &'static str,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding { severity: Severity::Fail, ..Finding::warn(part, code, what, why, remedy) }
    }
}

fn count(findings: &[Finding], severity: Severity) -> usize {
    findings.iter().filter(|finding| finding.severity == severity).count()
}

/// As one JSON document on a line.
pub fn json(findings: &[Finding]) -> String {
    let document = serde_json::json!({
        "failed": count(findings, Severity::Fail),
        "warnings": count(findings, Severity::Warn),
        "well": count(findings, Severity::Ok),
        "findings": findings,
    });
    plain(&document.to_string()) + "\n"
}

/// As a list for people: `width` in characters, where there is one.
pub fn text(findings: &[Finding], width: Option<usize>, colours: bool) -> String {
    let mut text = String::new();
    let mut part = None;
    for finding in findings {
        if part.replace(finding.part) != Some(finding.part) {
            let heading = finding.part.heading();
            let gap = if text.is_empty() { "" } else { "\n" };
            text += &format!("{gap}{}\n", if colours { format!("\x1b[1m{heading}\x1b[0m") } else { heading.into() });
        }
        let (word, colour) = match finding.severity {
            Severity::Ok => ("ok  ", "32"),
            Severity::Warn => ("warn", "33"),
            Severity::Fail => ("FAIL", "1;31"),
        };
        let word = if colours { format!("\x1b[{colour}m{word}\x1b[0m") } else { word.into() };
        text += &format!("  {word}  {}\n", indented(&finding.what, 8, width));
        for (label, said) in [("why", finding.why), ("do ", &*finding.remedy)] {
            if !said.is_empty() {
                text += &format!("        {label}  {}\n", indented(said, 13, width));
            }
        }
    }
    let [failed, warned, well] = [Severity::Fail, Severity::Warn, Severity::Ok].map(|s| count(findings, s));
    let warnings = if warned == 1 { "warning" } else { "warnings" };
    text + &format!("\n{failed} failed, {warned} {warnings}, {well} well\n")
}

/// A text broken at its blanks; further lines begin `indent` characters to the right.
fn indented(text: &str, indent: usize, width: Option<usize>) -> String {
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(indent).max(20));
    let (mut lines, mut taken) = (String::new(), 0);
    for word in printable(text).split(' ') {
        let length = word.chars().count();
        if taken > 0 && taken + 1 + length > room {
            lines += &format!("\n{}", " ".repeat(indent));
            taken = 0;
        }
        if taken > 0 {
            lines.push(' ');
            taken += 1;
        }
        lines += word;
        taken += length;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Finding> {
        vec![
            Finding::ok(Part::Engine, "engine", "it answers"),
            Finding::fail(Part::Router, "router_absent", "nobody listens at x", "nothing is shown", "start one"),
        ]
    }

    #[test]
    fn people_get_a_list_by_part_with_why_and_remedy_and_a_sum() {
        assert_eq!(
            text(&findings(), None, false),
            "\
Engine
  ok    it answers

Router
  FAIL  nobody listens at x
        why  nothing is shown
        do   start one

1 failed, 0 warnings, 1 well
"
        );
    }

    #[test]
    fn long_texts_keep_within_the_width_and_nothing_a_terminal_obeys_gets_through() {
        let long = Finding::ok(Part::Engine, "engine", "word ".repeat(50) + "\x1b[2J");
        let shown = text(&[long], Some(60), false);
        assert!(shown.lines().all(|line| line.chars().count() <= 60), "{shown}");
        assert!(!shown.contains('\x1b') && shown.contains("\n        word"), "{shown}");
    }

    #[test]
    fn scripts_get_codes_and_counts() {
        let document: serde_json::Value = serde_json::from_str(&json(&findings())).unwrap();
        assert_eq!((&document["failed"], &document["well"]), (&1.into(), &1.into()));
        assert_eq!(document["findings"][1]["code"], "router_absent");
        assert_eq!(document["findings"][1]["severity"], "fail");
        assert_eq!(document["findings"][0].get("remedy"), None);
        let said = "a\u{9b}2J\u{7f}\u{202e}b\u{200b}c\u{feff}";
        let line = json(&[Finding::ok(Part::Engine, "engine", said)]);
        assert!(line.contains(r"a\u009b2J\u007f\u202eb\u200bc\ufeff"), "{line}");
        let document: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(document["findings"][0]["what"], said, "the same text");
    }
}
