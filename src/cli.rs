//! `docker swarmstats`: asks any router over HTTP and shows its answer as docker stats would, live or once.
//!
//! An answer always comes with what it lacks. Only the first question may fail for good: while a table lives, a
//! router that does not answer is said below it and asked again. It deliberately makes no figure itself: sums and
//! percentages are the router's.

use crate::json::What;
use std::{io, pin::pin, process::ExitCode, time::Duration};
use tokio::{
    io::AsyncReadExt,
    net::UnixStream,
    signal::unix::{SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval},
};

pub mod args;
pub mod format;
pub mod client;
pub mod answer;
pub mod table;
pub mod screen;

use answer::Answer;
use args::{Format, Options};
use client::{Reply, encoded};
use screen::Screen;

/// How often the router is asked.
const REFRESH: Duration = Duration::from_secs(1);

/// Why the command ends without what it was asked for.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error(transparent)]
    Answer(#[from] answer::Error),
    #[error("cannot write the answer: {0}")]
    Output(#[from] io::Error),
}

impl Error {
    /// The router knows no single thing of that name: asking again is no use.
    fn is_a_wrong_name(&self) -> bool {
        matches!(self, Error::Answer(answer::Error::Unknown(_) | answer::Error::Ambiguous(_)))
    }
}

/// Exit codes, as `--help` tells them.
const FAILED: u8 = 1;
const WRONG_NAME: u8 = 2;
const INCOMPLETE: u8 = 3;

/// Asks and shows until told to stop, or once; gives the exit code.
pub async fn run(options: &Options) -> ExitCode {
    let mut screen = Screen::stdout(options.format == Format::Table && !options.no_stream);
    let stop = told_to_stop(screen.is_live());
    let ended = tokio::select! {
        ended = watch(options, &mut screen) => ended,
        () = stop => Ok(0),
    };
    drop(screen); // the cursor is back before anything else is said
    match ended {
        Ok(code) => code.into(),
        // `docker swarmstats | head` has what it wanted.
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            say(&error.to_string());
            if error.is_a_wrong_name() { WRONG_NAME } else { FAILED }.into()
        }
    }
}

/// A word on standard error.
fn say(text: &str) {
    eprintln!("docker-swarmstats: {}", format::printable(text));
}

/// What the router last said, when, and what went wrong since.
struct Last {
    answer: Answer,
    at: Instant,
    trouble: Option<String>,
}

async fn watch(options: &Options, screen: &mut Screen) -> Result<u8, Error> {
    let mut ticks = interval(REFRESH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut last: Option<Last> = None;
    loop {
        ticks.tick().await;
        match (ask(options, last.is_some()).await, &mut last) {
            (Ok(heard), last) => {
                let answer = heard.show(options, screen)?;
                if options.no_stream {
                    return Ok(if answer.complete { 0 } else { INCOMPLETE });
                }
                *last = Some(Last { answer, at: Instant::now(), trouble: None });
            }
            (Err(error), None) => return Err(error),
            (Err(error), Some(last)) => last.show(&error.to_string(), options, screen)?,
        }
    }
}

impl Last {
    /// Shows the last answer again, with why there is no newer one; where no table lives, says so once.
    fn show(&mut self, trouble: &str, options: &Options, screen: &mut Screen) -> io::Result<()> {
        if screen.is_live() {
            let said = format!("no answer for {}: {trouble}", format::age(self.at.elapsed().as_secs_f64()));
            screen.show(&table::lay_out(options.view, &self.answer, Some(&said), screen.space()))?;
        } else if self.trouble.as_deref() != Some(trouble) {
            say(trouble);
        }
        self.trouble = Some(trouble.to_owned());
        Ok(())
    }
}

/// One round of questions, answered.
struct Heard {
    answers: Vec<Answer>,
    /// The documents the answers were read from.
    documents: Vec<Reply>,
}

impl Heard {
    fn show(self, options: &Options, screen: &mut Screen) -> io::Result<Answer> {
        let answer = Answer::joined(self.answers);
        match options.format {
            Format::Table => screen.show(&table::lay_out(options.view, &answer, None, screen.space()))?,
            Format::Json => {
                for Reply { body, .. } in &self.documents {
                    screen.print(&(answer::one_line(&String::from_utf8_lossy(body)) + "\n"))?;
                }
            }
        }
        Ok(answer)
    }
}

/// Asks for everything, or for each name; a name that was there before and is gone (`forgiving`) is only a warning.
async fn ask(options: &Options, forgiving: bool) -> Result<Heard, Error> {
    let mut heard = Heard { answers: vec![], documents: vec![] };
    let names: Vec<Option<&str>> =
        if options.names.is_empty() { vec![None] } else { options.names.iter().map(|name| Some(&**name)).collect() };
    for name in names {
        match ask_one(options, name).await {
            Ok((answer, document)) => {
                heard.answers.push(answer);
                heard.documents.push(document);
            }
            Err(error) if forgiving && error.is_a_wrong_name() => {
                heard.answers.push(Answer { warnings: vec![error.to_string()], ..Answer::joined([]) });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(heard)
}

/// Asks for one name, or for everything. A task's name may be a service's: then its tasks are meant.
async fn ask_one(options: &Options, name: Option<&str>) -> Result<(Answer, Reply), Error> {
    let all = format!("/v1/{}", options.view.plural());
    let Some(name) = name.map(encoded) else {
        let (mut answer, reply) = ask_path(options, &all).await?;
        // As docker stats: what has ended is shown to those who ask for it by name.
        answer.rows.retain(|row| row.state.as_deref() != Some("ended"));
        return Ok((answer, reply));
    };
    let found = ask_path(options, &format!("{all}/{name}")).await;
    let no_task = match found {
        Err(Error::Answer(answer::Error::Unknown(why))) if options.view == What::Tasks => why,
        // A task that may be where nobody answers.
        Ok((answer, _)) if options.view == What::Tasks && answer.rows.is_empty() => "no such task is known".into(),
        found => return found,
    };
    let (answer, reply) = ask_path(options, &format!("{all}?service={name}")).await?;
    if answer.complete && answer.rows.is_empty() {
        return Err(answer::Error::Unknown(format!("{no_task}, and no service of that name has tasks")).into());
    }
    Ok((answer, reply))
}

async fn ask_path(options: &Options, path: &str) -> Result<(Answer, Reply), Error> {
    let reply = client::get(&options.host, path).await?;
    Ok((Answer::read(options.view, &reply)?, reply))
}

/// Returns once the user or Docker wants the command to end. Signals are caught only where a cursor is to be restored.
async fn told_to_stop(live: bool) {
    let signals = async {
        let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            return std::future::pending().await; // not caught, so they end the process themselves
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    let (signals, docker) = (pin!(signals), pin!(docker_hangs_up()));
    tokio::select! {
        () = signals, if live => {}
        () = docker => {}
    }
}

/// Docker keeps a socket open to its plugin, and closes it when it was itself told to end.
async fn docker_hangs_up() {
    let address = std::env::var("DOCKER_CLI_PLUGIN_SOCKET").unwrap_or_default();
    let address = match address.strip_prefix('@') {
        Some(name) => format!("\0{name}"), // of the abstract name space
        None => address,
    };
    if let Ok(mut socket) = UnixStream::connect(address).await {
        // It says nothing; whatever ends the reading ends us.
        while socket.read(&mut [0; 64]).await.is_ok_and(|bytes| bytes > 0) {}
    } else {
        std::future::pending().await
    }
}
