//! Verbs that help a person to begin and to check: greetings, completions, manual pages, the self-test and
//! the first configuration file.

mod completions;
mod first_config;
mod greetings;
mod manual;
mod self_test;

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::harness::eventually;

/// A pseudo-terminal, and what a program has written to it.
struct Terminal {
    controller: File,
    device: OwnedFd,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn open() -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&controller).expect("a terminal");
        unlockpt(&controller).expect("a terminal");
        let name = ptsname(&controller, Vec::new()).expect("a name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let device = rustix::fs::open(name, flags, Mode::empty()).expect("the device");
        let controller = File::from(controller);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut reader = controller.try_clone().expect("a copy");
        let shared = Arc::clone(&seen);
        // Ends with the last user of the device.
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                shared.lock().expect("no panic").extend_from_slice(&buffer[..count]);
            }
        });
        Self { controller, device, seen }
    }

    /// The device, as a stream of a program.
    fn stream(&self) -> OwnedFd {
        self.device.try_clone().expect("a copy")
    }

    /// Returns the text that was written so far, with the line ends of a file.
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().expect("no panic")).replace("\r\n", "\n")
    }

    #[track_caller]
    fn wait_for(&self, text: &str) -> String {
        eventually(&format!("`{text}` on the terminal"), || self.text().contains(text));
        self.text()
    }
}
