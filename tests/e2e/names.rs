//! Members found in DNS, by real daemons that ask a fake name server: each in a mount namespace of its own, with a
//! resolv.conf that names that server. So these tests run as root alone.

use crate::engine::{Does, FakeEngine, good, many};
use crate::rig::{Daemon, Folder, free_address, get, series, until, value};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const NAME: &str = "tasks.collectord";
const N_TASKS: usize = 16;

/// What the fake name server answers to one look-up.
#[derive(Clone)]
enum Says {
    Addresses(Vec<Ipv4Addr>),
    /// NOERROR, and no address.
    Empty,
    NoSuchName,
    Fails,
}

/// Answers in turn; after the last come the first again, or the last stays.
struct Script {
    answers: Vec<Says>,
    again: bool,
    /// Look-ups of addresses since these answers were set.
    asked: usize,
    now: Says,
}

impl Script {
    /// A look-up asks for IPv4 addresses and then for IPv6 ones, of which there are none: both are one answer.
    fn answer(&mut self, ipv6: bool) -> Says {
        if !ipv6 {
            let last = self.answers.len() - 1;
            let place = if self.again { self.asked % self.answers.len() } else { self.asked.min(last) };
            self.now = self.answers[place].clone();
            self.asked += 1;
        }
        match &self.now {
            Says::Addresses(_) if ipv6 => Says::Empty,
            says => says.clone(),
        }
    }
}

/// A fake name server of one name on port 53 of a loopback address of its own, for one daemon.
struct FakeNames {
    address: Ipv4Addr,
    script: Arc<Mutex<Script>>,
    stop: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

impl FakeNames {
    /// `None` where another test has the address.
    fn start(address: Ipv4Addr) -> Option<FakeNames> {
        let socket = match UdpSocket::bind((address, 53)) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => return None,
            bound => bound.unwrap_or_else(|error| panic!("a name server at {address}:53, which takes root: {error}")),
        };
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let script = Script { answers: vec![Says::NoSuchName], again: false, asked: 0, now: Says::NoSuchName };
        let (script, stop) = (Arc::new(Mutex::new(script)), Arc::new(AtomicBool::new(false)));
        let (answers, stopped) = (script.clone(), stop.clone());
        let serving = std::thread::spawn(move || {
            let mut question = [0; 512];
            while !stopped.load(Ordering::Relaxed) {
                let Ok((n, from)) = socket.recv_from(&mut question) else { continue };
                if let Some(answer) = answer(&question[..n], &answers) {
                    socket.send_to(&answer, from).ok();
                }
            }
        });
        Some(FakeNames { address, script, stop, serving: Some(serving) })
    }
    fn set(&self, answers: Vec<Says>, again: bool) {
        let now = Says::Empty;
        *self.script.lock().unwrap() = Script { answers, again, asked: 0, now };
    }
    fn asked(&self) -> usize {
        self.script.lock().unwrap().asked
    }
}

impl Drop for FakeNames {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.serving.take().map(JoinHandle::join);
    }
}

/// The answer to a question of one name (RFC 1035, 4.1); `None` to what is none.
fn answer(question: &[u8], script: &Mutex<Script>) -> Option<Vec<u8>> {
    let (mut labels, mut at) = (Vec::new(), 12);
    loop {
        let length = usize::from(*question.get(at)?);
        let label = question.get(at + 1..at + 1 + length)?;
        at += 1 + length;
        if length == 0 {
            break;
        }
        labels.push(std::str::from_utf8(label).ok()?);
    }
    let (kind, asked) = (question.get(at..at + 2)?, question.get(12..at + 4)?);
    let says = match labels.join(".") == NAME {
        true => script.lock().unwrap().answer(kind == [0, 28]),
        false => Says::NoSuchName,
    };
    let (code, addresses) = match says {
        Says::Addresses(addresses) => (0, addresses),
        Says::Empty => (0, Vec::new()),
        Says::Fails => (2, Vec::new()),
        Says::NoSuchName => (3, Vec::new()),
    };
    let count = u8::try_from(addresses.len()).unwrap();
    let mut answer = question.get(..2)?.to_vec();
    answer.extend([0x81, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0]); // recursion asked for and available, one question
    answer.extend(asked);
    for address in addresses {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]); // the name asked for, A, IN, for 0 seconds, 4 bytes
        answer.extend(address.octets());
    }
    Some(answer)
}

/// Loopback addresses of this test alone, for members that listen on one port and for name servers.
struct Net {
    net: u8,
    port: u16,
    _held: FakeNames,
}

impl Net {
    fn new() -> Net {
        let held = |net: u8| Some((net, FakeNames::start(Ipv4Addr::new(127, 153, net, 1))?));
        let (net, held) = (0..=255).find_map(held).expect("a free net");
        Net { net, port: free_address().port(), _held: held }
    }
    fn ip(&self, last: u8) -> Ipv4Addr {
        Ipv4Addr::new(127, 153, self.net, last)
    }
    fn addresses(&self, last: &[u8]) -> Says {
        Says::Addresses(last.iter().map(|last| self.ip(*last)).collect())
    }
    fn dns(&self, wait_for_members: usize) -> String {
        let port = self.port;
        format!("members: {{dns: {{name: {NAME}, port: {port}, every: 1s, wait_for_members: {wait_for_members}}}}}")
    }
    /// A member at `10 + last`, and its own name server, which says these.
    async fn member(&self, id: &str, last: u8, more: &str, says: Says) -> Named {
        let names = FakeNames::start(self.ip(100 + last)).unwrap();
        names.set(vec![says], false);
        let api = SocketAddr::from((self.ip(last), self.port));
        let daemon = Daemon::collectord_with(id, api, more, Some(&resolver(names.address))).await;
        Named { daemon, names }
    }
    async fn shipper(&self, engine: &FakeEngine, more: &str, says: Says) -> Named {
        let names = FakeNames::start(self.ip(200)).unwrap();
        names.set(vec![says], false);
        let daemon = Daemon::shipper_with(&engine.socket, more, Some(&resolver(names.address))).await;
        Named { daemon, names }
    }
}

/// What the resolver of a process reads, to ask this server and no other.
fn resolver(server: Ipv4Addr) -> Folder {
    let folder = Folder::new();
    folder.write("resolv.conf", &format!("nameserver {server}\nsearch nobody.test\noptions timeout:1 attempts:1\n"));
    folder.write("nsswitch.conf", "hosts: files dns\n");
    folder
}

/// A daemon and the name server it asks.
struct Named {
    daemon: Daemon,
    names: FakeNames,
}

impl Named {
    async fn ring(&self) -> Vec<(String, String)> {
        let ring = get(self.daemon.api, "/v1/ring").await.json();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let members = ring["members"].as_array().cloned().unwrap_or_default();
        members.iter().map(|member| (text(&member["id"]), text(&member["address"]))).collect()
    }
    async fn is_ring(&self, ids: &[&str]) -> bool {
        self.ring().await.iter().map(|(id, _)| id.as_str()).eq(ids.iter().copied())
    }
    async fn ring_info(&self) -> (f64, String) {
        let page = get(self.daemon.metrics, "/metrics").await.body;
        let changes = value(&page, "swarmstats_ring_changes_total").unwrap();
        let info = page.lines().find(|line| line.starts_with("swarmstats_ring_info{")).unwrap();
        (changes, info.to_string())
    }
    /// Waits for so many more look-ups that have an answer.
    async fn looks(&self, more: usize) {
        let enough = self.names.asked() + more;
        until("the name was looked up", async || self.names.asked() >= enough).await;
    }
}

/// Every task is answered, fresh, by every router.
async fn all_answered(members: &[Named]) -> Result<(), String> {
    for Named { daemon, .. } in members {
        let json = get(daemon.api, "/v1/services/web").await.json();
        if json["complete"] != true || json["services"][0]["tasks"]["fresh"] != N_TASKS {
            return Err(json.to_string());
        }
    }
    Ok(())
}

const SLOW: &str = "interval: 3s\ntakeover_after: 10s";

#[tokio::test]
async fn a_name_that_flaps_at_1_hz_changes_no_ring() {
    let (net, engine) = (Net::new(), FakeEngine::start(many(N_TASKS)));
    let full = || net.addresses(&[1, 2, 3]);
    let (more, mut members) = (format!("{}\nquery_deadline: 5s", net.dns(3)), Vec::new());
    for (id, last) in [("c1", 1), ("c2", 2), ("c3", 3)] {
        members.push(net.member(id, last, &more, full()).await);
    }
    let shipper = net.shipper(&engine, &format!("{SLOW}\n{}", net.dns(3)), full()).await;
    for member in &members {
        until("all three are members", async || member.is_ring(&["c1", "c2", "c3"]).await).await;
    }
    until("all tasks are answered", async || all_answered(&members).await.is_ok()).await;
    let all: Vec<&Named> = members.iter().chain([&shipper]).collect();
    let mut before = Vec::new();
    for named in &all {
        before.push(named.ring_info().await);
    }
    // A look a second, each answered otherwise; at 77 nobody listens. Nobody is missed three times in a row.
    let flapping = vec![
        net.addresses(&[1, 2]),
        Says::NoSuchName,
        net.addresses(&[2, 1]),
        Says::Empty,
        net.addresses(&[2, 3]),
        net.addresses(&[77]),
        net.addresses(&[3, 1]),
        Says::Fails,
        net.addresses(&[77, 3, 2, 1]),
        full(),
    ];
    let rounds = 2 * flapping.len();
    all.iter().for_each(|named| named.names.set(flapping.clone(), true));
    let mut n_answers = 0;
    while !all.iter().all(|named| named.names.asked() > rounds) {
        all_answered(&members).await.unwrap();
        n_answers += members.len();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(n_answers > rounds, "{n_answers}");
    for (named, before) in all.iter().zip(before) {
        assert_eq!(named.ring_info().await, before);
        // Of ten answers three say nothing, and each is told.
        let failures = series(named.daemon.metrics, "swarmstats_discovery_failures_total").await.unwrap();
        assert!(failures >= 6.0, "{failures}");
    }
}

#[tokio::test]
async fn who_is_gone_leaves_after_three_misses_and_who_is_new_is_in_within_two_looks() {
    let net = Net::new();
    let full = || net.addresses(&[1, 2, 3]);
    let (more, mut members) = (net.dns(3), Vec::new());
    // A failed look-up is told as what it is.
    members.push(net.member("c1", 1, &more, Says::NoSuchName).await);
    let unready = async |part: &str| {
        let answer = get(members[0].daemon.api, "/readyz").await;
        answer.status == 503 && answer.body.contains(part)
    };
    until("the failed look-up is told", async || unready(&format!("no address of the collectors at {NAME}: ")).await)
        .await;
    members[0].names.set(vec![full()], false);
    members.push(net.member("c2", 2, &more, full()).await);
    // Two of three are there: no ring yet, and that is told.
    members[0].looks(2).await;
    let waits = get(members[0].daemon.api, "/readyz").await;
    assert!(
        waits.status == 503 && waits.body.contains("2 of the 3 members that are waited for are there"),
        "{}",
        waits.body
    );
    members.push(net.member("c3", 3, &more, full()).await);
    for member in &members {
        until("all three are members", async || member.is_ring(&["c1", "c2", "c3"]).await).await;
    }

    // Gone from the name as well; two answers say so, and then there are none.
    members.pop().unwrap().daemon.kill();
    let without = || net.addresses(&[1, 2]);
    members.iter().for_each(|member| member.names.set(vec![without(), without(), Says::NoSuchName], false));
    for member in &members {
        member.looks(6).await;
        assert!(member.is_ring(&["c1", "c2", "c3"]).await, "two misses are too few");
    }
    members.iter().for_each(|member| member.names.set(vec![without(), Says::NoSuchName], false));
    for member in &members {
        until("the third miss removes it", async || member.is_ring(&["c1", "c2"]).await).await;
    }

    // The name tells of a new one twice, and then says nothing any more.
    members.push(net.member("c4", 4, &net.dns(1), net.addresses(&[1, 2, 4])).await);
    let with = || net.addresses(&[1, 2, 4]);
    members[..2].iter().for_each(|member| member.names.set(vec![with(), with(), Says::NoSuchName], false));
    for member in &members {
        until("the new one is in", async || member.is_ring(&["c1", "c2", "c4"]).await).await;
    }
}

/// The CPU time that every container of this engine has used, in seconds.
fn engine_of(cpu: Arc<AtomicU64>) -> FakeEngine {
    let tasks = many(N_TASKS);
    FakeEngine::start(move |path| match path.contains("/stats") {
        true => {
            let used = cpu.load(Ordering::Relaxed) * 1_000_000_000;
            let Does::Say(text) = good(path) else { panic!("a good engine says its stats") };
            let mut stats: Value = serde_json::from_str(&text).unwrap();
            stats["cpu_stats"] = json!({"cpu_usage": {"total_usage": used}});
            Does::Say(stats.to_string())
        }
        false => tasks(path),
    })
}

#[tokio::test]
async fn of_two_processes_with_one_name_the_known_one_stays_and_the_other_is_refused_loudly() {
    let (net, cpu) = (Net::new(), Arc::new(AtomicU64::new(10)));
    let engine = engine_of(cpu.clone());
    let more = format!("{}\nquery_deadline: 5s", net.dns(2));
    let both = || net.addresses(&[1, 3]);
    let mut members = vec![net.member("c1", 1, &more, both()).await, net.member("c2", 3, &more, both()).await];
    let mut shipper = net.shipper(&engine, &format!("interval: 500ms\n{}", net.dns(2)), both()).await;
    let total = async |member: &Named| {
        let json = get(member.daemon.api, "/v1/services/web").await.json();
        json["services"][0]["stats"]["cpu_seconds_total"].as_f64().unwrap_or_default()
    };
    let n_tasks = f64::from(u32::try_from(N_TASKS).unwrap());
    for member in &members {
        until("all is told", async || all_answered(&members).await.is_ok() && total(member).await == 10.0 * n_tasks)
            .await;
    }
    let mut before = Vec::new();
    for named in members.iter().chain([&shipper]) {
        before.push(named.ring_info().await);
    }

    // The newcomer has the lower address, so that it comes first in a sorted answer. To itself it is as good as the other.
    let three = || net.addresses(&[1, 2, 3]);
    let second = net.member("c2", 2, &more, three()).await;
    members.iter().chain([&shipper]).for_each(|named| named.names.set(vec![three()], false));
    let refused = "swarmstats_members_refused_total";
    for named in members.iter().chain([&shipper]) {
        until("it is refused", async || series(named.daemon.metrics, refused).await >= Some(1.0)).await;
    }
    // The containers use more; from now on every answer is between the two figures, and ends at the second.
    cpu.store(25, Ordering::Relaxed);
    let settled = async || {
        let mut all = true;
        for member in &members {
            let total = total(member).await;
            assert!((10.0 * n_tasks..=25.0 * n_tasks).contains(&total), "{total}");
            all &= total == 25.0 * n_tasks;
        }
        all
    };
    until("the new figures are there", settled).await;
    shipper.looks(5).await;
    assert!(settled().await);
    // Each is emitted once, by the two that are known.
    let mut emitted = 0.0;
    for member in &members {
        let page = get(member.daemon.metrics, "/metrics").await.body;
        let of_tasks = |line: &&str| line.starts_with("swarmstats_task_cpu_seconds_total{");
        let used = page.lines().filter(of_tasks).map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap());
        emitted += used.sum::<f64>();
    }
    assert_eq!(emitted, 25.0 * n_tasks);
    let unused = get(second.daemon.api, "/v1/tasks?scope=local").await.json();
    assert_eq!(unused["tasks"], json!([]));
    for (named, before) in members.iter().chain([&shipper]).zip(before) {
        assert_eq!(named.ring_info().await, before);
    }
    let at = |last: u8| SocketAddr::from((IpAddr::V4(net.ip(last)), net.port)).to_string();
    assert_eq!(members[0].ring().await[1], ("c2".to_string(), at(3)));
    let trouble = get(members[0].daemon.api, "/v1/ring").await.json()["trouble"].to_string();
    assert!(trouble.contains("both call themselves c2"), "{trouble}");

    // Both processes say who and where, and what to do.
    for named in [&mut shipper, &mut members[0]] {
        let looks = series(named.daemon.metrics, refused).await.unwrap() as usize;
        named.daemon.signal(Signal::TERM);
        let (_, said) = named.daemon.ended(Duration::from_secs(20)).await;
        let told = |line: &&str| line.contains("ERROR") && line.contains(&at(2)) && line.contains(&at(3));
        let lines: Vec<&str> = said.lines().filter(told).collect();
        assert!(!lines.is_empty() && lines[0].contains("c2") && lines[0].contains("give each its own"), "{said}");
        assert!(lines.len() < looks, "said once as long as it lasts, not at each of {looks} looks: {said}");
    }
}
