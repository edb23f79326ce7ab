//! The figures made at the rim, and what becomes of a container's life, beside the kernel's own files.

use crate::env::{Check, Finally, INTERVAL, Lab, items, lab, text, wait_for};
use crate::kernel::Kernel;
use serde_json::Value;
use std::{
    fs,
    thread::sleep,
    time::{Duration, Instant},
};

const SHOWN_WITHIN: Duration = Duration::from_secs(10);

fn figure(item: &Value, name: &str) -> f64 {
    item["figures"][name].as_f64().unwrap_or(f64::NAN)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Every task of a service that is not over.
fn running(lab: &Lab, service: &str) -> Vec<Value> {
    lab.tasks(0).into_iter().filter(|task| task["service_name"] == service).collect()
}

/// Our figures of tasks, once an interval for some seconds; then the mean of each.
fn watched(lab: &Lab, service: &str, seconds: u64, names: &[&str]) -> Vec<(String, Vec<f64>)> {
    let mut seen: std::collections::BTreeMap<String, Vec<Vec<f64>>> = Default::default();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(seconds) {
        for task in running(lab, service) {
            let figures = names.iter().map(|name| figure(&task, name)).collect();
            seen.entry(text(&task, "name").into()).or_default().push(figures);
        }
        sleep(INTERVAL);
    }
    let column = |rows: &[Vec<f64>], i: usize| mean(&rows.iter().map(|row| row[i]).collect::<Vec<_>>());
    let means = |rows: Vec<Vec<f64>>| (0..names.len()).map(|i| column(&rows, i)).collect();
    seen.into_iter().map(|(name, rows)| (name, means(rows))).collect()
}

#[test]
fn a_throttled_task_and_the_base_of_each_percentage() {
    let (lab, mut check) = (lab(), Check::default());
    let cpus = std::thread::available_parallelism().unwrap().get() as f64;
    let tasks = running(&lab, "lab_burn");
    let kernels: Vec<Kernel> = tasks.iter().map(Kernel::of).collect();
    let before: Vec<_> = kernels.iter().map(Kernel::throttling).collect();
    let cpu_before: Vec<f64> = kernels.iter().map(Kernel::cpu).collect();
    let began = Instant::now();
    let names = ["cpu_percent", "cpu_percent_of_limit", "cpu_percent_of_node", "cpu_throttled_percent"];
    let ours = watched(&lab, "lab_burn", 12, &names);
    let seconds = began.elapsed().as_secs_f64();
    println!("CPU limit 0.15 of {cpus} CPUs: kernel (over {seconds:.1} s) | ours (mean of one a second)");
    for (place, task) in tasks.iter().enumerate() {
        let name = text(task, "name");
        let (periods, throttled) = kernels[place].throttling();
        let throttled = 100.0 * (throttled - before[place].1) / (periods - before[place].0);
        let cpu = 100.0 * (kernels[place].cpu() - cpu_before[place]) / seconds;
        let Some((_, mine)) = ours.iter().find(|(mine, _)| mine == name) else { panic!("{name} is not shown") };
        println!(
            "  {name:44} CPU {cpu:6.2} | {:6.2}, of its limit {:6.2} | {:6.2}, of the node {:5.2} | {:5.2}, throttled {throttled:5.1} | {:5.1} %",
            mine[0],
            cpu / 0.15,
            mine[1],
            cpu / cpus,
            mine[2],
            mine[3]
        );
        let near = |ours: f64, kernel: f64, by: f64| (ours - kernel).abs() <= by;
        check.that(near(mine[0], cpu, 1.5), || format!("{name}: CPU {} is not {cpu}", mine[0]));
        check.that(near(mine[1], cpu / 0.15, 10.0), || format!("{name}: {} of the limit", mine[1]));
        check.that(near(mine[2], cpu / cpus, 1.0), || format!("{name}: {} of the node", mine[2]));
        check.that(near(mine[3], throttled, 10.0), || format!("{name}: throttled {} is not {throttled}", mine[3]));
    }
    assert_eq!(tasks.len(), 4);
    check.done();
}

#[test]
fn rates_are_what_the_counters_gain() {
    let (lab, mut check) = (lab(), Check::default());
    let total = |tasks: &[Value], name: &str| tasks.iter().map(|task| figure(task, name)).sum::<f64>();
    let pairs = [
        ("network_receive_bytes", "network_receive_bytes_per_second"),
        ("network_transmit_bytes", "network_transmit_bytes_per_second"),
        ("block_written_bytes", "block_written_bytes_per_second"),
    ];
    let before = running(&lab, "lab_traffic");
    let began = Instant::now();
    let ours = watched(&lab, "lab_traffic", 12, &pairs.map(|(_, rate)| rate));
    let (after, seconds) = (running(&lab, "lab_traffic"), began.elapsed().as_secs_f64());
    for (place, (counter, rate)) in pairs.into_iter().enumerate() {
        let gained = (total(&after, counter) - total(&before, counter)) / seconds;
        let rates: f64 = ours.iter().map(|(_, means)| means[place]).sum();
        println!("lab_traffic {counter}: gained {gained:.0} B/s, rates {rates:.0} B/s");
        check.that((rates - gained).abs() <= 0.25 * gained + 4096.0, || format!("{rate} {rates} is not {gained}"));
    }
    check.done();
}

/// A service of one task for a test; it is removed in the end.
fn service<'a>(lab: &'a Lab, name: &'static str, options: &str, command: &str) -> Finally<impl FnMut() + 'a> {
    lab.docker(
        0,
        &format!(
            "service create --detach --no-resolve-image --network bridge --name {name} {options} busybox:lab {command}"
        ),
    );
    Finally(move || drop(lab.docker(0, &format!("service rm {name}"))))
}

/// Waits until a task of a service is as wanted, and gives it.
fn task_of(lab: &Lab, service: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut found = None;
    wait_for(&format!("a task of {service} {what}"), Duration::from_secs(40), || {
        let document = lab.ask(0, "/v1/tasks");
        found = items(&document, "tasks").into_iter().find(|task| task["service_name"] == service && wanted(task));
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn b115_b128_an_out_of_memory_kill_leaves_its_exit_code_and_count() {
    let (lab, mut check) = (lab(), Check::default());
    let _service = service(&lab, "oom", "--limit-memory 16M --restart-condition none", "hold 64");
    let ended = task_of(&lab, "oom", "has ended", |task| task["state"] == "ended");
    let id = text(&ended, "id");
    let state = "{{.Status.State}} {{.Status.ContainerStatus.ExitCode}}";
    let swarm = lab.docker(0, &format!("inspect --format {} {id}", state.replace(' ', ",")));
    println!(
        "Swarm: {} | ours: exit code {}, OOM kills {}",
        swarm.trim(),
        ended["exit_code"],
        figure(&ended, "oom_kills")
    );
    check.that(swarm.trim().ends_with(&format!(",{}", ended["exit_code"])), || {
        format!("{} is not {swarm}", ended["exit_code"])
    });
    check.that(figure(&ended, "oom_kills") >= 1.0, || format!("no OOM kill in {ended}"));
    check.done();
}

#[test]
fn a_paused_task_is_paused_and_keeps_its_memory() {
    let (lab, mut check) = (lab(), Check::default());
    let task = running(&lab, "lab_hold").swap_remove(0);
    let (node, container, id) = (lab.node(text(&task, "node_name")), text(&task, "container_id"), text(&task, "id"));
    lab.docker(node, &format!("pause {container}"));
    let resume = Finally(|| drop(lab.docker(node, &format!("unpause {container}"))));
    let mut seen = Value::Null;
    let took = wait_for("the task is paused", SHOWN_WITHIN, || {
        seen = items(&lab.ask(0, &format!("/v1/tasks/{id}")), "tasks").swap_remove(0);
        seen["state"] == "paused"
    });
    sleep(INTERVAL * 2);
    seen = items(&lab.ask(0, &format!("/v1/tasks/{id}")), "tasks").swap_remove(0);
    let kernel = Kernel::of(&task).memory_used();
    println!(
        "paused after {took:.1?}: CPU {} %, memory {} (kernel {kernel})",
        figure(&seen, "cpu_percent"),
        figure(&seen, "memory_used_bytes")
    );
    check.that(figure(&seen, "cpu_percent") == 0.0, || format!("CPU of {seen}"));
    check.that((figure(&seen, "memory_used_bytes") - kernel).abs() <= 1048576.0, || format!("memory of {seen}"));
    drop(resume);
    wait_for("it runs again", SHOWN_WITHIN, || {
        lab.ask(0, &format!("/v1/tasks/{id}"))["tasks"][0]["state"] == "running"
    });
    check.done();
}

#[test]
fn a_health_check_is_shown() {
    let lab = lab();
    let sick = "--health-cmd false --health-interval 1s --health-retries 100 --health-start-period 1s";
    let _well = service(&lab, "well", "--health-cmd true --health-interval 1s", "sleep 600");
    let _sick = service(&lab, "sick", sick, "sleep 600");
    let (well, sick) = (task_of(&lab, "well", "is healthy", |task| task["health"] == "healthy"), "starting");
    let starting = task_of(&lab, "sick", "is starting", |task| task["health"] == sick);
    println!("{}: {}; {}: {}", text(&well, "name"), well["health"], text(&starting, "name"), starting["health"]);
}

/// A number of a file of /proc by the name that its line begins with, times a factor.
fn proc_field(file: &str, name: &str, place: usize) -> f64 {
    let text = fs::read_to_string(format!("/proc/{file}")).unwrap();
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap().to_owned();
    line.split_whitespace().nth(place).unwrap().parse().unwrap()
}

#[test]
fn a_nodes_own_figures_are_the_kernels() {
    let (lab, mut check) = (lab(), Check::default());
    // user, nice, system, irq, softirq: without idle, iowait and steal; in ticks of 10 ms.
    let busy = || [1, 2, 3, 6, 7].iter().map(|place| proc_field("stat", "cpu", *place)).sum::<f64>() / 100.0;
    let machine = |lab: &Lab| items(&lab.ask(0, "/v1/nodes"), "nodes").swap_remove(0)["machine"].clone();
    let (kernel_before, before) = (busy(), machine(&lab));
    sleep(Duration::from_secs(10));
    let (kernel_after, after) = (busy(), machine(&lab));
    let cpu = |machine: &Value| machine["stats"]["cpu_seconds_total"].as_f64().unwrap_or(f64::NAN);
    let gained = (kernel_after - kernel_before, cpu(&after) - cpu(&before));
    println!("CPU over 10 s: kernel {:.2} s, ours {:.2} s", gained.0, gained.1);
    check.that((gained.0 - gained.1).abs() <= 0.15 * gained.0 + 0.5, || format!("CPU gained {gained:?}"));
    let of = |name: &str| after["figures"][name].as_f64().unwrap_or(f64::NAN);
    let total = proc_field("meminfo", "MemTotal:", 1) * 1024.0;
    let used = total - proc_field("meminfo", "MemAvailable:", 1) * 1024.0;
    println!(
        "memory: kernel {used:.0} of {total:.0}, ours {:.0} of {:.0}",
        of("memory_used_bytes"),
        of("memory_limit_bytes")
    );
    check.that(of("memory_limit_bytes") == total, || format!("{} is not {total}", of("memory_limit_bytes")));
    check.that((of("memory_used_bytes") - used).abs() <= 0.03 * total, || format!("used {}", of("memory_used_bytes")));
    let df = std::process::Command::new("df").arg("-B1").arg(lab.file("n1/data")).output().unwrap();
    let df = String::from_utf8(df.stdout).unwrap();
    let column =
        |place: usize| df.lines().nth(1).unwrap().split_whitespace().nth(place).unwrap().parse::<f64>().unwrap();
    let (size, used, left) =
        (of("filesystem_size_bytes"), of("filesystem_used_bytes"), of("filesystem_available_bytes"));
    println!("file system: df {} {} {}, ours {size} {used} {left}", column(1), column(2), column(3));
    check.that(size == column(1), || format!("{size} is not {}", column(1)));
    check
        .that((used - column(2)).abs() <= 64e6 && (left - column(3)).abs() <= 64e6, || format!("{used}, {left}\n{df}"));
    let load = fs::read_to_string("/proc/loadavg").unwrap();
    println!("load: kernel {}, ours {} {} {}", load.trim(), of("load1"), of("load5"), of("load15"));
    let load5: f64 = load.split(' ').nth(1).unwrap().parse().unwrap();
    check.that((of("load5") - load5).abs() <= 0.5, || format!("load5 {} is not {load5}", of("load5")));
    check.done();
}
