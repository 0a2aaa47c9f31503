//! Threads that wait for births, and for nothing else.
//!
//! They stay: the kernel would hand the children of one that ends to the main thread, among those that
//! we adopt, and whoever looks for orphans would have to look at every job.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

type Birth = Box<dyn FnOnce() + Send>;

/// Those that have nothing to do, the last one on top.
static IDLE: Mutex<Vec<Sender<Birth>>> = Mutex::new(Vec::new());

/// Has one of them do this. There are as many as were ever needed at one time.
///
/// # Errors
/// When the system gives us no further thread.
pub(super) fn call(birth: Birth) -> io::Result<()> {
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let thread = idle.map_or_else(hire, Ok)?;
    // It waits for work for as long as there is anybody who could give it some.
    thread.send(birth).map_err(|_| io::Error::other("the thread for births is gone"))
}

fn hire() -> io::Result<Sender<Birth>> {
    let (give, given) = channel::<Birth>();
    let own = give.clone();
    thread::Builder::new().name("births".to_owned()).spawn(move || {
        while let Ok(birth) = given.recv() {
            birth();
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(own.clone());
        }
    })?;
    Ok(give)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_wait_hold_up_nobody() {
        let (go, stuck) = channel::<()>();
        call(Box::new(move || stuck.recv().unwrap_or_default())).unwrap();
        for _ in 0..3 {
            let (tell, told) = channel();
            call(Box::new(move || tell.send(thread::current().name().map(str::to_owned)).unwrap()))
                .unwrap();
            assert_eq!(told.recv().unwrap().as_deref(), Some("births"));
        }
        drop(go);
    }
}
