//! The command as people see it: in real terminals (tmux) of two widths, in a pipe, and as numbers.

use crate::env::{Check, Finally, Lab, lab, output, text, wait_for};
use serde_json::Value;
use std::{
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_docker-swarmstats");

/// The command's output, at the lab's first router.
fn swarmstats(lab: &Lab, arguments: &str) -> String {
    let mut command = Command::new(PROGRAM);
    command.args(arguments.split(' ')).args(["--host", &lab.routers()[0]]);
    output(command)
}

/// A terminal of tmux with the command in it.
struct Terminal {
    server: String,
}

impl Terminal {
    fn open(lab: &Lab, arguments: &str, width: usize, height: usize) -> Terminal {
        static OPENED: AtomicU32 = AtomicU32::new(0);
        let server = format!("swarmstats-{}-{}", std::process::id(), OPENED.fetch_add(1, Ordering::Relaxed));
        let terminal = Terminal { server };
        let (width, height) = (width.to_string(), height.to_string());
        let command = format!("{PROGRAM} {arguments} --host {}", lab.routers()[0]);
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, &command]);
        terminal
    }
    fn tmux(&self, arguments: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.args(["-L", &self.server]).args(arguments).env_remove("TMUX");
        output(tmux)
    }
    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }
    /// The screen once it shows a text.
    fn showing(&self, text: &str) -> String {
        wait_for(&format!("the screen shows {text}"), Duration::from_secs(10), || self.screen().contains(text));
        self.screen()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        Command::new("tmux").args(["-L", &self.server, "kill-server"]).output().ok();
    }
}

#[test]
fn the_live_table_and_top_fit_terminals_of_80_and_200_columns() {
    let (lab, mut check) = (lab(), Check::default());
    for (width, height) in [(80, 24), (200, 50)] {
        for view in ["service", "task", "node", "stack", "ps lab_hold", "--history", "top"] {
            let terminal = Terminal::open(&lab, view, width, height);
            let wanted = if view == "ps lab_hold" {
                "lab_hold.1"
            } else if view == "node" {
                "swarmstats-n3"
            } else if view == "stack" {
                "lab"
            } else {
                "lab_tmpfs"
            };
            let screen = terminal.showing(wanted);
            println!("{width} columns, {view}:\n{}\n", screen.trim_end());
            check.that(screen.lines().all(|line| line.chars().count() <= width), || {
                format!("{view} at {width}: too wide")
            });
            check.that(screen.contains("CPU %"), || format!("{view} at {width}: no CPU %"));
        }
    }
    check.done();
}

#[test]
fn b101_in_a_pipe_there_is_no_escape_code() {
    let lab = lab();
    let doctor = format!("doctor --engine unix://{}", lab.engine(0).display());
    let once = ["--no-stream", "task --no-stream", "--count 2 --interval 500ms", "--no-stream --format csv"];
    for arguments in once.into_iter().chain([doctor.as_str()]) {
        let text = swarmstats(&lab, arguments);
        assert!(!text.contains('\x1b'), "{arguments}: {text:?}");
        assert!(!text.is_empty(), "{arguments}");
    }
}

#[test]
fn json_sums_to_the_table() {
    let (lab, mut check) = (lab(), Check::default());
    // Two answers of a swarm that goes on: what stands still is compared.
    let document: Value = serde_json::from_str(&swarmstats(&lab, "task --no-stream --format json")).unwrap();
    let tasks = document["tasks"].as_array().unwrap();
    let table = swarmstats(&lab, "--no-stream --format {{.Name}},{{.Tasks}},{{.PIDs}},{{.MemUsage}}");
    println!("{table}");
    for service in ["lab_burn", "lab_hold", "lab_tmpfs"] {
        let of = |task: &&Value| task["service_name"] == service && task["state"] == "running";
        let sum = |name: &str| tasks.iter().filter(of).filter_map(|task| task["figures"][name].as_u64()).sum::<u64>();
        let (n, pids) = (tasks.iter().filter(of).count(), sum("pids"));
        let row = table.lines().find(|line| line.starts_with(&format!("{service},"))).unwrap();
        let memory = sum("memory_used_bytes") as f64 / 1048576.0;
        check.that(row.starts_with(&format!("{service},{n}/{n},{pids},")), || format!("{row}: {n} tasks, {pids} PIDs"));
        let shown: f64 = row.split(',').nth(3).unwrap().split("MiB").next().unwrap().parse().unwrap();
        check.that((shown - memory).abs() <= 1.0, || format!("{row}: {memory} MiB"));
    }
    check.done();
}

#[test]
fn the_doctor_finds_nothing_wrong_and_then_a_dead_shipper() {
    let lab = lab();
    let doctor = || {
        let engine = format!("unix://{}", lab.engine(0).display());
        let arguments = ["doctor", "--engine", &engine, "--host", &lab.routers()[0]];
        let out = Command::new(PROGRAM).args(arguments).output().unwrap();
        (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let (code, said) = doctor();
    println!("{said}");
    assert_eq!(code, Some(0), "nothing has failed");
    crate::env::signal(lab.pid("run/s2.pid"), "KILL");
    let back = Finally(|| lab.start("s2"));
    let node = &lab.nodes()[1];
    let names_it = |said: &str| said.lines().any(|line| line.contains("FAIL") && line.contains(node.as_str()));
    let mut said = String::new();
    let took = wait_for("the doctor names the node", Duration::from_secs(20), || {
        let (code, text) = doctor();
        said = text;
        code == Some(1) && names_it(&said)
    });
    println!("{took:.1?} after the shipper of {node} was killed:\n{said}");
    drop(back);
    let there = || lab.tasks(0).iter().any(|task| text(task, "node_name") == node);
    wait_for("its tasks are there again", Duration::from_secs(15), there);
}
