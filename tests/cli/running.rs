//! The command while it runs, in a pipe or on a terminal of its own.

use crate::fake::wait_for;
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

/// A running command whose output lines are gathered as they come.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) out: Arc<Mutex<Vec<u8>>>,
    pub(crate) err: Arc<Mutex<Vec<u8>>>,
    /// Our side of its terminal.
    pub(crate) terminal: Option<File>,
}

pub(crate) fn gather(mut from: impl Read + Send + 'static) -> Arc<Mutex<Vec<u8>>> {
    let gathered = Arc::new(Mutex::new(vec![]));
    let into = gathered.clone();
    thread::spawn(move || {
        let mut some = [0; 4096];
        // A terminal whose other side is closed reports an error, a pipe its end.
        while let Ok(length @ 1..) = from.read(&mut some) {
            into.lock().unwrap().extend_from_slice(&some[..length]);
        }
    });
    gathered
}

impl Running {
    pub(crate) fn in_a_pipe(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, err) = (gather(child.stdout.take().unwrap()), gather(child.stderr.take().unwrap()));
        Running { child, out, err, terminal: None }
    }

    pub(crate) fn on_a_terminal(mut command: Command, columns: u16, rows: u16) -> Running {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        tcsetwinsize(&ours, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let path = ptsname(&ours, vec![]).unwrap();
        let theirs = File::options().read(true).write(true).open(OsStr::from_bytes(path.to_bytes())).unwrap();
        let child = command.stdout(theirs).stderr(Stdio::piped()).spawn().unwrap();
        drop(command); // and with it the only other hold on their side
        let ours = File::from(ours);
        let terminal = Some(ours.try_clone().unwrap());
        let mut running = Running { child, out: gather(ours), err: Arc::default(), terminal };
        running.err = gather(running.child.stderr.take().unwrap());
        running
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(self.terminal.as_ref().unwrap(), size).unwrap();
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.out.lock().unwrap()).into_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.err.lock().unwrap()).into_owned()
    }

    pub(crate) fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        wait_for("the end of the command", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
