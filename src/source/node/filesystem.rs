//! The file system of the engine's data: how large it is, and how full.
//!
//! It may be a network's and not answer: a thread asks, nobody waits for it, and what is not answered by the next time is
//! absent.

use crate::{
    model::Values,
    stat::{self, Stat},
};
use std::{
    path::PathBuf,
    sync::mpsc::{self, Receiver, TryRecvError},
    thread,
};

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Filesystem {
    path: PathBuf,
    asked: Option<Receiver<rustix::io::Result<rustix::fs::StatVfs>>>,
}

const FILESYSTEM: [Stat; 3] = [stat::FILESYSTEM_SIZE, stat::FILESYSTEM_USED, stat::FILESYSTEM_AVAILABLE];

impl Filesystem {
    pub(super) fn new(path: PathBuf) -> Filesystem {
        Filesystem { path, asked: None }
    }

    /// Takes the answer if there is one, and asks anew if it is `due`.
    pub(super) fn read(&mut self, due: bool, values: &mut Values) {
        match self.asked.as_ref().map(Receiver::try_recv) {
            Some(Ok(Ok(answer))) => {
                let bytes = |blocks: u64| blocks.saturating_mul(answer.f_frsize);
                let used = answer.f_blocks.saturating_sub(answer.f_bfree);
                let sizes = [answer.f_blocks, used, answer.f_bavail].map(bytes);
                FILESYSTEM.into_iter().zip(sizes).for_each(|(stat, size)| values.set(stat, size));
                self.asked = None;
            }
            Some(Err(TryRecvError::Empty)) if !due => {}
            Some(Err(TryRecvError::Empty)) => return FILESYSTEM.into_iter().for_each(|stat| values.clear(stat)),
            Some(Ok(Err(_)) | Err(TryRecvError::Disconnected)) => {
                FILESYSTEM.into_iter().for_each(|stat| values.clear(stat));
                self.asked = None;
            }
            None => {}
        }
        if due {
            let (answer, asked) = mpsc::channel();
            let path = self.path.clone();
            // Where no thread can be had or nobody takes the answer any more, there is none.
            let ask = move || drop(answer.send(rustix::fs::statvfs(&path)));
            self.asked = thread::Builder::new().name("statvfs".into()).spawn(ask).ok().map(|_| asked);
            if self.asked.is_none() {
                FILESYSTEM.into_iter().for_each(|stat| values.clear(stat));
            }
        }
    }
}
