//! The command while it runs: in pipes, and on a terminal that is redrawn, resized, lent to others and given back.

use crate::fake::{Does, FakeRouter, SERVICES, SERVICES_TABLE, wait_for};
use crate::running::{Running, gather};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::os::linux::net::SocketAddrExt;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[test]
fn a_pipe_gets_a_table_every_second_and_no_escape_code() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let running = Running::in_a_pipe(router.client(""));
    let start = Instant::now();
    wait_for("a third table", || running.out().matches("NAME").count() == 3);
    assert!(start.elapsed() > Duration::from_millis(1500), "three tables are two seconds");
    let three = format!("{SERVICES_TABLE}\n{SERVICES_TABLE}\n{SERVICES_TABLE}");
    wait_for("its rows", || running.out() == three);
    assert_eq!(running.err(), "");
}

#[test]
fn json_streams_one_document_a_line() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let running = Running::in_a_pipe(router.client("--format json"));
    wait_for("two lines", || running.out().lines().count() >= 2);
    let out = running.out();
    assert!(out.lines().take(2).all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{out}");
}

#[test]
fn a_reader_that_has_enough_ends_the_stream() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let mut child = router.client("").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let mut running = Running { err: gather(child.stderr.take().unwrap()), out: Arc::default(), child, terminal: None };
    assert_eq!((running.ended(), running.err()), (Some(0), String::new()));
}

#[test]
fn a_stream_outlives_a_router_that_fails_for_a_while() {
    let failing = Arc::new(Mutex::new(false));
    let switch = failing.clone();
    let router = FakeRouter::start(move |_| match *switch.lock().unwrap() {
        false => Does::Answer("200 OK", SERVICES.into()),
        true => Does::Answer("503 Service Unavailable", r#"{"error": "no member answers"}"#.into()),
    });
    let running = Running::in_a_pipe(router.client(""));
    wait_for("a table", || running.out().contains("NAME"));
    *failing.lock().unwrap() = true;
    let asked = router.asked().len();
    wait_for("three failures", || router.asked().len() > asked + 3);
    assert_eq!(
        running.err(),
        "docker-swarmstats: the router answered 503 Service Unavailable: no member answers\n",
        "once"
    );
    let tables = running.out().matches("NAME").count();
    *failing.lock().unwrap() = false;
    wait_for("another table", || running.out().matches("NAME").count() > tables);
}

#[test]
fn count_ends_too_where_no_answer_comes_any_more() {
    let first = Arc::new(Mutex::new(true));
    let router = FakeRouter::start(move |_| match std::mem::replace(&mut *first.lock().unwrap(), false) {
        true => Does::Answer("200 OK", SERVICES.into()),
        false => Does::Send(b""),
    });
    let mut running = Running::in_a_pipe(router.client("--count 3 --interval 100ms"));
    assert_eq!(running.ended(), Some(1));
    assert_eq!(router.asked().len(), 4, "once with an answer and three times without");
}

#[test]
fn who_reads_no_further_has_what_they_wanted() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    for line in ["--help", "completion bash", "docker-cli-plugin-metadata", "__complete swarmstats st", "--no-stream"] {
        let (ours, theirs) = std::io::pipe().unwrap();
        drop(ours);
        let output = router.client(line).stdout(theirs).output().unwrap();
        assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]), "{line}");
    }
}

#[test]
fn the_stream_ends_when_docker_hangs_up() {
    let name = format!("swarmstats-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let docker = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    let router = FakeRouter::saying("200 OK", SERVICES);
    let mut command = router.client("swarmstats");
    command.env("DOCKER_CLI_PLUGIN_SOCKET", format!("@{name}"));
    let mut running = Running::in_a_pipe(command);
    let (line, _) = docker.accept().unwrap();
    wait_for("a table", || running.out().contains("NAME"));
    assert!(running.child.try_wait().unwrap().is_none());
    drop(line);
    assert_eq!(running.ended(), Some(0));
}

/// What a terminal shows of a frame's lines, without colours and erasing.
fn bare(frame: &str) -> Vec<String> {
    let mut text = frame.replace('\r', "");
    for code in ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[33m", "\x1b[1;33m", "\x1b[K", "\x1b[J"] {
        text = text.replace(code, "");
    }
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_terminal_is_redrawn_in_place_and_gets_its_cursor_back() {
    for signal in [Signal::INT, Signal::TERM, Signal::QUIT] {
        let router = FakeRouter::saying("200 OK", SERVICES);
        let mut running = Running::on_a_terminal(router.client(""), 80, 24);
        wait_for("a third frame", || running.out().matches("\x1b[H").count() == 3);
        kill_process(Pid::from_child(&running.child), signal).unwrap();
        assert_eq!((running.ended(), running.err()), (Some(0), String::new()), "{signal:?}");
        wait_for("the cursor", || running.out().ends_with("\x1b[?25h"));
        let out = running.out();
        let frames: Vec<&str> = out.split("\x1b[H").collect();
        assert!(frames[0].ends_with("\x1b[?25l"), "the cursor is hidden before the first frame: {:?}", frames[0]);
        assert_eq!(
            bare(frames[1]),
            [
                "NAME   TASKS     CPU %   MEM USAGE / LIMIT       MEM %     NET I/O         PIDS",
                "api     1/1     75.20%         24B / --             --       -- / --         10",
                "web     2/2      0.03%    2.352MiB / 982.5MiB    0.24%    539kB / 606kB       2",
                "",
                "too narrow for BLOCK I/O",
            ]
        );
        assert_eq!(bare(frames[1]), bare(frames[2]));
        assert!(!out.contains("\x1b[2J"), "never cleared, so it does not flicker");
    }
}

#[test]
fn a_table_that_lives_keeps_its_figures_and_says_what_is_wrong() {
    let failing = Arc::new(Mutex::new(false));
    let switch = failing.clone();
    let router = FakeRouter::start(move |_| match *switch.lock().unwrap() {
        false => Does::Answer("200 OK", SERVICES.into()),
        true => Does::Send(b""),
    });
    let running = Running::on_a_terminal(router.client(""), 200, 24);
    wait_for("a frame", || running.out().contains("web"));
    *failing.lock().unwrap() = true;
    wait_for("a frame that says it", || running.out().contains("no answer for "));
    let out = running.out();
    let last = out.split("\x1b[H").last().unwrap();
    assert!(last.contains("2.352MiB / 982.5MiB"), "{last:?}");
}

#[test]
fn a_dumb_terminal_gets_plain_text() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let mut command = router.client("--no-stream");
    command.env("TERM", "dumb");
    let mut running = Running::on_a_terminal(command, 80, 24);
    assert_eq!(running.ended(), Some(0));
    wait_for("the table", || running.out().replace('\r', "") == SERVICES_TABLE);
}

#[test]
fn b101_no_option_brings_an_escape_code_into_a_pipe() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    for line in ["", "--sort cpu --history --wide", "--format json", "--format csv", "node", "ps web"] {
        let output = router.run(&format!("{line} --count 2 --interval 100ms"));
        assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b), "{line}: {output:?}");
    }
    let output = router.client("--count 2 --interval 100ms --format").arg("table {{.Name}}").output().unwrap();
    assert!(!output.stdout.contains(&0x1b));
}

#[test]
fn another_size_is_drawn_at_once() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let mut running = Running::on_a_terminal(router.client("--interval 1h"), 80, 24);
    wait_for("a frame", || running.out().contains("too narrow for BLOCK I/O"));
    assert!(!running.out().contains("1e+03kB"));
    running.resize(200, 24);
    kill_process(Pid::from_child(&running.child), Signal::WINCH).unwrap(); // it is not the terminal's foreground
    wait_for("a wider frame", || running.out().contains("1e+03kB / 12B"));
    assert_eq!(router.asked().len(), 1, "without another question");
    kill_process(Pid::from_child(&running.child), Signal::TERM).unwrap();
    assert_eq!(running.ended(), Some(0));
}

#[test]
fn a_stopped_command_gives_the_terminal_back_and_takes_it_again() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let mut running = Running::on_a_terminal(router.client("--interval 1h"), 80, 24);
    wait_for("a frame", || running.out().contains("web"));
    let pid = Pid::from_child(&running.child);
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next()
    };
    kill_process(pid, Signal::TSTP).unwrap();
    wait_for("the stop", || state() == Some('T'));
    wait_for("the cursor", || running.out().ends_with("\x1b[?25h"));
    kill_process(pid, Signal::CONT).unwrap();
    wait_for("the table again", || {
        running.out().matches("\x1b[?25l").count() == 2 && running.out().ends_with("\x1b[J")
    });
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(running.ended(), Some(0));
    wait_for("the cursor", || running.out().ends_with("\x1b[?25h"));
}

#[test]
fn rows_that_are_nearly_equal_do_not_jump() {
    // web and api take turns at the top, by less than a tenth.
    let turn = Arc::new(Mutex::new(0_u32));
    let router = FakeRouter::start(move |_| {
        let mut turn = turn.lock().unwrap();
        *turn += 1;
        let (web, api) = if turn.is_multiple_of(2) { (51, 50) } else { (50, 51) };
        Does::Answer(
            "200 OK",
            format!(
                r#"{{"complete": true, "services": [{{"id": "s1", "name": "web", "figures": {{"cpu_percent": {web}}}}},
                    {{"id": "s2", "name": "api", "figures": {{"cpu_percent": {api}}}}}]}}"#
            ),
        )
    });
    let output = router.client("--sort cpu --count 8 --interval 100ms --format").arg("{{.Name}}").output().unwrap();
    let names: Vec<&str> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    assert_eq!(names, ["api", "web"].repeat(8));
}

#[test]
fn no_color_is_heeded_and_a_template_table_is_redrawn_too() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let mut command = router.client("--interval 100ms --count 3");
    command.args(["--format", "table {{.Name}}\t{{.CPUPerc}}"]).env("NO_COLOR", "1");
    let mut running = Running::on_a_terminal(command, 80, 24);
    assert_eq!(running.ended(), Some(0));
    wait_for("the cursor", || running.out().ends_with("\x1b[?25h"));
    let out = running.out();
    assert_eq!(out.matches("\x1b[H").count(), 3);
    assert_eq!(out.matches("NAME      CPU %\x1b[K").count(), 3, "{out:?}");
    assert!(!out.contains("\x1b[0m"), "no colours");
}
