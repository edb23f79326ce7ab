//! Bad surroundings: an engine's socket that is not there or denied, and a collector that is told to go.

use crate::env::{Check, Finally, INTERVAL, Own, folder, free_port, lab, root, signal, wait_for};
use crate::http;
use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixListener, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// A shipper at an engine's socket, run as a user; where it answers, and its log.
fn shipper(name: &str, socket: &Path, user: u32) -> (Own, String, PathBuf) {
    let port = free_port();
    let folder = std::env::temp_dir().join(format!("swarmstats-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let config = format!(
        "engine: unix://{}\nmembers: {{static: [{{id: nobody, addr: \"127.0.0.1:9\"}}]}}\n\
         api: {{listen: \"127.0.0.1:{port}\"}}\nmetrics: {{listen: none}}\n",
        socket.display()
    );
    fs::write(folder.join("shipper.yaml"), config).unwrap();
    // Where a user without rights can read it.
    fs::copy(env!("CARGO_BIN_EXE_shipper"), folder.join("shipper")).unwrap();
    let log = folder.join("log");
    let process = Command::new(folder.join("shipper"))
        .arg("--config")
        .arg(folder.join("shipper.yaml"))
        .uid(user)
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    (Own(process), format!("http://127.0.0.1:{port}"), log)
}

fn engine_is_out_of_reach(name: &str, socket: &Path, user: u32, word: &str) {
    let (mut process, url, log) = shipper(name, socket, user);
    wait_for("the shipper answers", Duration::from_secs(10), || http::get(&url).is_ok());
    sleep(Duration::from_secs(2));
    let ready = http::get(&format!("{url}/readyz")).unwrap();
    let said = fs::read_to_string(&log).unwrap();
    println!("{name}: /readyz {} {}log:\n{said}", ready.code, ready.body);
    assert_eq!(ready.code, 503);
    assert!(ready.body.contains("engine"), "{}", ready.body);
    let lines: Vec<&str> = said.lines().filter(|line| line.contains(&*socket.to_string_lossy())).collect();
    assert_eq!(lines.len(), 1, "the socket is named in one line, not once an attempt:\n{said}");
    assert!(lines[0].to_lowercase().contains(word), "{}", lines[0]);
    assert!(!said.contains("panicked"), "{said}");
    assert!(process.0.try_wait().unwrap().is_none(), "it has ended");
    fs::remove_dir_all(log.parent().unwrap()).ok();
}

#[test]
fn no_engine_there() {
    engine_is_out_of_reach("no-engine", Path::new("/run/there-is-no.sock"), 0, "is missing");
}

#[test]
fn the_engines_socket_is_denied() {
    let socket = std::env::temp_dir().join(format!("swarmstats-denied-{}.sock", std::process::id()));
    let _listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).unwrap();
    let remove = Finally(|| drop(fs::remove_file(&socket)));
    engine_is_out_of_reach("denied", &socket, 65534, "permission denied");
    drop(remove);
}

#[test]
fn a_collector_that_is_told_to_go() {
    let (lab, mut check) = (lab(), Check::default());
    let node = lab.pid("n3/node.pid").to_string();
    // One of our own in c3's place: its exit code is told to its parent only.
    let restart = Finally(|| drop(Command::new(root().join("dev")).args(["lab", "start", "c3"]).output()));
    let before = lab.pid("run/c3.pid");
    signal(before, "TERM");
    wait_for("c3 has ended", Duration::from_secs(10), || !Path::new(&format!("/proc/{before}")).exists());
    let log = folder("told-to-go").join("log");
    let collector = Command::new("nsenter")
        .args(["-t", &node, "--net", "--uts", "--mount", env!("CARGO_BIN_EXE_collectord"), "--config"])
        .arg(lab.file("conf/c3.yaml"))
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut collector = Own(collector);
    let ready = || http::get(&format!("{}/readyz", lab.routers()[2])).ok().map(|answer| answer.code);
    let complete = || lab.ask(0, "/v1/tasks")["complete"] == true;
    wait_for("c3 is ready and everything is there", Duration::from_secs(15), || ready() == Some(200) && complete());
    let logs = ["s1", "s2", "s3"].map(|name| lab.file(&format!("log/{name}.log")));
    let n_byes = || -> Vec<usize> {
        let bye = |line: &&str| line.contains("c3") && line.contains("it leaves");
        logs.iter().map(|log| fs::read_to_string(log).unwrap().lines().filter(bye).count()).collect()
    };
    let byes = n_byes();
    let began = Instant::now();
    signal(collector.0.id(), "TERM");
    let mut answered = Vec::new();
    let ended = loop {
        if let Some(ended) = collector.0.try_wait().unwrap() {
            break ended;
        }
        assert!(began.elapsed() < Duration::from_secs(8), "it has not ended after 8 s");
        answered.extend(ready());
        sleep(Duration::from_millis(2));
    };
    let took = began.elapsed();
    println!("ended {took:.2?} after SIGTERM with {ended}; /readyz meanwhile: {answered:?}");
    check.that(ended.code() == Some(0), || format!("{ended}"));
    // It may not have noticed at first.
    let mut leaving = answered.iter().skip_while(|code| **code == 200);
    check.that(leaving.all(|code| *code == 503), || format!("/readyz said {answered:?}"));
    sleep(INTERVAL);
    let told: Vec<usize> = n_byes().iter().zip(&byes).map(|(now, before)| now - before).collect();
    println!("shippers that were told bye: {told:?}");
    check.that(told == [1, 1, 1], || format!("told bye: {told:?}"));
    for shipper in lab.shippers() {
        let document = http::get(&format!("{shipper}/v1/tasks?scope=local")).unwrap().json();
        let fresh = document["tasks"].as_array().unwrap().iter().filter(|task| task["state"] == "running");
        println!("{shipper} goes on with {} tasks", fresh.count());
        check.that(document["complete"] == true, || format!("{shipper}: {}", document["missing"]));
    }
    drop(restart);
    let back = wait_for("everything is there again", INTERVAL * 10, complete);
    println!("complete {back:.1?} after c3 was started again");
    check.that(back <= INTERVAL * 3, || format!("complete only after {back:?}"));
    let said = fs::read_to_string(&log).unwrap();
    check.that(!said.contains("panicked"), || said.clone());
    lab.no_panic();
    check.done();
}
