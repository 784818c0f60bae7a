//! Plaintext of a serial port: MAVLink frames that the port brings go to the data plane, one a datagram; what comes out of
//! the tunnel goes to the port. Between this and the data plane stand two UDP ports of loopback.
//!
//! A port that goes away (a plug that was pulled) is opened again each second; until then what would go there is dropped.

use crate::config::Config;
use crate::link::{log, Link};
use crate::mavlink::Cutter;
use crate::raw::{signals, tty};
use pq_core::cell::locked;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const AGAIN: Duration = Duration::from_secs(1);
const CHUNK_BYTES: usize = 4096;
const DATAGRAM_BYTES: usize = 65_536;

/// A port and its speed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SerialPort {
    /// Its device.
    pub path: PathBuf,
    /// Baud.
    pub baud: u64,
}

impl SerialPort {
    /// Of `PATH:BAUD`.
    ///
    /// # Errors
    /// Text: what is wrong.
    pub fn read(text: &str) -> Result<Self, String> {
        let found = text.rsplit_once(':');
        let found = found.and_then(|(path, baud)| Some((path, baud.parse::<u64>().ok()?)));
        let (path, baud) = found
            .filter(|(path, _)| !path.is_empty())
            .ok_or("a serial port is serial:DEVICE:BAUD, such as serial:/dev/ttyAMA0:921600")?;
        if !tty::SPEEDS.iter().any(|(known, _)| *known == baud) {
            let known: Vec<String> = tty::SPEEDS
                .iter()
                .map(|(known, _)| known.to_string())
                .collect();
            return Err(format!(
                "no speed of {baud} baud; there are {}",
                known.join(", ")
            ));
        }
        Ok(Self {
            path: path.into(),
            baud,
        })
    }

    fn open(&self) -> io::Result<File> {
        tty::open(&self.path, self.baud)
    }
}

/// A port that is open, and its side of loopback.
pub struct Bridge {
    port: SerialPort,
    file: Arc<File>,
    socket: UdpSocket,
}

impl Bridge {
    /// Open the port of this configuration, where it names one, and put this bridge where the application would be.
    ///
    /// # Errors
    /// Text: it cannot be opened.
    pub fn of(config: &mut Config) -> Result<Option<Self>, String> {
        let Some(port) = config.serial.clone() else {
            return Ok(None);
        };
        let shown = port.path.display();
        let file = port.open().map_err(|error| {
            format!("plaintext = \"serial:{shown}\": {error}; name a port that this user may open (group dialout)")
        })?;
        let bound = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let socket = bound.map_err(|error| format!("no port of loopback: {error}"))?;
        config.application = socket.local_addr().map_err(|error| error.to_string())?;
        Ok(Some(Self {
            port,
            file: Arc::new(file),
            socket,
        }))
    }

    /// Carry both directions until a stop is asked for.
    ///
    /// # Errors
    /// Text: the system has no thread to give.
    pub fn start(self, link: &Arc<Link>) -> Result<(), String> {
        let plane = link.plane.plaintext_address();
        let current = Arc::new(Mutex::new(Some(self.file)));
        let copied = self.socket.try_clone();
        let from_plane = copied.map_err(|error| format!("no copy of a socket: {error}"))?;
        let (port, socket) = (self.port, self.socket);
        let (own_link, own) = (Arc::clone(link), Arc::clone(&current));
        spawn("serial-in", move || {
            inward(&port, &own, &socket, plane, &own_link);
        })?;
        let link = Arc::clone(link);
        spawn("serial-out", move || {
            outward(&current, &from_plane, plane, &link);
        })
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let spawned = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work);
    spawned
        .map(drop)
        .map_err(|error| format!("no thread for the serial port: {error}"))
}

/// The port that is open now, if any.
type Current = Mutex<Option<Arc<File>>>;

fn inward(
    port: &SerialPort,
    current: &Current,
    socket: &UdpSocket,
    plane: SocketAddr,
    link: &Link,
) {
    let (mut cutter, mut room) = (Cutter::default(), [0; CHUNK_BYTES]);
    while !signals::stopping() {
        let Some(file) = locked(current).clone() else {
            std::thread::sleep(AGAIN);
            if let Ok(file) = port.open() {
                log(&format!("{} is back", port.path.display()));
                *locked(current) = Some(Arc::new(file));
            }
            continue;
        };
        let dropped_before = cutter.dropped_bytes;
        match (&*file).read(&mut room) {
            // Silence; so reads a port that was pulled, too, but that one fails in between or when its device is gone.
            Ok(0) if port.path.exists() => cutter.silence(),
            Ok(0) => lost(port, current, &io::Error::from(io::ErrorKind::NotFound)),
            Ok(count) => cutter.feed(&room[..count], |frame| {
                link.count("serial_frames_in");
                if socket.send_to(frame, plane).is_err() {
                    link.count("serial_frames_lost");
                }
            }),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => lost(port, current, &error),
        }
        if cutter.dropped_bytes > dropped_before {
            link.count("serial_noise");
        }
    }
}

fn lost(port: &SerialPort, current: &Current, error: &io::Error) {
    log(&format!(
        "{}: {error}; opened again when it is back",
        port.path.display()
    ));
    *locked(current) = None;
}

fn outward(current: &Current, socket: &UdpSocket, plane: SocketAddr, link: &Link) {
    let mut room = vec![0; DATAGRAM_BYTES];
    while !signals::stopping() {
        match socket.recv_from(&mut room) {
            Ok((0, _)) => {} // where this end is: the bridge knows
            Ok((count, source)) if source == plane => {
                let file = locked(current).clone();
                let written = file.map(|file| (&*file).write_all(&room[..count]));
                // An error shows at the other thread's next read, which opens the port again.
                link.count(match written {
                    Some(Ok(())) => "serial_datagrams_out",
                    _ => "serial_datagrams_lost",
                });
            }
            Ok(_) => {} // a stranger of this machine
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}
