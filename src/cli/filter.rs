//! Which rows are shown: `--filter key=value` as Docker writes filters, and comparisons of figures besides.
//!
//! Docker's rule of several filters: those of one key are alternatives, different keys must all hold; labels and
//! comparisons must all hold too. A figure that is absent satisfies no comparison. What a router can select itself
//! ([`Filters::at_router`]) it is asked for; everything is tested here again, so an old router changes nothing. Pure.

use crate::cli::key::{Key, NUMBERS, Number, TEXTS, Text};
use crate::cli::row::Row;
use crate::cli::view::{Base, View};

/// All filters of a command line.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Filters(Vec<Filter>);

#[derive(Clone, PartialEq, Debug)]
enum Filter {
    Text { key: &'static str, equal: bool, value: String },
    Label { name: String, value: Option<String> },
    Number { key: &'static str, comparison: Comparison, bound: f64 },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Comparison {
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
    Equal,
    NotEqual,
}

/// Every filter that was not understood, and what could have been written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}\nkeys for {view}s: {}", .wrong.join("\n"), .valid.join(", "))]
pub struct Error {
    wrong: Vec<String>,
    view: &'static str,
    valid: Vec<&'static str>,
}

impl Filters {
    /// Reads the filters for a view; `cpu`, `net` and `block` mean what its table shows.
    ///
    /// # Errors
    /// All that are not understood, at once.
    pub fn read<S: AsRef<str>>(texts: &[S], view: View, of: Base, rates: bool) -> Result<Filters, Error> {
        let (mut filters, mut wrong) = (vec![], vec![]);
        for text in texts.iter().map(AsRef::as_ref) {
            match read(text, view, of, rates) {
                Ok(filter) => filters.push(filter),
                Err(why) => wrong.push(format!("--filter {text:?}: {why}")),
            }
        }
        if wrong.is_empty() {
            return Ok(Filters(filters));
        }
        Err(Error { wrong, view: view.word(), valid: words(view).collect() })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a row is shown.
    pub fn pass(&self, row: &Row) -> bool {
        self.0.iter().all(|filter| match filter {
            Filter::Text { key, equal: true, .. } => self.0.iter().any(
                |other| matches!(other, Filter::Text { key: k, equal: true, value } if k == key && text_is(row, key, value)),
            ),
            Filter::Text { key, equal: false, value } => !text_is(row, key, value),
            Filter::Label { name, value } => {
                row.labels.get(name).is_some_and(|found| value.as_ref().is_none_or(|value| value == found))
            }
            Filter::Number { key, comparison, bound } => {
                let number = NUMBERS.iter().find(|number| number.word == *key).and_then(|number| (number.of)(row));
                number.is_some_and(|number| comparison.holds(number, *bound))
            }
        })
    }

    /// What a router can select tasks by itself, as `name=value` of its query: one exact stack, node and service, and
    /// labels.
    pub fn at_router(&self) -> Vec<(&'static str, String)> {
        let mut selected: Vec<(&'static str, String)> = vec![];
        for router_key in ["service", "stack", "node"] {
            let mut values = self.0.iter().filter_map(|filter| match filter {
                Filter::Text { key, equal: true, value } if *key == router_key => Some(value),
                _ => None,
            });
            if let (Some(value), None) = (values.next(), values.next())
                && !value.contains(['*', '?'])
            {
                selected.push((router_key, value.clone()));
            }
        }
        selected.extend(self.0.iter().filter_map(|filter| match filter {
            Filter::Label { name, value: Some(value) } => Some(("label", format!("{name}={value}"))),
            _ => None,
        }));
        selected
    }
}

/// The keys that rows of a view have, for messages and completion.
pub fn words(view: View) -> impl Iterator<Item = &'static str> {
    let label = view.is_of_tasks().then_some("label");
    Key::words().filter(move |word| has(view, word)).chain(label)
}

/// Whether the rows of a view can have what the key means.
pub(super) fn has(view: View, word: &str) -> bool {
    match word {
        "service" | "node" | "health" | "image" | "up" => view.is_of_tasks(),
        "stack" => view != View::Node,
        "tasks" => !view.is_of_tasks(),
        "load" => view == View::Node,
        _ => true,
    }
}

fn read(text: &str, view: View, of: Base, rates: bool) -> Result<Filter, String> {
    let at = text.find(['=', '<', '>', '!']).ok_or("a filter is KEY=VALUE or KEY>NUMBER")?;
    let (word, rest) = text.split_at(at);
    let (comparison, value) = Comparison::read(rest).ok_or("a filter is KEY=VALUE or KEY>NUMBER")?;
    let (word, value) = (word.trim(), value.trim());
    if word == "label" && view.is_of_tasks() {
        let (name, value) = value.split_once('=').map_or((value, None), |(name, value)| (name, Some(value.to_owned())));
        return match comparison {
            Comparison::Equal if !name.is_empty() => Ok(Filter::Label { name: name.into(), value }),
            _ => Err("write label=NAME or label=NAME=VALUE".into()),
        };
    }
    match Key::find(word, of, rates).filter(|key| has(view, key.word())) {
        None => Err(format!("there is no key {word:?}")),
        Some(Key::Text(Text { word, .. })) => match comparison {
            Comparison::Equal | Comparison::NotEqual if !value.is_empty() => {
                Ok(Filter::Text { key: word, equal: comparison == Comparison::Equal, value: value.into() })
            }
            _ => Err(format!("{word} is a text: write {word}=VALUE or {word}!=VALUE")),
        },
        Some(Key::Number(Number { word, unit, .. })) => match unit.read(value) {
            Some(bound) => Ok(Filter::Number { key: word, comparison, bound }),
            None => Err(format!("{value:?} is no such figure: write {word}>{}", unit.example())),
        },
    }
}

/// A name holds a text (or matches a pattern with `*` and `?`), an id begins with it, anything else is it or matches.
fn text_is(row: &Row, key: &str, value: &str) -> bool {
    let Some(text) = TEXTS.iter().find(|text| text.word == key) else { return false };
    (text.of)(row).into_iter().flatten().any(|found| {
        matches(value, found)
            || match key {
                "name" => found.contains(value),
                "id" => found.starts_with(value),
                _ => false,
            }
    })
}

/// Whether a text is what a pattern says: `*` is any text, `?` any character.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match &mut star {
                // The last star takes one character more.
                Some((at, taken)) => {
                    *taken += 1;
                    (p, t) = (*at + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

impl Comparison {
    fn read(text: &str) -> Option<(Comparison, &str)> {
        use Comparison::{Equal, Less, LessOrEqual, More, MoreOrEqual, NotEqual};
        let signs = [
            ("==", Equal),
            ("<=", LessOrEqual),
            (">=", MoreOrEqual),
            ("!=", NotEqual),
            ("<", Less),
            (">", More),
            ("=", Equal),
        ];
        signs.into_iter().find_map(|(sign, comparison)| Some((comparison, text.strip_prefix(sign)?)))
    }

    #[allow(clippy::float_cmp, reason = "counts are compared for equality, and are exact")]
    fn holds(self, number: f64, bound: f64) -> bool {
        match self {
            Comparison::Less => number < bound,
            Comparison::LessOrEqual => number <= bound,
            Comparison::More => number > bound,
            Comparison::MoreOrEqual => number >= bound,
            Comparison::Equal => number == bound,
            Comparison::NotEqual => number != bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::row::Figures;

    fn filters(line: &str) -> Filters {
        Filters::read(&line.split_whitespace().collect::<Vec<_>>(), View::Task, Base::Cpu, false).unwrap()
    }

    fn task() -> Row {
        Row {
            id: Some("9mnpnzenvg8p8tdbtq4wvbkcz".into()),
            name: Some("shop_web.1.9mnpnzenvg8p8tdbtq4wvbkcz".into()),
            service_name: Some("shop_web".into()),
            stack: Some("shop".into()),
            node_name: Some("worker-3".into()),
            node_id: Some("7hqkfs2m1x0a".into()),
            state: Some("running".into()),
            labels: [("tier".to_owned(), "front".to_owned())].into(),
            figures: Figures {
                cpu_percent: Some(75.2),
                memory_used_bytes: Some(2 << 30),
                pids: Some(12),
                ..Figures::default()
            },
            ..Row::default()
        }
    }

    #[test]
    fn each_key_selects_by_what_it_means() {
        for passes in [
            "",
            "name=web",
            "name=shop_*.1",
            "name=shop_???.1",
            "id=9mnp",
            "stack=shop",
            "service=shop_web",
            "node=worker-3",
            "node=worker-*",
            "node=7hqkfs2m1x0a",
            "label=tier",
            "label=tier=front",
            "state=running",
            "state!=stale",
            "cpu>50",
            "cpu>=75.2",
            "cpu<=75.2%",
            "mem>1GiB",
            "mem>=2g",
            "pids=12",
            "pids==12",
            "name==web",
            "pids>11",
            "pids!=13",
        ] {
            assert!(filters(passes).pass(&task()), "{passes}");
        }
        for fails in [
            "name=api",
            "name=web.?",
            "stack=sho",
            "node=worker",
            "label=tier=back",
            "label=tie",
            "state=stale",
            "state!=running",
            "cpu>75.2",
            "cpu<50",
            "mem<1GiB",
            "pids=1",
        ] {
            assert!(!filters(fails).pass(&task()), "{fails}");
        }
    }

    #[test]
    fn blanks_around_a_comparison_are_no_part_of_it() {
        for text in ["cpu > 50", " cpu>50 ", "mem > 1 GiB", "pids == 12", "name = web", "state != stale"] {
            assert!(Filters::read(&[text], View::Task, Base::Cpu, false).unwrap().pass(&task()), "{text}");
        }
    }

    // docker ps: "filters of the same key are OR, of different keys AND", labels AND.
    #[test]
    fn several_filters_combine_as_dockers_do() {
        assert!(filters("name=api name=web").pass(&task()));
        assert!(!filters("name=web stack=other").pass(&task()));
        assert!(!filters("label=tier=front label=zone").pass(&task()));
        assert!(filters("cpu>50 cpu<80").pass(&task()));
        assert!(!filters("cpu>50 cpu<60").pass(&task()));
    }

    #[test]
    fn an_absent_figure_satisfies_no_comparison() {
        for filter in ["mem%>0", "mem%<100", "mem%!=5", "restarts=0"] {
            assert!(!filters(filter).pass(&task()), "{filter}");
        }
    }

    #[test]
    fn all_that_are_wrong_are_named_at_once_with_the_keys_there_are() {
        let wrong = ["foo=1", "cpu>much", "name", "name>web", "label=", "stack=shop"];
        let said = Filters::read(&wrong, View::Task, Base::Cpu, false).unwrap_err().to_string();
        assert_eq!(said.lines().count(), 6, "{said}");
        assert!(said.contains("--filter \"foo=1\": there is no key \"foo\""), "{said}");
        assert!(said.contains("\"much\" is no such figure: write cpu>80"), "{said}");
        assert!(said.contains("name is a text"), "{said}");
        assert!(said.lines().last().is_some_and(|keys| keys.starts_with("keys for tasks: name, id, ")), "{said}");
        assert!(Filters::read(&["label=a"], View::Service, Base::Cpu, false).is_err(), "services have no labels here");
    }

    #[test]
    fn what_a_router_can_select_it_is_asked_for() {
        assert_eq!(
            filters("stack=shop node=a node=b service=shop_* label=x=y label=z cpu>5").at_router(),
            [("stack", "shop".to_owned()), ("label", "x=y".to_owned())]
        );
    }

    #[test]
    fn patterns_are_matched_whole_and_in_linear_time() {
        assert!(matches("*", "") && matches("a*b*c", "a--b--b--c") && matches("??", "éa"));
        assert!(!matches("a*b", "a-b-") && !matches("?", "") && !matches("", "a"));
        assert!(!matches(&"*a".repeat(40), &"b".repeat(10_000)));
    }
}
