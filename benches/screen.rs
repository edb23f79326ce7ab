//! What one frame of a live table costs: 400 tasks, from the router's bytes to the terminal's.
//!
//! `cargo bench --bench screen`. CPU time of this thread, median of many frames, beside what reading the same document
//! into a bare tree of JSON values costs in turns with it. Budget: 5 ms a frame (issue 4).

mod common;

use common::{Budget, line, median, thread_cpu};
use hyper::StatusCode;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::time::Duration;
use swarmstats::cli::answer::Answer;
use swarmstats::cli::client::Reply;
use swarmstats::cli::columns::Show;
use swarmstats::cli::filter::Filters;
use swarmstats::cli::screen::frame;
use swarmstats::cli::sort::{Order, Steady};
use swarmstats::cli::table::{Space, lay_out};
use swarmstats::cli::view::{Base, View};
use swarmstats::json::What;

const TASKS: usize = 400;
const FRAMES: usize = 200;

fn main() {
    let order = Order::read("cpu", Base::Cpu, false).expect("a key");
    let filters = Filters::read(&["cpu>=0"], View::Task, Base::Cpu, false).expect("a filter");
    let mut terminal = File::create("/dev/null").expect("it is there");
    println!("{TASKS} tasks on screen, {FRAMES} frames each");
    for (what, wide, width) in [("a frame of 200 columns", false, 200), ("a frame of 400 columns, --wide", true, 400)] {
        let show = Show { view: View::Task, wide, ..Show::default() };
        let space = Space { width: Some(width), height: Some(TASKS + 10) };
        let mut steady = Steady::default();
        let (mut ours, mut bare, mut size) = (vec![], vec![], 0);
        for round in 0..FRAMES {
            let reply = Reply { status: StatusCode::OK, body: document(round).into(), date: None };
            bare.push(millis(|| {
                let tree: serde_json::Value = serde_json::from_slice(&reply.body).expect("JSON");
                assert!(tree.is_object());
            }));
            ours.push(millis(|| {
                let mut answer = Answer::read(What::Tasks, &reply).expect("a router's");
                answer.rows.retain(|row| filters.pass(row));
                steady.arrange(order, &mut answer.rows);
                let lines = lay_out(&show, &answer, None, space);
                assert_eq!(lines.len(), TASKS + 1);
                let text = frame(&lines, space.width, true);
                size = text.len();
                terminal.write_all(text.as_bytes()).expect("it takes all");
            }));
        }
        line(what, median(ours), "ms", ("bare JSON", median(bare)), Some(Budget::AtMost(5.0)));
        println!("  {} kB of JSON, {} kB to the terminal", document(0).len() / 1000, size / 1000);
    }
}

fn millis(work: impl FnOnce()) -> f64 {
    let before = thread_cpu();
    work();
    (thread_cpu() - before).max(Duration::from_nanos(1)).as_secs_f64() * 1e3
}

/// A router's answer to `/v1/tasks?stats=none`; the figures differ from round to round, so rows change places.
fn document(round: usize) -> String {
    let mut tasks = String::new();
    for task in 0..TASKS {
        let cpu = (task * 7919 + round * 31) % 10_000;
        write!(
            tasks,
            r#"{comma}{{"id":"{task:0>25}","name":"shop_web.{task}.{task:0>25}","stack":"shop","service_id":"{service:0>25}",
"service_name":"shop_web","node_id":"{node:0>25}","node_name":"worker-{node}","slot":"{task}","container_id":"{task:0>64}",
"image":"registry.example/shop/web:1.27","labels":{{"tier":"front"}},"owners":["c1","c2"],"state":"running","health":"healthy",
"exit_code":null,"tasks":{{"fresh":1,"known":1,"desired":null}},"age_seconds":0.512,"since":"2026-01-01T00:00:00.000Z",
"totals":{{}},"figures":{{"cpu_percent":{cpu}.{task:0>6},"memory_used_bytes":{memory},"memory_limit_bytes":2147483648,
"memory_percent":12.345678,"network_receive_bytes":539000,"network_transmit_bytes":606000,"block_read_bytes":0,
"block_written_bytes":13300,"pids":12,"cpu_percent_of_node":1.5,"cpu_percent_of_limit":null,"memory_percent_of_node":1.5,
"memory_working_set_bytes":1000000,"memory_anon_bytes":1000000,"memory_file_bytes":1000000,"memory_shmem_bytes":0,
"memory_swap_bytes":0,"network_receive_bytes_per_second":1500,"network_transmit_bytes_per_second":1500,
"block_read_bytes_per_second":0,"block_written_bytes_per_second":0,"cpu_throttled_percent":0.000000,
"pressure_cpu_percent":1.250000,"pressure_memory_percent":0.000000,"pressure_io_percent":0.000000,"oom_kills":0,"restarts":0}},
"stats":{{}}}}"#,
            comma = if task == 0 { "" } else { "," },
            service = task % 20,
            node = task % 10,
            memory = 1_000_000 + cpu * 100_000,
        )
        .expect("a text takes all");
    }
    format!(r#"{{"complete":true,"missing":[],"warnings":[],"swarm":null,"tasks":[{tasks}]}}"#)
}
