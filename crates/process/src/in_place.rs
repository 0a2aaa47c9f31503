//! Waiting on a thread that has tasks to run.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does what may have to wait, here and now. The runtime's other tasks go on on another thread, which
/// costs more than a short wait: it is for waits that are rare and may be long.
pub fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // Where there is no other thread, or no task.
        Ok(_) | Err(_) => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_go_on_meanwhile() {
        let (tell, told) = mpsc::channel();
        let waiting = tokio::spawn(async move { in_place(move || told.recv()) });
        let other = tokio::spawn(async move { tell.send(7) });
        other.await.unwrap().unwrap();
        assert_eq!(waiting.await.unwrap(), Ok(7));
    }

    #[tokio::test]
    async fn one_thread_is_enough() {
        assert_eq!(in_place(|| 7), 7);
    }
}
