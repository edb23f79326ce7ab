//! Templates as docker stats' `--format` takes them: a small part of Go's, enough for lines of text.
//!
//! There are `{{.Field}}`, Docker's functions of texts ([`FUNCTIONS`]), literals, parentheses, pipes and `{{- -}}`;
//! no `if`, `range` or variables. Everything is checked when a template is read, on a row of headings: what does not
//! fit is said with its place, never found out later. What is absent is printed as docker stats prints it (`--`, and
//! `-- / --` only of memory), while the views' own tables keep both halves, which stand aligned. Pure.

use crate::cli::field::{DOCKERS, FIELDS, Field};
use crate::cli::format::ABSENT;
use crate::cli::row::Row;
use crate::cli::table::{Line, Style};
use std::collections::BTreeMap;

/// The functions there are.
pub const FUNCTIONS: [&str; 10] =
    ["json", "upper", "lower", "title", "split", "join", "pad", "truncate", "print", "println"];
/// The deepest parentheses.
const DEEPEST: usize = 16;
/// The widest padding.
const WIDEST: usize = 1000;

/// A template, read and checked.
#[derive(Clone, Debug)]
pub struct Template {
    text: String,
    pieces: Vec<Piece>,
}

impl PartialEq for Template {
    fn eq(&self, other: &Template) -> bool {
        self.text == other.text
    }
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Action(Pipe),
}

/// Each call's value is the last argument of the next one.
type Pipe = Vec<Call>;

#[derive(Clone, Debug)]
struct Call {
    function: Option<&'static str>,
    arguments: Vec<Argument>,
}

#[derive(Clone, Debug)]
enum Argument {
    Field(&'static Field),
    Row,
    Text(String),
    Number(usize),
    Pipe(Pipe),
}

enum Value {
    Text(String),
    List(Vec<String>),
    Number(usize),
    Row,
}

/// What is wrong with a template, and where: in characters, from 1.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("template {template:?}, at character {at}: {why}")]
pub struct Error {
    template: String,
    at: usize,
    why: String,
}

impl Template {
    /// Reads a template; `\t` and `\n` in its text are a tab and a line break.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn read(text: &str) -> Result<Template, Error> {
        let (mut pieces, mut at, mut trim) = (vec![], 0, false);
        let error = |at: usize, why: String| Error { template: text.into(), at: text[..at].chars().count() + 1, why };
        loop {
            let open = text[at..].find("{{").map(|found| at + found);
            let mut plain = &text[at..open.unwrap_or(text.len())];
            if trim {
                plain = plain.trim_start();
            }
            let trims_left = open.is_some_and(|open| text[open + 2..].starts_with("- "));
            if trims_left {
                plain = plain.trim_end();
            }
            if !plain.is_empty() {
                pieces.push(Piece::Text(plain.replace("\\t", "\t").replace("\\n", "\n")));
            }
            let Some(open) = open else { break };
            let mut reader = Reader { text, at: open + if trims_left { 3 } else { 2 } };
            let pipe = reader.pipe(0).and_then(|pipe| {
                trim = reader.end()?;
                Ok(pipe)
            });
            let pipe = pipe.map_err(|why| error(reader.at, why))?;
            // Tried on headings: of the right kinds or not.
            match run(&pipe, &|field| field.heading.into(), false) {
                Ok(Value::Row) => return Err(error(open, "{{.}} is a whole row: write {{json .}}".into())),
                Ok(_) => {}
                Err(why) => return Err(error(open, why)),
            }
            pieces.push(Piece::Action(pipe));
            at = reader.at;
        }
        Ok(Template { text: text.into(), pieces })
    }

    /// The text for one row.
    pub fn of(&self, row: &Row, full: bool) -> String {
        self.fill(&|field| dockers((field.cell)(row, full), field), false)
    }

    /// A table of it as Docker makes one: headings, and columns at its tabs.
    pub fn table(&self, rows: &[Row], full: bool) -> Vec<Line> {
        // Docker's: a column's least width, and what is between columns.
        const WIDTH: usize = 10;
        const GAP: usize = 3;
        let headings = (Style::Heading, self.fill(&|field| field.heading.into(), true));
        let texts: Vec<(Style, String)> =
            std::iter::once(headings).chain(rows.iter().map(|row| (Style::Plain, self.of(row, full)))).collect();
        let lines: Vec<(Style, Vec<&str>)> = texts
            .iter()
            .flat_map(|(style, text)| {
                let text = text.strip_suffix('\n').unwrap_or(text); // a row of no text is a line too
                text.split('\n').map(|line| (*style, line.split('\t').collect()))
            })
            .collect();
        let mut widths: Vec<usize> = vec![];
        for (_, cells) in &lines {
            // The last cell of a line ends at no tab.
            for (at, cell) in cells[..cells.len() - 1].iter().enumerate() {
                widths.resize(widths.len().max(at + 1), WIDTH);
                widths[at] = widths[at].max(cell.chars().count() + GAP);
            }
        }
        let line = |(style, cells): &(Style, Vec<&str>)| {
            let last = cells.len() - 1;
            let cells = cells.iter().enumerate().map(|(at, cell)| match at == last {
                true => (*cell).to_owned(),
                false => format!("{cell:<0$}", widths[at]),
            });
            Line { text: cells.collect(), style: *style }
        };
        lines.iter().map(line).collect()
    }

    fn fill(&self, cell: &dyn Fn(&Field) -> String, heading: bool) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            // What a row holds is a text as a heading is: it was tried.
            Piece::Action(pipe) => run(pipe, cell, heading).map_or_else(|_| ABSENT.into(), Value::shown),
        };
        self.pieces.iter().map(piece).collect()
    }
}

impl Value {
    fn shown(self) -> String {
        match self {
            Value::Text(text) => text,
            Value::List(texts) => format!("[{}]", texts.join(" ")),
            Value::Number(number) => number.to_string(),
            Value::Row => String::new(),
        }
    }
}

/// As docker stats prints what is absent: only of memory both halves.
fn dockers(text: String, field: &Field) -> String {
    if text == "-- / --" && field.placeholder != "MemUsage" { ABSENT.into() } else { text }
}

/// In a heading Docker's functions of texts change nothing.
fn run(pipe: &Pipe, cell: &dyn Fn(&Field) -> String, heading: bool) -> Result<Value, String> {
    let mut last = None;
    for Call { function, arguments } in pipe {
        let values = arguments.iter().map(|argument| match argument {
            Argument::Field(field) => Ok(Value::Text(cell(field))),
            Argument::Row => Ok(Value::Row),
            Argument::Text(text) => Ok(Value::Text(text.clone())),
            Argument::Number(number) => Ok(Value::Number(*number)),
            Argument::Pipe(pipe) => run(pipe, cell, heading),
        });
        let mut values = values.collect::<Result<Vec<_>, _>>()?;
        values.extend(last.take());
        last = Some(match function {
            Some(function) if heading && !function.starts_with("print") && !matches!(values[..], [Value::Row]) => {
                values.into_iter().find(|value| matches!(value, Value::Text(_))).unwrap_or(Value::Row)
            }
            Some(function) => call(function, values, cell)?,
            None => match (values.pop(), values.is_empty()) {
                (Some(value), true) => value,
                _ => return Err("a value takes no arguments".into()),
            },
        });
    }
    last.ok_or_else(|| "nothing between the braces".into())
}

fn call(function: &str, values: Vec<Value>, cell: &dyn Fn(&Field) -> String) -> Result<Value, String> {
    use Value::{List, Number, Row, Text};
    Ok(match (function, &values[..]) {
        ("json", [Row]) => Text(json(cell)),
        ("json", [Text(text)]) => Text(serde_json::Value::from(text.as_str()).to_string()),
        ("json", [List(texts)]) => Text(serde_json::Value::from(texts.clone()).to_string()),
        ("upper", [Text(text)]) => Text(text.to_uppercase()),
        ("lower", [Text(text)]) => Text(text.to_lowercase()),
        ("title", [Text(text)]) => Text(titled(text)),
        ("split", [Text(text), Text(at)]) => List(text.split(at.as_str()).map(str::to_owned).collect()),
        ("join", [List(texts), Text(between)]) => Text(texts.join(between)),
        ("pad", [Text(text), Number(before), Number(after)]) if !text.is_empty() => {
            Text(format!("{0:1$}{text}{0:2$}", "", (*before).min(WIDEST), (*after).min(WIDEST)))
        }
        ("pad", [Text(_), Number(_), Number(_)]) => Text(String::new()),
        ("truncate", [Text(text), Number(length)]) => Text(text.chars().take(*length).collect()),
        ("print", _) => Text(values.into_iter().map(Value::shown).collect()),
        ("println", _) => Text(values.into_iter().map(Value::shown).collect::<Vec<_>>().join(" ") + "\n"),
        _ => {
            return Err(match function {
                "split" => "write split TEXT SEPARATOR",
                "join" => "write join (split …) SEPARATOR",
                "pad" => "write pad TEXT BEFORE AFTER",
                "truncate" => "write truncate TEXT LENGTH",
                _ => return Err(format!("{function} takes one value")),
            }
            .into());
        }
    })
}

/// docker stats' texts and whatever else the row has, by name.
fn json(cell: &dyn Fn(&Field) -> String) -> String {
    let fields: BTreeMap<&str, String> = FIELDS
        .iter()
        .map(|field| (field.placeholder, cell(field)))
        .filter(|(name, text)| DOCKERS.contains(name) || !["", ABSENT, "-- / --"].contains(&text.as_str()))
        .collect();
    serde_json::to_string(&fields).unwrap_or_default() // texts by texts always are JSON
}

fn titled(text: &str) -> String {
    let mut first = true;
    let titled = text.chars().map(|c| {
        let upper = std::mem::replace(&mut first, !c.is_alphanumeric());
        if upper { c.to_uppercase().to_string() } else { c.to_string() }
    });
    titled.collect()
}

/// Reads what stands between braces.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn takes(&mut self, text: &str) -> bool {
        let there = self.rest().starts_with(text);
        self.at += if there { text.len() } else { 0 };
        there
    }

    /// The closing braces; whether the text behind them is trimmed.
    fn end(&mut self) -> Result<bool, String> {
        self.skip_spaces();
        if self.takes("}}") {
            Ok(false)
        } else if self.takes("-}}") {
            Ok(true)
        } else {
            Err("}} is missing".into())
        }
    }

    fn pipe(&mut self, depth: usize) -> Result<Pipe, String> {
        if depth > DEEPEST {
            return Err("too many parentheses".into());
        }
        let mut pipe = vec![self.call(depth)?];
        while self.takes("|") {
            pipe.push(self.call(depth)?);
        }
        Ok(pipe)
    }

    fn call(&mut self, depth: usize) -> Result<Call, String> {
        self.skip_spaces();
        let word = self.word();
        let function = if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) {
            None
        } else {
            let known = FUNCTIONS.iter().find(|known| **known == word);
            let known = known.ok_or_else(|| format!("there is no function {word}; there are {}", FUNCTIONS.join(", ")));
            let known = *known?;
            self.at += word.len();
            Some(known)
        };
        let mut arguments = vec![];
        loop {
            self.skip_spaces();
            if self.rest().is_empty() || ["}}", "-}}", "|", ")"].iter().any(|end| self.rest().starts_with(end)) {
                break;
            }
            arguments.push(self.argument(depth)?);
        }
        Ok(Call { function, arguments })
    }

    fn argument(&mut self, depth: usize) -> Result<Argument, String> {
        let rest = self.rest();
        match rest.chars().next() {
            Some('.') => {
                let start = self.at;
                self.at += 1;
                let name = self.word();
                if name.is_empty() {
                    return Ok(Argument::Row);
                }
                let field = FIELDS.iter().find(|field| field.placeholder == name);
                let Some(field) = field else {
                    self.at = start;
                    let all: Vec<_> = FIELDS.iter().map(|field| format!(".{}", field.placeholder)).collect();
                    return Err(format!("there is no .{name}; there are {}", all.join(" ")));
                };
                self.at += name.len();
                Ok(Argument::Field(field))
            }
            Some('"') => {
                let mut read = serde_json::Deserializer::from_str(rest).into_iter::<String>();
                let text = read.next().and_then(Result::ok).ok_or("a text that does not end")?;
                self.at += read.byte_offset();
                Ok(Argument::Text(text))
            }
            Some('`') => {
                let (text, _) = rest[1..].split_once('`').ok_or("a text that does not end")?;
                self.at += text.len() + 2;
                Ok(Argument::Text(text.into()))
            }
            Some('(') => {
                self.at += 1;
                let pipe = self.pipe(depth + 1)?;
                self.skip_spaces();
                if self.takes(")") { Ok(Argument::Pipe(pipe)) } else { Err(") is missing".into()) }
            }
            _ => {
                let word = self.word();
                let number = word.parse().map_err(|_| "a field (.Name), a text (\"…\") or a number is missing")?;
                self.at += word.len();
                Ok(Argument::Number(number))
            }
        }
    }

    fn word(&self) -> &'a str {
        let rest = self.rest();
        &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::row::Figures;

    /// The row of docker stats' documentation, as a task.
    fn nginx() -> Row {
        Row {
            id: Some("ed37317fbf42ed37317fbf42a".into()),
            name: Some("nginx".into()),
            container_id: Some("ed37317fbf42".into()),
            figures: Figures::documented(),
            ..Row::default()
        }
    }

    fn filled(template: &str) -> String {
        Template::read(template).unwrap().of(&nginx(), false)
    }

    // docker stats --format, by its reference page.
    #[test]
    fn dockers_own_examples() {
        assert_eq!(filled("{{.Container}}: {{.CPUPerc}}"), "ed37317fbf42: 0.03%");
        assert_eq!(
            filled("{{.Name}} {{.ID}} {{.MemUsage}} {{.MemPerc}} {{.NetIO}} {{.BlockIO}} {{.PIDs}}"),
            "nginx ed37317fbf42 2.352MiB / 982.5MiB 0.24% 539kB / 606kB 0B / 13.3kB 2"
        );
        assert_eq!(
            filled("{{json .}}"),
            r#"{"BlockIO":"0B / 13.3kB","CPUPerc":"0.03%","Container":"ed37317fbf42","ID":"ed37317fbf42","MemPerc":"0.24%","MemUsage":"2.352MiB / 982.5MiB","Name":"nginx","NetIO":"539kB / 606kB","PIDs":"2"}"#
        );
    }

    // What Go's text/template with Docker's functions makes of each.
    #[test]
    fn dockers_functions() {
        for (template, text) in [
            ("{{upper .Name}}", "NGINX"),
            ("{{.Name | upper | lower}}", "nginx"),
            ("{{title \"hello world\"}}", "Hello World"),
            ("{{json .Name}}", "\"nginx\""),
            ("{{pad .Name 1 2}}|", " nginx  |"),
            ("{{truncate .Name 3}}", "ngi"),
            ("{{split .Name \"g\"}}", "[n inx]"),
            ("{{join (split .Name \"g\") \", \"}}", "n, inx"),
            ("{{json (split .Name `g`)}}", "[\"n\",\"inx\"]"),
            ("{{println .Name 5}}", "nginx 5\n"),
            ("a {{- .Name -}} b", "anginxb"),
            (r"{{.Name}}\t{{.PIDs}}\n", "nginx\t2\n"),
            ("{{\"a\\tb\"}}", "a\tb"),
            ("no braces", "no braces"),
            ("{{.Stack}}", "--"),
        ] {
            assert_eq!(filled(template), text, "{template}");
        }
    }

    #[test]
    fn what_does_not_fit_is_said_with_its_place() {
        let said = |template| Template::read(template).unwrap_err().to_string();
        assert!(
            said("é {{.Nope}}")
                .starts_with("template \"é {{.Nope}}\", at character 5: there is no .Nope; there are .Name .ID")
        );
        assert!(
            said("{{if .Name}}x{{end}}").contains("at character 3: there is no function if; there are json, upper,")
        );
        assert!(said("{{.Name").contains("at character 8: }} is missing"));
        assert!(said("x{{.}}").contains("at character 2: {{.}} is a whole row"));
        for bad in [
            "{{}}",
            "{{upper}}",
            "{{upper .}}",
            "{{pad .Name 1}}",
            "{{join .Name \",\"}}",
            "{{\"x}}",
            "{{(.Name}}",
            "{{.Name .ID}}",
            "{{.Name)}}",
            "{{|}}",
            "{{$x}}",
            "{{printf \"%s\" .Name}}",
            &"{{(".repeat(1000),
            &format!("{{{{{}", "(".repeat(10_000)),
        ] {
            assert!(Template::read(bad).is_err(), "{bad}");
        }
    }

    // docker stats --format 'table {{lower .Name}}…' heads NAME; an absent row has -- in each cell but that of memory.
    #[test]
    fn headings_stay_as_they_are_and_absent_is_dockers() {
        let template =
            Template::read("{{lower .Name}}\t{{truncate .Container 2}}\t{{json .NetIO}}\t{{.MemUsage}}").unwrap();
        let lines = template.table(&[Row::default()], false);
        let texts: Vec<Vec<&str>> =
            lines.iter().map(|line| line.text.split("  ").filter(|t| !t.is_empty()).map(str::trim).collect()).collect();
        assert_eq!(texts, [["NAME", "CONTAINER", "NET I/O", "MEM USAGE / LIMIT"], ["--", "--", "\"--\"", "-- / --"]]);
        let lines = Template::read("{{.Stale}}").unwrap().table(&[nginx(), nginx()], false);
        assert_eq!(lines.len(), 3, "rows of no text do not vanish");
    }

    // docker ps --format 'table …': a tab writer with a least width of 10 and 3 spaces between.
    #[test]
    fn a_table_stands_in_columns_under_headings() {
        let rows = [nginx(), Row { name: Some("a-name-longer-than-ten".into()), ..nginx() }];
        let lines = Template::read("{{.Name}}\t{{.CPUPerc}}\t{{.PIDs}}").unwrap().table(&rows, false);
        let texts: Vec<&str> = lines.iter().map(|line| &*line.text).collect();
        assert_eq!(
            texts,
            [
                "NAME                     CPU %     PIDS",
                "nginx                    0.03%     2",
                "a-name-longer-than-ten   0.03%     2",
            ]
        );
        assert_eq!((lines[0].style, lines[1].style), (Style::Heading, Style::Plain));
    }
}
