//! The columns of `docker stats` as numbers, with what its rounding hides.

use serde_json::Value;

/// `1.2kB / 3.4MB` in bytes, base 1000 and 1024.
pub(crate) fn pair(column: &Value) -> (f64, f64) {
    let (first, second) = column.as_str().unwrap().split_once(" / ").unwrap();
    (bytes(first), bytes(second))
}

/// `12.34%`.
pub(crate) fn percent(column: &Value) -> f64 {
    column.as_str().unwrap().trim_end_matches('%').parse().unwrap()
}

fn bytes(text: &str) -> f64 {
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap();
    let factor = match &text[unit..] {
        "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1048576.0,
        "GiB" => 1073741824.0,
        other => panic!("unit {other}"),
    };
    text[..unit].parse::<f64>().unwrap() * factor
}
