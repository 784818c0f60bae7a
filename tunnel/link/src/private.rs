//! Files that their owner alone may read: made so, and refused where they are not.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// How others may read a secret file, and the command that ends it; `None`: they may not.
#[cfg(unix)]
#[must_use]
pub fn looseness(path: &Path, facts: &Metadata) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    const OTHERS: u32 = 0o077;
    let mode = facts.mode() & 0o7777;
    let path = path.display();
    (mode & OTHERS != 0)
        .then(|| format!("mode {mode:04o} lets others read a secret; run: chmod 600 {path}"))
}

/// Windows' access lists are not judged here (LIMITATIONS.md): a file has those of its folder.
#[cfg(windows)]
#[must_use]
pub fn looseness(_path: &Path, _facts: &Metadata) -> Option<String> {
    None
}

/// A new file with this mode; where there are no modes, with the access list of its folder.
///
/// # Errors
/// It is there already, or what else the system said.
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(windows)]
    let _ = mode;
    options.open(path)
}
