//! Files that their owner alone may read: made so, and refused where they are not.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

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

/// The one who changes the files of a folder; free again when this is dropped, or its process has ended.
pub struct Holder(#[allow(dead_code)] File); // held, not used

/// Be the one who changes this folder's files.
///
/// # Errors
/// `WouldBlock`: another process is. Or what else the system said.
pub fn hold(folder: &Path) -> io::Result<Holder> {
    let path = folder.join(".lock");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    #[cfg(windows)]
    std::os::windows::fs::OpenOptionsExt::share_mode(&mut options, 0);
    let file = options.open(path);
    #[cfg(windows)]
    let file = file.map_err(|error| {
        const SHARING_VIOLATION: i32 = 32;
        if error.raw_os_error() == Some(SHARING_VIOLATION) {
            io::ErrorKind::WouldBlock.into()
        } else {
            error
        }
    });
    let file = file?;
    #[cfg(unix)]
    crate::raw::lock::take(&file)?;
    Ok(Holder(file))
}

/// What a file is called until it is whole, or once it is on its way out: nobody reads one with this ending.
#[must_use]
pub fn aside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// A change of names in the folder of `path` is on the disk, where the system can say so.
///
/// # Errors
/// What the system said.
pub fn settle_names(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    #[cfg(windows)]
    let _ = path;
    Ok(())
}
