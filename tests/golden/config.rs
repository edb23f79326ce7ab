//! What people read when a config is wrong: `tests/data/config/<daemon>-….bad.yaml`, the message beside it in `.bad.txt`.

use std::path::{Path, PathBuf};
use swarmstats::config::{Collectord, Mistakes, Shipper, parse_members};
use swarmstats::model::MemberId;

fn mistakes_of(file: &Path) -> Mistakes {
    let name = file.file_name().unwrap().to_str().unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let host = MemberId::new("this-host").unwrap();
    let result = match name.split('-').next() {
        Some("shipper") => Shipper::parse(&text, &host).map(|_| ()),
        Some("collectord") => Collectord::parse(&text, &host).map(|_| ()),
        Some("members") => parse_members(&text).map(|_| ()),
        _ => panic!("{name}: begin its name with shipper, collectord or members"),
    };
    result.expect_err(name)
}

#[test]
fn every_mistake_is_told_with_its_line_and_remedy() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/config");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ext| ext == "yaml"));
    files.sort();
    assert!(files.len() >= 8, "{} files", files.len());
    let mut wrong = String::new();
    for file in files {
        let found = mistakes_of(&file).to_string() + "\n";
        let expected = std::fs::read_to_string(file.with_extension("txt")).unwrap();
        if found != expected {
            wrong += &format!("{}\n--- found\n{found}--- expected\n{expected}", file.display());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
