//! How programs of one user on one machine speak with a running end: a socket in the file system that its owner alone may
//! open. On Windows, a port of loopback whose number and secret stand in that file (`local_windows.rs`).

#[cfg(windows)]
pub use crate::local_windows::{connect, Listener, Stream};
#[cfg(unix)]
pub use unix::{connect, Listener, Stream};

#[cfg(unix)]
mod unix {
    use std::fs;
    use std::io;
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;

    /// Of either side.
    pub type Stream = UnixStream;

    /// Waits for those who ask; never blocks.
    pub struct Listener(UnixListener);

    impl Listener {
        /// Bind; what a killed end left behind is replaced.
        ///
        /// # Errors
        /// What the system said.
        pub fn bind(path: &Path) -> io::Result<Self> {
            if fs::symlink_metadata(path).is_ok_and(|facts| facts.file_type().is_socket()) {
                fs::remove_file(path)?;
            }
            let listener = UnixListener::bind(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            Ok(Self(listener))
        }

        /// The next who asks.
        ///
        /// # Errors
        /// `WouldBlock`: nobody does.
        pub fn accept(&self) -> io::Result<Stream> {
            let (stream, _) = self.0.accept()?;
            stream.set_nonblocking(false)?;
            Ok(stream)
        }
    }

    /// Ask there.
    ///
    /// # Errors
    /// Nobody answers, or this user may not ask.
    pub fn connect(path: &Path) -> io::Result<Stream> {
        UnixStream::connect(path)
    }
}
