//! A page of `/metrics`, taken apart.

use crate::http;
use crate::tier::metrics;
use std::collections::BTreeSet;

/// One series: its name, its labels as written, its value.
pub(crate) struct Series {
    pub(crate) name: String,
    labels: String,
    pub(crate) value: f64,
}

impl Series {
    /// A label's value; the lab's values hold neither quotes nor backslashes.
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        let mut labels = self.labels.split("\",");
        labels.find_map(|label| label.strip_prefix(name)?.strip_prefix("=\"")).map(|value| value.trim_end_matches('"'))
    }
}

/// What a page says now; `None` if it is not answered.
pub(crate) fn read(url: &str) -> Option<Vec<Series>> {
    let answer = http::get(url).ok().filter(|answer| answer.code == 200)?;
    Some(answer.body.lines().filter(|line| !line.starts_with('#')).filter_map(series).collect())
}

fn series(line: &str) -> Option<Series> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    Some(Series { name: name.into(), labels: labels.trim_end_matches('}').into(), value: value.parse().ok()? })
}

/// The sum of all series of a name.
pub(crate) fn sum(page: &[Series], name: &str) -> f64 {
    page.iter().filter(|series| series.name == name).map(|series| series.value).sum()
}

/// The tasks whose series a collector shows: all, or those on a node.
pub(crate) fn emitted(name: &str, node: Option<&str>) -> BTreeSet<String> {
    let page = read(&format!("http://{}/metrics", metrics(name))).unwrap_or_default();
    let of_tasks = page.iter().filter(|series| series.name == "swarmstats_task_sample_age_seconds");
    let chosen = of_tasks.filter(|series| node.is_none_or(|node| series.label("node_name") == Some(node)));
    chosen.filter_map(|series| series.label("task_id").map(str::to_owned)).collect()
}
