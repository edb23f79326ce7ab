//! How an answer is printed: a table, Docker's templates, the router's JSON, or comma-separated values.
//!
//! Only tables are redrawn in place. The other formats are for programs, one answer after the other.

use crate::cli::answer::Answer;
use crate::cli::args::Options;
use crate::cli::ask::Heard;
use crate::cli::row::Row;
use crate::cli::screen::Screen;
use crate::cli::template::{self, Template};
use crate::cli::{csv, document, table};
use std::{io, time::SystemTime};

/// How an answer is printed.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Format {
    /// The view's own columns.
    #[default]
    Table,
    /// A table of a template's columns.
    TableOf(Template),
    /// A template's text for each row, on a line.
    Text(Template),
    /// The router's own document, one a line.
    Json,
    /// Comma-separated values.
    Csv,
}

/// Not a format.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// Neither a word nor a template.
    #[error("--format {0:?}: there are table, json, csv, 'table TEMPLATE', and a TEMPLATE such as '{{{{.Name}}}}'")]
    Unknown(String),
    /// A template with a fault.
    #[error("--format: {0}")]
    Template(#[from] template::Error),
}

impl Format {
    /// Reads what `--format` takes.
    ///
    /// # Errors
    /// Where it is nothing of the kind.
    pub fn read(text: &str) -> Result<Format, Error> {
        Ok(match text {
            "table" => Format::Table,
            "json" => Format::Json,
            "csv" => Format::Csv,
            _ => match text.strip_prefix("table").filter(|rest| rest.contains("{{")) {
                Some(template) => Format::TableOf(Template::read(template.trim_start_matches(' '))?),
                None if text.contains("{{") => Format::Text(Template::read(text)?),
                None => return Err(Error::Unknown(text.into())),
            },
        })
    }

    /// Whether it may be redrawn in place.
    pub fn is_table(&self) -> bool {
        matches!(self, Format::Table | Format::TableOf(_))
    }

    /// Whether more of a row is shown than its figures.
    pub fn needs_all_stats(&self) -> bool {
        *self == Format::Json
    }

    /// Prints an answer whose rows are in order; `first` is whether none was printed before it.
    ///
    /// # Errors
    /// What writing fails with.
    pub fn print(&self, options: &Options, heard: &Heard, first: bool, screen: &mut Screen) -> io::Result<()> {
        let (rows, full) = (&heard.answer.rows[..], options.show.no_trunc);
        match self {
            Format::Table | Format::TableOf(_) => self.draw(options, &heard.answer, None, screen),
            Format::Text(template) => {
                screen.print(&rows.iter().map(|row| template.of(row, full) + "\n").collect::<String>())
            }
            Format::Json => {
                let list = options.show.view.what().plural();
                let mut rows: Vec<&Row> = rows.iter().collect();
                let lines = heard
                    .documents
                    .iter()
                    .map(|reply| document::selected(&String::from_utf8_lossy(&reply.body), list, &mut rows) + "\n");
                screen.print(&lines.collect::<String>())
            }
            Format::Csv => {
                let header = if first { csv::header() } else { String::new() };
                screen.print(&(header + &csv::lines(rows, SystemTime::now())))
            }
        }
    }

    /// Draws a table; `trouble` is why there is no newer answer. Other formats have nothing to draw.
    ///
    /// # Errors
    /// What writing fails with.
    pub fn draw(
        &self,
        options: &Options,
        answer: &Answer,
        trouble: Option<&str>,
        screen: &mut Screen,
    ) -> io::Result<()> {
        let show = &options.show;
        match self {
            Format::Table => screen.show(&table::lay_out(show, answer, trouble, screen.space())),
            Format::TableOf(template) => {
                let lines = template.table(&answer.rows, show.no_trunc);
                screen.show(&table::framed(lines, show, answer, trouble, screen.space()))
            }
            Format::Text(_) | Format::Json | Format::Csv => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_words_or_templates() {
        assert_eq!(Format::read("table"), Ok(Format::Table));
        assert_eq!(Format::read("csv"), Ok(Format::Csv));
        assert!(matches!(Format::read("table {{.Name}}"), Ok(Format::TableOf(_))));
        assert_eq!(Format::read("table{{.Name}}"), Format::read("table {{.Name}}"), "docker looks for the word alone");
        assert!(matches!(Format::read("{{.Name}}"), Ok(Format::Text(_))));
        assert!(Format::read("yaml").unwrap_err().to_string().contains("'{{.Name}}'"));
        assert!(matches!(Format::read("{{.Nope}}"), Err(Error::Template(_))));
    }
}
