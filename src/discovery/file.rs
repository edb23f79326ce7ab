//! Reading a file of members: bounded, and never waited for.

use crate::config::{MAX_TEXT, MemberAddr, Members, parse_members};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The members that the file names, if they are in one, as a check before the start reads them; the error is for people.
pub fn members_in_file(members: &Members) -> Result<Option<Vec<MemberAddr>>, String> {
    let Members::File(path) = members else { return Ok(None) };
    let list = read(path).and_then(|text| parse_members(&text).map_err(|error| error.to_string()));
    list.map(Some).map_err(|error| format!("members.file {}: {error}", path.display()))
}

/// The text of a watched file: a regular file of bounded size. Whatever else is there is not waited for.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let text = || {
        // Of a FIFO that nobody writes to, too, the opening returns at once.
        let waits_not = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).expect("a flag of open(2)");
        let file = std::fs::OpenOptions::new().read(true).custom_flags(waits_not).open(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(std::io::Error::other("it is no regular file"));
        }
        if about.len() > MAX_TEXT as u64 {
            return Err(std::io::Error::other(format!("{} bytes; {MAX_TEXT} (256 KiB) are allowed", about.len())));
        }
        let mut text = String::new();
        file.take(MAX_TEXT as u64 + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    text().map_err(|error| error.to_string())
}
