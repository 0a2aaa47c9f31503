//! A loop that reads 64 KiB and writes 64 KiB: what it costs at the least to keep output.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use super::{FloorFigures, shell};
use crate::server::Usage;

const BLOCK_BYTES: usize = 64 << 10;

/// Drains a command into this file, in a process of its own.
pub(crate) fn run(command: &str, file: &Path) -> FloorFigures {
    FloorFigures::by(&["drain", command, &file.to_string_lossy()])
}

pub(crate) fn play(command: &str, file: &Path) -> io::Result<()> {
    let start = Instant::now();
    let mut child = shell(command).stdout(Stdio::piped()).spawn()?;
    let mut pipe = child.stdout.take().expect("it was piped");
    let mut file = File::create(file)?;
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        let count = pipe.read(&mut block)?;
        if count == 0 {
            break;
        }
        file.write_all(&block[..count])?;
    }
    child.wait()?;
    let seconds = start.elapsed().as_secs_f64();
    let usage = Usage::own();
    let [cpu_ms, own_cpu_ms] = [usage.cpu_with_children_ms(), usage.cpu_ms()];
    FloorFigures { seconds, cpu_ms, own_cpu_ms }.tell()
}
