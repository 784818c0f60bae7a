//! One holder at a time of a file, until it is closed or its process has ended.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// Take it, or fail at once with `WouldBlock` where another process has it.
///
/// # Errors
/// As said, or the file system knows no locks.
pub fn take(file: &File) -> io::Result<()> {
    // SAFETY: a system call on a descriptor that `file` keeps open meanwhile; no memory is passed.
    let outcome = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time() {
        let path = std::env::temp_dir().join(format!("pqlink-lock-{}", std::process::id()));
        let (one, other) = (
            File::create(&path).expect("made"),
            File::create(&path).expect("made"),
        );
        take(&one).expect("free");
        let refused = take(&other).map_err(|error| error.kind());
        assert_eq!(refused, Err(io::ErrorKind::WouldBlock));
        drop(one);
        take(&other).expect("free again");
        std::fs::remove_file(&path).expect("removed");
    }
}
