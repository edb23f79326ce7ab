//! The state of `top`: a key or an answer in, what to do and a frame's lines out. Pure.
//!
//! The row a user selected stays selected where it moves to; a filter that is being typed narrows what was answered
//! already, without a question. A view that was left is come back to as it was.

use crate::cli::answer::Answer;
use crate::cli::args::Options;
use crate::cli::filter::Filters;
use crate::cli::format::{age, printable};
use crate::cli::key::Key as By;
use crate::cli::row::Row;
use crate::cli::sort::{Order, Steady, identity};
use crate::cli::table::{self, Line, Space, Style};
use crate::cli::view::View;
use crate::json::rfc3339;
use crate::model::Millis;
use std::time::Duration;

use super::keys::Key;

/// The intervals that `+` and `-` lead through, in milliseconds.
const INTERVALS: [u64; 8] = [200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000];
/// In the order of Tab.
const VIEWS: [View; 4] = [View::Service, View::Task, View::Node, View::Stack];
/// The longest filter that can be typed.
const LONGEST: usize = 100;
const HELP: &[&str] = &[
    "< >         sort by the next figure: CPU, memory, network, block I/O, processes, name (also c m n b p N)",
    "r           the other way round",
    "1 2 3 4     services, tasks, nodes, stacks (also s t d); Tab and Shift-Tab go round",
    "Enter Esc   into the selected row's tasks (of a stack: its services), and back",
    "/           filter while typing: a part of the name, or cpu>50, mem>1GiB, stack=shop …; Enter keeps, Esc drops it",
    "Up Down     select (also k and j); PgUp PgDn Home End",
    "space       pause, and go on",
    "+ -         ask more or less often",
    "? q         this help; quit (Ctrl-C as well)",
];

/// What the loop is to do after a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// Draw.
    Draw,
    /// Ask at once: something else is to be shown.
    Ask,
    /// Ask as often as [`Top::interval`] says from now on.
    Pace,
    /// End.
    Quit,
}

/// The keys of `<` and `>`, in docker stats' order, each with its letter.
const SORTS: [(char, &str); 6] =
    [('c', "cpu"), ('m', "mem"), ('n', "net"), ('b', "block"), ('p', "pids"), ('N', "name")];

/// A view that can be come back to.
struct Before {
    /// What was gone into, for people.
    name: String,
    options: Options,
    selected: Option<String>,
    typed: String,
}

/// See the head of this file.
pub struct Top {
    options: Options,
    /// As the command line says.
    given: Options,
    router: String,
    before: Vec<Before>,
    steady: Steady,
    answer: Option<Answer>,
    /// When the answer came, wall-clock milliseconds.
    at: Millis,
    trouble: Option<String>,
    selected: Option<String>,
    /// The row at the top of the window.
    first: usize,
    /// How many rows the last frame had room for.
    room: usize,
    typed: String,
    typing: bool,
    paused: bool,
    help: bool,
}

impl Top {
    /// Nothing is answered yet.
    pub fn new(options: Options, router: String) -> Top {
        Top {
            given: options.clone(),
            options,
            router,
            before: vec![],
            steady: Steady::default(),
            answer: None,
            at: 0,
            trouble: None,
            selected: None,
            first: 0,
            room: 1,
            typed: String::new(),
            typing: false,
            paused: false,
            help: false,
        }
    }

    /// What to ask for.
    pub fn options(&self) -> &Options {
        &self.options
    }
    /// How often.
    pub fn interval(&self) -> Duration {
        self.options.interval
    }
    /// Whether nothing is to be asked for now.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Takes an answer, or why there is none.
    pub fn take(&mut self, heard: Result<Answer, String>, now: Millis) {
        match heard {
            Ok(mut answer) => {
                self.steady.arrange(self.options.order, &mut answer.rows);
                (self.answer, self.at, self.trouble) = (Some(answer), now, None);
            }
            Err(why) => self.trouble = Some(why),
        }
    }

    /// A key was pressed.
    pub fn key(&mut self, key: Key) -> Then {
        if self.typing {
            return self.type_filter(key);
        }
        if std::mem::take(&mut self.help) {
            return Then::Draw; // whatever key closes it
        }
        match key {
            Key::Char('q') => return Then::Quit,
            Key::Char('?' | 'h') => self.help = true,
            Key::Char('/') => self.typing = true,
            Key::Char(' ') => {
                self.paused = !self.paused;
                return if self.paused { Then::Draw } else { Then::Ask };
            }
            Key::Char('r') => self.order(Order { reversed: !self.options.order.reversed, ..self.options.order }),
            Key::Char('+') => return self.pace(|now| INTERVALS.iter().rev().find(|every| **every < now)),
            Key::Char('-') => return self.pace(|now| INTERVALS.iter().find(|every| **every > now)),
            Key::Char('1' | 's') => return self.go(View::Service),
            Key::Char('2' | 't') => return self.go(View::Task),
            Key::Char('3' | 'd') => return self.go(View::Node),
            Key::Char('4') => return self.go(View::Stack),
            Key::Char('<') => self.sort_beside(SORTS.len() - 1),
            Key::Char('>') => self.sort_beside(1),
            Key::Tab => return self.go(self.beside(1)),
            Key::BackTab => return self.go(self.beside(VIEWS.len() - 1)),
            Key::Char('j') | Key::Down => self.select(|at, _| at + 1),
            Key::Char('k') | Key::Up => self.select(|at, _| at.saturating_sub(1)),
            Key::PageDown => self.select(|at, room| at + room),
            Key::PageUp => self.select(|at, room| at.saturating_sub(room)),
            Key::Home => self.select(|_, _| 0),
            Key::End => self.select(|_, _| usize::MAX),
            Key::Enter => return self.enter(),
            Key::Escape => return self.back(),
            Key::Char(letter) => {
                if let Some(key) = SORTS.iter().find(|(of, _)| *of == letter).and_then(|(_, word)| self.by(word)) {
                    self.order(Order { key, reversed: false });
                }
            }
            Key::Backspace => {}
        }
        Then::Draw
    }

    fn type_filter(&mut self, key: Key) -> Then {
        match key {
            Key::Enter => self.typing = false,
            Key::Escape => {
                self.typing = false;
                self.typed.clear();
            }
            Key::Backspace => drop(self.typed.pop()),
            Key::Char(c) if self.typed.len() < LONGEST => self.typed.push(c),
            _ => {}
        }
        Then::Draw
    }

    fn by(&self, word: &str) -> Option<By> {
        By::find(word, self.options.show.of, self.options.show.rates)
    }

    fn sort_beside(&mut self, steps: usize) {
        let now = Some(self.options.order.key);
        let at = SORTS.iter().position(|(_, word)| self.by(word) == now);
        let next = at.map_or(0, |at| (at + steps) % SORTS.len());
        if let Some(key) = self.by(SORTS[next].1) {
            self.order(Order { key, reversed: false });
        }
    }

    fn order(&mut self, order: Order) {
        self.options.order = order;
        if let Some(answer) = &mut self.answer {
            self.steady.arrange(order, &mut answer.rows);
        }
    }

    fn pace(&mut self, next: impl Fn(u64) -> Option<&'static u64>) -> Then {
        let now = u64::try_from(self.options.interval.as_millis()).unwrap_or(u64::MAX);
        let Some(every) = next(now) else { return Then::Draw };
        self.options.interval = Duration::from_millis(*every);
        Then::Pace
    }

    fn beside(&self, steps: usize) -> View {
        let at = VIEWS.iter().position(|view| *view == self.options.show.view).unwrap_or(0);
        VIEWS[(at + steps) % VIEWS.len()]
    }

    /// Another view, of everything; the one of the command line, of what that selects.
    fn go(&mut self, view: View) -> Then {
        self.before.clear();
        (self.options.names, self.options.filters) = if view == self.given.show.view {
            (self.given.names.clone(), self.given.filters.clone())
        } else {
            (vec![], Filters::default())
        };
        self.look_at(view)
    }

    /// Whether the command line selects what this view shows without selection.
    fn shows_more_than_given(&self) -> bool {
        let given = !self.given.names.is_empty() || !self.given.filters.is_empty();
        given && self.before.is_empty() && self.options.show.view != self.given.show.view
    }

    fn look_at(&mut self, view: View) -> Then {
        self.options.show.view = view;
        (self.answer, self.trouble, self.selected, self.first) = (None, None, None, 0);
        self.typed.clear();
        self.paused = false;
        Then::Ask
    }

    /// Into the selected row: a service's or node's tasks, a stack's services.
    fn enter(&mut self) -> Then {
        let Some(row) = self.selected_row() else { return Then::Draw };
        let Some(id) = row.id.clone().or_else(|| row.name.clone()) else { return Then::Draw };
        let name = row.short_name().unwrap_or(&id).to_owned();
        let view = self.options.show.view;
        let (into, names, filters) = match view {
            View::Service => (View::Task, vec![id], vec![]),
            View::Node => (View::Task, vec![], vec![format!("node={id}")]),
            View::Stack => (View::Service, vec![], vec![format!("stack={id}")]),
            View::Task | View::Ps => return Then::Draw,
        };
        let show = &self.options.show;
        let Ok(filters) = Filters::read(&filters, into, show.of, show.rates) else { return Then::Draw };
        // The first row is selected until another one is.
        let (options, selected, typed) = (self.options.clone(), Some(identity(row).to_owned()), self.typed.clone());
        self.before.push(Before { name, options, selected, typed });
        (self.options.names, self.options.filters) = (names, filters);
        self.look_at(into)
    }

    fn back(&mut self) -> Then {
        if !self.typed.is_empty() {
            self.typed.clear();
            return Then::Draw;
        }
        let Some(Before { options, selected, typed, .. }) = self.before.pop() else { return Then::Draw };
        let view = options.show.view;
        // What was set meanwhile stays.
        self.options = Options { interval: self.options.interval, order: self.options.order, ..options };
        let then = self.look_at(view);
        (self.selected, self.typed) = (selected, typed);
        then
    }

    /// The rows that pass what is typed.
    fn rows(&self) -> Vec<&Row> {
        let show = &self.options.show;
        let expression = Filters::read(&[&self.typed], show.view, show.of, show.rates).ok();
        let wanted = self.typed.to_lowercase();
        let passes = |row: &&Row| match &expression {
            Some(filters) => filters.pass(row),
            None => [row.name.as_deref(), row.id.as_deref()]
                .into_iter()
                .flatten()
                .any(|t| t.to_lowercase().contains(&wanted)),
        };
        let rows = self.answer.iter().flat_map(|answer| &answer.rows);
        if self.typed.is_empty() { rows.collect() } else { rows.filter(passes).collect() }
    }

    /// Where the selected row is; the first where it is gone.
    fn place(&self, rows: &[&Row]) -> usize {
        let selected = self.selected.as_deref();
        selected.and_then(|id| rows.iter().position(|row| identity(row) == id)).unwrap_or(0)
    }

    fn selected_row(&self) -> Option<&Row> {
        let rows = self.rows();
        rows.get(self.place(&rows)).copied()
    }

    fn select(&mut self, to: impl Fn(usize, usize) -> usize) {
        let rows = self.rows();
        let at = to(self.place(&rows), self.room.max(1)).min(rows.len().saturating_sub(1));
        self.selected = rows.get(at).map(|row| identity(row).to_owned());
    }

    /// The frame to show at a moment (wall-clock milliseconds).
    pub fn frame(&mut self, space: Space, now: Millis) -> Vec<Line> {
        let (width, height) = (space.width.unwrap_or(80), space.height.unwrap_or(24));
        let mut lines = vec![self.head(now)];
        let keys = if self.typing {
            Line { text: format!("/{}_", self.typed), style: Style::Heading }
        } else {
            let text = "1-4 view  / filter  < > sort  r reverse  space pause  Enter into  ? help  q quit";
            Line { text: text.into(), style: Style::Note }
        };
        let room = height.saturating_sub(2);
        if self.help {
            lines.extend(HELP.iter().map(|text| Line { text: (*text).into(), style: Style::Plain }));
        } else {
            lines.extend(self.table(width, room, now));
        }
        lines.truncate(height.saturating_sub(1));
        lines.resize(height.saturating_sub(1), Line { text: String::new(), style: Style::Plain });
        lines.push(keys);
        for line in &mut lines {
            line.text = printable(&line.text).chars().take(width).collect();
        }
        lines
    }

    /// One line about the whole.
    fn head(&self, now: Millis) -> Line {
        let show = &self.options.show;
        let mut parts = vec![show.view.what().plural().to_owned()];
        parts
            .extend(self.before.last().map(|before| format!("of {} {}", before.options.show.view.word(), before.name)));
        parts.push(self.router.trim_start_matches("http://").to_owned());
        parts.push(rfc3339(now).get(11..19).unwrap_or_default().to_owned() + "Z");
        if self.shows_more_than_given() {
            parts.push("all, not as the command line selects".into());
        }
        let n = parts.len();
        parts.push(format!("every {}", seconds(self.options.interval)));
        let order = self.options.order;
        parts.push(format!("by {}{}", if order.reversed { "-" } else { "" }, order.key.word()));
        if !self.typed.is_empty() {
            parts.push(format!("filter {}", self.typed));
        }
        let mut style = Style::Heading;
        match &self.answer {
            None if self.trouble.is_some() => {
                parts.push("NO ANSWER".into());
                style = Style::Alarm;
            }
            None => parts.push("asking …".into()),
            Some(answer) => {
                let (fresh, known) = answer
                    .rows
                    .iter()
                    .filter_map(|row| row.tasks)
                    .fold((0, 0), |(fresh, known), tasks| (fresh + tasks.fresh, known + tasks.known));
                parts.insert(n, format!("{fresh}/{known} tasks"));
                match (&self.trouble, answer.complete, answer.missing.first()) {
                    (Some(_), ..) => {
                        parts.push(format!("NO ANSWER for {}", age(now.saturating_sub(self.at) as f64 / 1000.0)));
                        style = Style::Alarm;
                    }
                    (None, true, _) => parts.push("complete".into()),
                    (None, false, first) => {
                        parts.push(format!("INCOMPLETE {}", first.map_or("", String::as_str)));
                        style = Style::Alarm;
                    }
                }
            }
        }
        if self.paused {
            parts.insert(0, "PAUSED".into());
        }
        Line { text: parts.join("  "), style }
    }

    /// Headings, a window of rows around the selected one, and what is missing.
    fn table(&mut self, width: usize, height: usize, now: Millis) -> Vec<Line> {
        let Some(answer) = &self.answer else {
            let said = self.trouble.clone().unwrap_or_default();
            return vec![Line { text: String::new(), style: Style::Plain }, Line { text: said, style: Style::Alarm }];
        };
        let rows: Vec<Row> = self.rows().into_iter().cloned().collect();
        let at = self.place(&rows.iter().collect::<Vec<_>>());
        let n = rows.len();
        let shown = Answer {
            complete: answer.complete,
            missing: answer.missing.clone(),
            warnings: answer.warnings.clone(),
            notes: answer.notes.clone(),
            filtered: answer.filtered + answer.rows.len() - n,
            rows,
            ..Answer::joined([])
        };
        let ago = age(now.saturating_sub(self.at) as f64 / 1000.0);
        let trouble = self.trouble.as_ref().map(|why| format!("no answer for {ago}: {why}"));
        let space = Space { width: Some(width), height: None };
        let mut all = table::lay_out(&self.options.show, &shown, trouble.as_deref(), space);
        let mut footer = all.split_off((1 + n).min(all.len()));
        footer.truncate((height / 3).max(2));
        let room = height.saturating_sub(1 + footer.len()).max(1);
        self.room = room;
        // The window moves only as far as it must.
        self.first = self.first.min(at).max((at + 1).saturating_sub(room)).min(n.saturating_sub(room));
        if let Some(line) = all.get_mut(1 + at) {
            line.style = Style::Selected;
            line.text = format!("{:<width$}", line.text);
        }
        let heading = all.remove(0);
        let window = all.into_iter().skip(self.first).take(room);
        [heading].into_iter().chain(window).chain(footer).collect()
    }
}

fn seconds(interval: Duration) -> String {
    format!("{}s", interval.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Command, parse};
    use crate::cli::row::Coverage;

    const SPACE: Space = Space { width: Some(100), height: Some(12) };

    fn options(line: &str) -> Options {
        let words = format!("top {line}");
        match parse(words.split_whitespace().map(Into::into)).unwrap() {
            Command::Top(options) => options,
            other => panic!("{other:?}"),
        }
    }

    fn answer(names: &[&str]) -> Answer {
        let row = |(place, name): (usize, &&str)| {
            let mut row = Row { id: Some(format!("id-{name}")), name: Some((*name).into()), ..Row::default() };
            row.tasks = Some(Coverage { fresh: 1, known: 1, desired: None });
            row.figures.cpu_percent = Some(place as f64);
            row
        };
        Answer { rows: names.iter().enumerate().map(row).collect(), ..Answer::joined([]) }
    }

    fn top(names: &[&str]) -> Top {
        let mut top = Top::new(options(""), "http://r:7770".into());
        top.take(Ok(answer(names)), 1000);
        top
    }

    fn press(top: &mut Top, text: &str) -> Then {
        text.chars().map(|c| top.key(Key::Char(c))).last().unwrap()
    }

    fn texts(top: &mut Top) -> Vec<String> {
        top.frame(SPACE, 1000).into_iter().map(|line| line.text).collect()
    }

    fn selected(top: &mut Top) -> String {
        let lines = top.frame(SPACE, 1000);
        let line = lines.iter().find(|line| line.style == Style::Selected).unwrap();
        line.text.split_whitespace().next().unwrap().to_owned()
    }

    #[test]
    fn a_frame_fills_the_space_and_no_more() {
        for (width, height) in [(1, 1), (10, 3), (80, 24), (200, 5)] {
            let mut top = top(&["web"; 50]);
            let lines = top.frame(Space { width: Some(width), height: Some(height) }, 1000);
            assert_eq!(lines.len(), height);
            assert!(lines.iter().all(|line| line.text.chars().count() <= width));
        }
    }

    #[test]
    fn the_selected_row_is_in_sight_and_stays_selected_where_it_moves() {
        let names: Vec<String> = (10..60).map(|n| format!("s{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut top = top(&names);
        assert_eq!(selected(&mut top), "s10");
        top.key(Key::PageDown);
        assert_eq!(selected(&mut top), "s19", "12 lines less head, heading and keys");
        top.key(Key::End);
        assert_eq!(selected(&mut top), "s59");
        press(&mut top, "c"); // the last of the names is the busiest
        assert_eq!(selected(&mut top), "s59");
        assert!(texts(&mut top)[2].starts_with("s59"), "and now the first");
        top.key(Key::Up);
        assert_eq!(selected(&mut top), "s59", "there is none above");
    }

    #[test]
    fn a_filter_narrows_while_it_is_typed_and_escape_drops_it() {
        let mut top = top(&["web", "api", "db"]);
        press(&mut top, "/we");
        assert_eq!(texts(&mut top).iter().filter(|line| line.contains("1/1")).count(), 1);
        assert_eq!(texts(&mut top).last().unwrap(), "/we_");
        top.key(Key::Enter);
        assert!(texts(&mut top)[0].contains("filter we"));
        assert_eq!(top.key(Key::Escape), Then::Draw);
        assert_eq!(texts(&mut top).iter().filter(|line| line.contains("1/1")).count(), 3);
        press(&mut top, "/cpu>1");
        assert_eq!(texts(&mut top).iter().filter(|line| line.contains("1/1")).count(), 1, "of 0, 1 and 2");
        assert_eq!(press(&mut top, "q"), Then::Draw, "typed, not obeyed");
    }

    #[test]
    fn enter_goes_into_a_service_and_escape_comes_back_to_it() {
        let mut top = top(&["api", "web"]);
        top.key(Key::Down);
        assert_eq!(top.key(Key::Enter), Then::Ask);
        assert_eq!((top.options().show.view, &top.options().names[..]), (View::Task, &["id-web".to_owned()][..]));
        assert!(texts(&mut top)[0].starts_with("tasks  of service web  "), "{:?}", texts(&mut top)[0]);
        assert_eq!(top.key(Key::Escape), Then::Ask);
        assert_eq!((top.options().show.view, top.options().names.len()), (View::Service, 0));
        top.take(Ok(answer(&["api", "web"])), 1000);
        assert_eq!(selected(&mut top), "web");
    }

    #[test]
    fn the_first_row_is_gone_into_by_its_name_without_being_selected_before() {
        let mut top = top(&["api", "web"]);
        top.key(Key::Enter);
        assert!(texts(&mut top)[0].starts_with("tasks  of service api  "), "{:?}", texts(&mut top)[0]);
    }

    #[test]
    fn j_and_k_are_down_and_up_and_digits_are_views() {
        let mut top = top(&["api", "web", "x"]);
        press(&mut top, "jj");
        assert_eq!(selected(&mut top), "x");
        press(&mut top, "k");
        assert_eq!(selected(&mut top), "web");
        for (digit, view) in [("2", View::Task), ("3", View::Node), ("4", View::Stack), ("1", View::Service)] {
            assert_eq!((press(&mut top, digit), top.options().show.view), (Then::Ask, view));
        }
    }

    #[test]
    fn the_sort_goes_from_figure_to_figure_and_round() {
        let mut top = top(&["api"]);
        press(&mut top, "c");
        for (keys, word) in [(">", "by mem"), (">", "by net"), ("<<", "by cpu"), ("<", "by name")] {
            press(&mut top, keys);
            assert!(texts(&mut top)[0].contains(word), "{:?}", texts(&mut top)[0]);
        }
    }

    #[test]
    fn what_the_command_line_selects_is_there_again_in_its_view_and_its_absence_is_said_elsewhere() {
        let mut top = Top::new(options("--filter cpu>1 web"), "http://r:7770".into());
        press(&mut top, "2");
        assert!(top.options().names.is_empty() && top.options().filters.is_empty());
        assert!(texts(&mut top)[0].contains("not as the command line selects"));
        press(&mut top, "1");
        assert!(top.options().names == ["web"] && !top.options().filters.is_empty());
        assert!(!texts(&mut top)[0].contains("not as the command line selects"));
    }

    #[test]
    fn views_go_round_and_intervals_step() {
        let mut top = top(&[]);
        for view in [View::Task, View::Node, View::Stack, View::Service] {
            assert_eq!((top.key(Key::Tab), top.options().show.view), (Then::Ask, view));
        }
        assert_eq!((top.key(Key::BackTab), top.options().show.view), (Then::Ask, View::Stack));
        assert_eq!((press(&mut top, "+"), top.interval()), (Then::Pace, Duration::from_millis(500)));
        assert_eq!((press(&mut top, "--"), top.interval()), (Then::Pace, Duration::from_secs(2)));
        assert_eq!(press(&mut top, "q"), Then::Quit);
    }

    #[test]
    fn what_is_wrong_is_in_the_first_line() {
        let mut top = top(&["web"]);
        top.take(Err("no route".into()), 9000);
        let lines = top.frame(SPACE, 61_000);
        assert_eq!(lines[0].style, Style::Alarm);
        assert!(lines[0].text.contains("00:01:01Z") && lines[0].text.contains("NO ANSWER for 60s"), "{:?}", lines[0]);
        assert!(lines.iter().any(|line| line.text.contains("no route")));
        assert!(press(&mut top, " ") == Then::Draw && texts(&mut top)[0].starts_with("PAUSED"));
    }
}
