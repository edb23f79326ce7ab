//! The README's commands, run as a reader would: `./dev run` first, the others while it runs, Ctrl-C at the end.
//!
//! `./dev test` is not run: this test is part of it.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The lines of all `sh` blocks.
fn commands() -> Vec<String> {
    let readme = std::fs::read_to_string("README.md").unwrap();
    let mut in_block = false;
    let mut lines = Vec::new();
    for line in readme.lines() {
        match line {
            "```sh" => in_block = true,
            _ if line.starts_with("```") => in_block = false,
            _ if in_block => lines.push(line.to_string()),
            _ => {}
        }
    }
    lines
}

#[test]
fn every_command_of_the_readme_does_what_it_says() {
    let commands = commands();
    assert_eq!(commands.first().map(String::as_str), Some("./dev run"));
    assert!(commands.contains(&"./dev test".to_string()));
    let meanwhile: Vec<_> = commands.iter().filter(|line| !line.starts_with("./dev")).collect();
    assert!(meanwhile.len() >= 5, "the README has lost its commands: {commands:?}");

    let mut dev = Command::new("./dev").arg("run").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let shown = watch_table(&mut dev);
    let ran = shown.and_then(|()| meanwhile.iter().try_for_each(|line| run(line)));
    // Ended as Ctrl-C does, whatever happened before.
    let began = Instant::now();
    let ended = end(&mut dev, "-INT");
    println!("./dev run ended with {ended:?} after {:?}", began.elapsed());
    if ended.is_none() {
        end(&mut dev, "-TERM");
    }
    ran.unwrap();
    assert!(ended.is_some(), "./dev run goes on after SIGINT: it must not be ignored where this test is started");
    assert!(!Path::new("target/run/collectord.pid").exists(), "./dev run left its collectord's pid file behind");
}

/// Reads what `./dev run` prints until a table shows a task with a fresh figure.
fn watch_table(dev: &mut std::process::Child) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(1500); // it may have to build first
    let out = BufReader::new(dev.stdout.take().unwrap());
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            println!("{line}");
            if line.contains('\x1b') {
                drop(tell.send(Err(format!("an escape code in a pipe: {line:?}"))));
            }
            // A service whose tasks are all fresh, as "demo_burn  2/2  …".
            let whole =
                |word: &str| word.split_once('/').is_some_and(|(k, n)| k == n && k.parse().is_ok_and(|k: u32| k > 0));
            if line.contains('%') && line.split_whitespace().any(whole) {
                drop(tell.send(Ok(())));
            }
        }
    });
    told.recv_timeout(deadline - Instant::now())
        .map_err(|_| "./dev run showed no table with a fresh task".to_string())?
}

/// The status with which it ends of a signal, within a minute.
fn end(dev: &mut std::process::Child, signal: &str) -> Option<ExitStatus> {
    let pid = dev.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        if let Some(status) = dev.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    None
}

fn run(line: &str) -> Result<(), String> {
    let output = Command::new("sh").args(["-c", line]).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    println!("$ {line}\n{}", text.lines().take(4).collect::<Vec<_>>().join("\n"));
    if !output.status.success() {
        return Err(format!("{line}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    if text.trim().is_empty() { Err(format!("{line}: printed nothing")) } else { Ok(()) }
}
