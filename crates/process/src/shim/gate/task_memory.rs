//! The memory of a task that waits in `execve`.
#![expect(unsafe_code, reason = "process_vm_readv has no safe wrapper")]

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use rustix::io::Errno;
use rustix::process::Pid;

use crate::syscalls::last_error;

/// The unit of reading. Pages are at least as large, so either all of it can be read or nothing.
const BLOCK_BYTES: u64 = 4096;
/// The most blocks of one call: the kernel takes at most 6 MiB of arguments and variables.
const MOST_BLOCKS: usize = (8 << 20) / BLOCK_BYTES as usize;
/// The most bytes of all arguments, or of all variables, with their pointers.
const MOST_ARRAY_BYTES: usize = 6 << 20;
/// The longest argument or variable that the kernel takes.
const MOST_STRING_BYTES: usize = 128 << 10;

/// The memory of a task, as far as it was read. Each block is read once, so that all strings of a call
/// are those of one moment, and cost few system calls.
#[derive(Debug)]
pub(super) struct TaskMemory {
    task: Pid,
    blocks: HashMap<u64, Vec<u8>>,
    /// Opened where the system call for it is forbidden.
    file: Option<File>,
}

impl TaskMemory {
    pub(super) fn new(task: Pid) -> Self {
        Self { task, blocks: HashMap::new(), file: None }
    }

    /// Reads a string that ends with a NUL byte, which is not part of the result.
    ///
    /// # Errors
    /// `FAULT` as the kernel would return it, `TOOBIG` if the string or everything is too long, and those
    /// of the system if the task cannot be read.
    pub(super) fn read_string(&mut self, address: u64) -> Result<Vec<u8>, Errno> {
        let mut string = Vec::new();
        let mut place = address;
        loop {
            let rest = self.rest_of_block(place)?;
            if let Some(end) = rest.iter().position(|byte| *byte == 0) {
                string.extend_from_slice(&rest[..end]);
                return Ok(string);
            }
            string.extend_from_slice(rest);
            place = place.checked_add(rest.len() as u64).ok_or(Errno::FAULT)?;
            if string.len() > MOST_STRING_BYTES {
                return Err(Errno::TOOBIG);
            }
        }
    }

    /// Reads an array of strings that ends with a null pointer; no array is an empty one.
    ///
    /// # Errors
    /// As [`Self::read_string`].
    pub(super) fn read_strings(&mut self, address: u64) -> Result<Vec<Vec<u8>>, Errno> {
        let mut strings = Vec::new();
        let mut bytes = 0;
        if address == 0 {
            return Ok(strings);
        }
        let mut place = address;
        loop {
            match self.read_pointer(place)? {
                0 => return Ok(strings),
                string => strings.push(self.read_string(string)?),
            }
            // The same string may be named again and again.
            bytes += strings.last().map_or(0, Vec::len) + size_of::<u64>();
            if bytes > MOST_ARRAY_BYTES {
                return Err(Errno::TOOBIG);
            }
            place = place.checked_add(size_of::<u64>() as u64).ok_or(Errno::FAULT)?;
        }
    }

    fn read_pointer(&mut self, address: u64) -> Result<u64, Errno> {
        let mut bytes = [0; size_of::<u64>()];
        // It may lie across two blocks.
        for (byte, place) in bytes.iter_mut().zip(address..) {
            *byte = *self.rest_of_block(place)?.first().ok_or(Errno::FAULT)?;
        }
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Returns the bytes from this address to the end of its block; never empty.
    fn rest_of_block(&mut self, address: u64) -> Result<&[u8], Errno> {
        let number = address / BLOCK_BYTES;
        if !self.blocks.contains_key(&number) {
            if self.blocks.len() >= MOST_BLOCKS {
                return Err(Errno::TOOBIG);
            }
            let block = self.read_block(number * BLOCK_BYTES)?;
            self.blocks.insert(number, block);
        }
        let block = self.blocks.get(&number).ok_or(Errno::FAULT)?;
        let start = usize::try_from(address % BLOCK_BYTES).map_err(|_| Errno::FAULT)?;
        block.get(start..).ok_or(Errno::FAULT)
    }

    fn read_block(&mut self, start: u64) -> Result<Vec<u8>, Errno> {
        let mut block = vec![0; BLOCK_BYTES as usize];
        let read = match self.file {
            Some(_) => Err(Errno::NOSYS),
            None => read_memory(self.task, start, &mut block),
        };
        match read {
            Ok(length) if length == block.len() => Ok(block),
            Ok(_) => Err(Errno::FAULT),
            // A container can forbid the call and allow the file.
            Err(Errno::PERM | Errno::NOSYS) => self.read_from_file(start, block),
            Err(errno) => Err(errno),
        }
    }

    fn read_from_file(&mut self, start: u64, mut block: Vec<u8>) -> Result<Vec<u8>, Errno> {
        let failed = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let file = match self.file.take() {
            Some(file) => file,
            None => File::open(format!("/proc/{}/mem", self.task)).map_err(failed)?,
        };
        let read = file.read_exact_at(&mut block, start);
        self.file = Some(file);
        // The file says EIO for what the call says EFAULT.
        read.map_err(|_| Errno::FAULT).map(|()| block)
    }
}

fn read_memory(task: Pid, start: u64, block: &mut [u8]) -> Result<usize, Errno> {
    let local = libc::iovec { iov_base: block.as_mut_ptr().cast(), iov_len: block.len() };
    let address = usize::try_from(start).map_err(|_| Errno::FAULT)?;
    let remote =
        libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: block.len() };
    let task = task.as_raw_nonzero().get();
    // SAFETY: the kernel writes only into `block`, which is borrowed mutably; the other address is one of
    // another process and is checked by the kernel.
    let read =
        unsafe { libc::process_vm_readv(task, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).map_err(|_| last_error())
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use rustix::process::getpid;

    use super::*;
    use crate::syscalls::pointers;

    #[test]
    fn strings_are_read_as_the_kernel_reads_them() {
        let long = "x".repeat(70_000);
        let strings: Vec<CString> =
            ["", "a", long.as_str(), "b c"].map(|it| CString::new(it).unwrap()).into();
        let array = pointers(&strings);
        let mut memory = TaskMemory::new(getpid());
        let read = memory.read_strings(array.as_ptr() as u64).unwrap();
        let expected: Vec<_> = strings.iter().map(|it| it.as_bytes().to_vec()).collect();
        assert_eq!(read, expected);
        assert_eq!(memory.read_strings(0), Ok(Vec::new()));
        assert_eq!(memory.read_strings(8), Err(Errno::FAULT));
        assert_eq!(memory.read_string(u64::MAX - 1), Err(Errno::FAULT));
        let too_long = CString::new("x".repeat(200_000)).unwrap();
        assert_eq!(memory.read_string(too_long.as_ptr() as u64), Err(Errno::TOOBIG));
    }

    #[test]
    fn the_file_gives_the_same_as_the_call() {
        let text = CString::new("some text").unwrap();
        let mut memory = TaskMemory::new(getpid());
        // Other tests protect this process: then only root may open it.
        let Ok(file) = File::open("/proc/self/mem") else { return };
        memory.file = Some(file);
        assert_eq!(memory.read_string(text.as_ptr() as u64).unwrap(), text.as_bytes());
        assert_eq!(memory.read_string(1), Err(Errno::FAULT));
    }
}
