//! The tier of these tests: up to five collectors and three shippers on the lab's nodes, which read the members from a
//! watched file, and what is being done to them.

use crate::env::{Lab, lab, root, signal, wait_for};
use crate::http;
use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

pub(crate) const COLLECTORS: [&str; 5] = ["c1", "c2", "c3", "c4", "c5"];
pub(crate) const SHIPPERS: [&str; 3] = ["s1", "s2", "s3"];
/// How long after the end of a disturbance what it hit may still fail to answer.
const GRACE: Duration = Duration::from_secs(2);

/// The processes and their troubles; ends all of them when dropped.
pub(crate) struct Tier {
    replicas: usize,
    running: Mutex<BTreeMap<String, Child>>,
    troubles: Mutex<Vec<Trouble>>,
    /// When each process was started, and when it was ended.
    starts: Mutex<Vec<(String, Instant)>>,
    deaths: Mutex<Vec<(String, Instant)>>,
}

/// Something is being done to a process.
struct Trouble {
    whom: String,
    from: Instant,
    until: Option<Instant>,
}

/// The node of a process, from 0: c1 to c3 and s1 to s3 one each, then from the first again.
pub(crate) fn node_of(name: &str) -> usize {
    (name[1..].parse::<usize>().unwrap() - 1) % 3
}

/// The group a shipper runs as, by which a firewall knows what it sends from what others on its node send.
pub(crate) fn group_of(shipper: &str) -> u32 {
    7000 + u32::try_from(node_of(shipper)).unwrap()
}

fn place(name: &str, first: u16) -> String {
    let second = if name.as_bytes()[1] > b'3' { 10 } else { 0 };
    format!("10.77.0.1{}:{}", node_of(name) + 1, first + second)
}

/// Where a collector answers questions.
pub(crate) fn api(name: &str) -> String {
    place(name, if name.starts_with('c') { 7770 } else { 7773 })
}

/// Where a process is scraped.
pub(crate) fn metrics(name: &str) -> String {
    place(name, if name.starts_with('c') { 7771 } else { 7772 })
}

fn file(name: &str) -> PathBuf {
    root().join("target/lab").join(name)
}

/// A lock that a failed thread held is taken all the same: what it guards is a list of facts.
pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Tier {
    /// Starts shippers and the first `n` collectors.
    pub(crate) fn start(n: usize, replicas: usize) -> (Tier, Lab) {
        assert!(file("env").exists(), "the lab is not up: run  ./dev lab up --without-tier");
        let tier = Tier {
            replicas,
            running: Mutex::default(),
            troubles: Mutex::default(),
            starts: Mutex::default(),
            deaths: Mutex::default(),
        };
        tier.members(&COLLECTORS[..n]);
        for name in COLLECTORS[..n].iter().chain(&SHIPPERS) {
            tier.begin(name);
        }
        let lab = lab();
        (tier, lab)
    }

    /// Writes the members' file, whole at once; it is noticed within 2 s.
    pub(crate) fn members(&self, names: &[&str]) {
        let lines: String = names.iter().map(|name| format!("- {{id: {name}, addr: \"{}\"}}\n", api(name))).collect();
        fs::write(file("conf/members.new"), lines).unwrap();
        fs::rename(file("conf/members.new"), file("conf/members.yaml")).unwrap();
    }

    fn conf(&self, name: &str) -> String {
        let (n, dir) = (node_of(name) + 1, file(""));
        let common = format!(
            "api:\n  listen: {}\nmetrics:\n  listen: {}\nreplicas: {}\nmembers:\n  file: {}\n",
            api(name),
            metrics(name),
            self.replicas,
            file("conf/members.yaml").display()
        );
        if name.starts_with('s') {
            return format!("engine: unix://{}/n{n}/docker.sock\ninterval: 1s\n{common}", dir.display());
        }
        let swarm = if name == "c1" {
            format!("swarm:\n  engine: unix://{}/n1/docker.sock\n", dir.display())
        } else {
            String::new()
        };
        format!("member: {name}\nroles: [collector, router]\n{common}{swarm}")
    }

    /// Starts a process, and waits until it answers.
    pub(crate) fn begin(&self, name: &str) {
        self.spawn(name);
        self.ready(name);
    }

    fn spawn(&self, name: &str) {
        let conf = file(&format!("conf/{name}.yaml"));
        fs::write(&conf, self.conf(name)).unwrap();
        let log = fs::File::options().create(true).append(true).open(file(&format!("log/{name}.log"))).unwrap();
        let builds = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        let program = if name.starts_with('c') { "collectord" } else { "shipper" };
        let node = fs::read_to_string(file(&format!("n{}/node.pid", node_of(name) + 1))).unwrap();
        let mut command = Command::new("nsenter");
        command.args(["-t", node.trim(), "--net", "--uts", "--mount"]);
        if name.starts_with('s') {
            command.args(["--setuid", "0", "--setgid", &group_of(name).to_string()]);
        }
        let child = command
            .arg(builds.join("release").join(program))
            .arg("--config")
            .arg(&conf)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        held(&self.starts).push((name.to_owned(), Instant::now()));
        held(&self.running).insert(name.to_owned(), child);
    }

    fn ready(&self, name: &str) {
        let url = match name.as_bytes()[0] {
            b'c' => format!("http://{}/readyz", api(name)),
            _ => format!("http://{}/metrics", metrics(name)),
        };
        // A node that is cut off is waited for: a cut is shorter.
        wait_for(&format!("{name} is ready (./dev lab, target/lab/log)"), Duration::from_secs(30), || {
            http::get(&url).is_ok_and(|answer| answer.code == 200)
        });
    }

    pub(crate) fn pid(&self, name: &str) -> u32 {
        held(&self.running).get(name).unwrap_or_else(|| panic!("{name} does not run")).id()
    }

    /// SIGKILL.
    pub(crate) fn kill(&self, name: &str) {
        let mut child = held(&self.running).remove(name).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        held(&self.deaths).push((name.to_owned(), Instant::now()));
    }

    /// SIGTERM; how long it took to leave, which may be 8 s and a little.
    pub(crate) fn end(&self, name: &str) -> Duration {
        let mut child = held(&self.running).remove(name).unwrap();
        signal(child.id(), "TERM");
        let took = wait_for(&format!("{name} leaves after SIGTERM"), Duration::from_secs(10), || {
            child.try_wait().unwrap().is_some()
        });
        held(&self.deaths).push((name.to_owned(), Instant::now()));
        took
    }

    /// Something is done to these from now on.
    pub(crate) fn trouble(&self, whom: &[String]) {
        let begun = |whom: &String| Trouble { whom: whom.clone(), from: Instant::now(), until: None };
        held(&self.troubles).extend(whom.iter().map(begun));
    }

    /// It is over.
    pub(crate) fn over(&self, whom: &[String]) {
        for name in whom {
            let mut troubles = held(&self.troubles);
            let trouble = troubles.iter_mut().find(|trouble| trouble.whom == *name && trouble.until.is_none());
            trouble.unwrap().until = Some(Instant::now());
        }
    }

    /// To whom something was done at any moment of a span, or shortly before it.
    pub(crate) fn disturbed(&self, from: Instant, until: Instant, shortly: Duration) -> BTreeSet<String> {
        let hit = |trouble: &&Trouble| trouble.from <= until && trouble.until.is_none_or(|end| end + shortly >= from);
        held(&self.troubles).iter().filter(hit).map(|trouble| trouble.whom.clone()).collect()
    }

    /// Nothing was done to a process at any moment of a span.
    pub(crate) fn undisturbed(&self, name: &str, from: Instant, until: Instant) -> bool {
        !self.disturbed(from, until, GRACE).contains(name)
    }

    /// Whether a process of a letter was started within a span before now.
    pub(crate) fn started_within(&self, letter: char, span: Duration) -> bool {
        held(&self.starts).iter().any(|(name, at)| name.starts_with(letter) && at.elapsed() < span)
    }

    /// When a process was last started.
    pub(crate) fn last_start(&self, name: &str) -> Instant {
        held(&self.starts).iter().rev().find(|(of, _)| of == name).unwrap().1
    }

    /// Which processes of a letter were ended, and when.
    pub(crate) fn deaths(&self, letter: char) -> Vec<(String, Instant)> {
        held(&self.deaths).iter().filter(|(name, _)| name.starts_with(letter)).cloned().collect()
    }

    /// How often processes of a letter were started after the first time.
    pub(crate) fn restarts(&self, letter: char) -> usize {
        let starts = held(&self.starts);
        let of: Vec<&String> = starts.iter().map(|(name, _)| name).filter(|name| name.starts_with(letter)).collect();
        of.len() - of.iter().collect::<BTreeSet<_>>().len()
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        for child in held(&self.running).values_mut() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}
