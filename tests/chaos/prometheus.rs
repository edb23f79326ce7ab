//! A real Prometheus that scrapes collectors, routers and shippers every second.

use crate::env::{Own, folder, free_port, wait_for};
use crate::http;
use crate::tier::{COLLECTORS, SHIPPERS, metrics};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Stdio},
    time::Duration,
};

/// The server; ends with this.
pub(crate) struct Prometheus {
    url: String,
    _process: Own,
}

/// A series' labels and its values with their times.
pub(crate) type Found = (BTreeMap<String, String>, Vec<(f64, f64)>);

impl Prometheus {
    pub(crate) fn start() -> Prometheus {
        let (folder, port) = (folder("prometheus-chaos"), free_port());
        let targets = |names: &[&str]| names.iter().map(|name| metrics(name)).collect::<Vec<_>>().join(", ");
        let (collectors, shippers) = (targets(&COLLECTORS), targets(&SHIPPERS));
        let job = |name: &str, targets: &str, more: &str| {
            format!("  - job_name: {name}\n    static_configs:\n      - targets: [{targets}]\n{more}")
        };
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n{}{}{}",
            job("collector", &collectors, ""),
            job("cluster", &collectors, "    params: {scope: [cluster]}\n"),
            job("shipper", &shippers, ""),
        );
        fs::write(folder.join("prometheus.yml"), config).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("prometheus (package prometheus)");
        let server = Prometheus { url: format!("http://127.0.0.1:{port}"), _process: Own(process) };
        wait_for("prometheus is ready", Duration::from_secs(30), || {
            http::get(&format!("{}/-/ready", server.url)).is_ok_and(|answer| answer.code == 200)
        });
        server
    }

    /// The one value of a query at a time.
    pub(crate) fn value(&self, query: &str, at: f64) -> f64 {
        let found = self.range(query, at, at);
        assert!(found.len() == 1 && found[0].1.len() == 1, "{query} is no one value: {found:?}");
        found[0].1[0].1
    }

    /// A query evaluated each second of a span.
    pub(crate) fn range(&self, query: &str, from: f64, until: f64) -> Vec<Found> {
        let query = http::encoded(query);
        let url = format!("{}/api/v1/query_range?query={query}&start={from:.3}&end={until:.3}&step=1", self.url);
        let answer = http::get(&url).unwrap().json();
        assert_eq!(answer["status"], "success", "{answer}");
        answer["data"]["result"].as_array().unwrap().iter().map(found).collect()
    }

    /// Names of all counters of ours that were scraped.
    pub(crate) fn counters(&self) -> Vec<String> {
        let answer = http::get(&format!("{}/api/v1/label/__name__/values", self.url)).unwrap().json();
        let names = answer["data"].as_array().unwrap().iter().filter_map(Value::as_str);
        names.filter(|name| name.starts_with("swarmstats_") && name.ends_with("_total")).map(str::to_owned).collect()
    }
}

fn found(series: &Value) -> Found {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let labels = series["metric"].as_object().unwrap().iter().map(|(name, value)| (name.clone(), text(value)));
    let values = series["values"].as_array().unwrap().iter();
    let values = values.map(|value| (value[0].as_f64().unwrap(), text(&value[1]).parse().unwrap()));
    (labels.collect(), values.collect())
}
