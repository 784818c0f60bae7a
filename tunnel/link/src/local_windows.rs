//! `local` where the file system has no sockets that `std` knows: a port of loopback, chosen by the system. The file holds
//! the port and 32 random bytes, and whoever asks must send these first: who may read the file may ask, as its access
//! list says. A stranger of the same machine gets nothing, and is waited for a moment at most.

use ring::rand::{SecureRandom as _, SystemRandom};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq as _;

/// Of either side.
pub type Stream = TcpStream;

const SECRET_BYTES: usize = 32;
const SECRET_LIMIT: Duration = Duration::from_millis(200);

/// Waits for those who ask; never blocks longer than a stranger may be silent.
pub struct Listener {
    listener: TcpListener,
    secret: [u8; SECRET_BYTES],
}

impl Listener {
    /// Bind, and write the file; what a killed end left behind is replaced.
    ///
    /// # Errors
    /// What the system said.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let mut secret = [0; SECRET_BYTES];
        let filled = SystemRandom::new().fill(&mut secret);
        filled.map_err(|_| io::Error::other("the system gives no randomness"))?;
        let port = listener.local_addr()?.port();
        fs::write(path, format!("{port} {}\n", crate::hex::shown(&secret)))?;
        Ok(Self { listener, secret })
    }

    /// The next who asks and has read the file.
    ///
    /// # Errors
    /// `WouldBlock`: nobody does. Else: it was a stranger, and the next may be none; the caller has its own work to do
    /// before it asks again.
    pub fn accept(&self) -> io::Result<Stream> {
        let (stream, _) = self.listener.accept()?;
        if self.knows(&stream)? {
            return Ok(stream);
        }
        Err(io::Error::from(io::ErrorKind::PermissionDenied))
    }

    /// The limit is for all of the secret: byte by byte a stranger would hold this end for long.
    fn knows(&self, mut stream: &TcpStream) -> io::Result<bool> {
        stream.set_nonblocking(false)?;
        let mut told = [0_u8; SECRET_BYTES];
        let mut filled = 0;
        let end = Instant::now() + SECRET_LIMIT;
        while filled < SECRET_BYTES {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            stream.set_read_timeout(Some(left))?;
            match stream.read(&mut told[filled..])? {
                0 => return Ok(false),
                count => filled += count,
            }
        }
        Ok(told.ct_eq(&self.secret).into())
    }
}

/// Ask there.
///
/// # Errors
/// Nobody answers, the file is not one of these, or this user may not read it.
pub fn connect(path: &Path) -> io::Result<Stream> {
    let text = fs::read_to_string(path)?;
    let parts = text.trim().split_once(' ');
    let read =
        parts.and_then(|(port, secret)| Some((port.parse().ok()?, crate::hex::read(secret)?)));
    let (port, secret): (u16, _) =
        read.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no status file of pqlink"))?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.write_all(&secret)?;
    Ok(stream)
}
