//! Two Prometheus servers that scrape the three collectors every 5 s, as long as the tests run.

use crate::env::{folder, free_port, lab, wait_for};
use crate::http;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    process::{Child, Command, Stdio},
    sync::LazyLock,
    time::Duration,
};

/// The servers; started when first asked for.
pub(crate) static SERVERS: LazyLock<[Server; 2]> = LazyLock::new(|| {
    let servers = [Server::start("prometheus-a"), Server::start("prometheus-b")];
    for server in &servers {
        wait_for("two scrapes of each collector", Duration::from_secs(40), || {
            let scrapes = server.query("count_over_time(swarmstats_build_info[1m]) >= 2", None);
            scrapes.len() == lab().metrics().len()
        });
    }
    servers
});

/// One Prometheus.
pub(crate) struct Server {
    url: String,
    /// A shell that ends the server when this process does, however it does.
    _shell: Child,
}

/// A series' labels (with its name) and its value.
pub(crate) type Sample = (BTreeMap<String, String>, f64);

impl Server {
    fn start(name: &str) -> Server {
        let (folder, port) = (folder(name), free_port());
        let lab = lab();
        let targets = lab.metrics().iter().map(|url| url.replace("http://", "").replace("/metrics", ""));
        let targets = targets.collect::<Vec<_>>().join(", ");
        let config = format!(
            "global: {{scrape_interval: 5s}}\nscrape_configs:\n  - job_name: swarmstats\n    static_configs:\n      - targets: [{targets}]\n"
        );
        fs::write(folder.join("prometheus.yml"), config).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let shell = Command::new("sh")
            .args(["-c", r#""$@" & read _; kill $!; wait"#, "sh", "prometheus"])
            .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Server { url: format!("http://127.0.0.1:{port}"), _shell: shell };
        wait_for("prometheus is ready (package prometheus)", Duration::from_secs(30), || {
            http::get(&format!("{}/-/ready", server.url)).is_ok_and(|answer| answer.code == 200)
        });
        server
    }

    /// An instant query.
    pub(crate) fn query(&self, query: &str, at: Option<f64>) -> Vec<Sample> {
        let sample = |series: &Value| {
            let value = series["value"][1].as_str().unwrap().parse().unwrap();
            (labels(&series["metric"]), value)
        };
        self.raw(query, at).iter().map(sample).collect()
    }

    /// The times at which a series has samples; `query` is of one series, over a range.
    pub(crate) fn times(&self, query: &str) -> Vec<f64> {
        let times = |series: &Value| {
            let values = series["values"].as_array().unwrap().clone();
            values.into_iter().map(|value| value[0].as_f64().unwrap())
        };
        self.raw(query, None).iter().flat_map(times).collect()
    }

    fn raw(&self, query: &str, at: Option<f64>) -> Vec<Value> {
        let at = at.map_or(String::new(), |at| format!("&time={at:.3}"));
        let url = format!("{}/api/v1/query?query={}{at}", self.url, http::encoded(query));
        let answer = http::get(&url).unwrap().json();
        assert_eq!(answer["status"], "success", "{answer}");
        answer["data"]["result"].as_array().unwrap().clone()
    }
}

fn labels(metric: &Value) -> BTreeMap<String, String> {
    let labels = metric.as_object().unwrap().iter();
    labels.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
}
