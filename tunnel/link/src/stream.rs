//! One TCP connection of a handshake: framed reads under the machine's deadline, one write a message.
//!
//! Bytes and time limits; what the bytes mean, and how long each body is, the machine says.

use crate::error::{HandshakeError, Reason};
use crate::established::Established;
use crate::machine::{Machine, Side};
use crate::wire::{ALERT, HEADER_BYTES};
use std::io::{self, BufRead as _, BufReader, Cursor, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

const CHUNK_BYTES: usize = 65_536;
/// How long a refused peer may take to read why.
const FAREWELL: Duration = Duration::from_millis(200);

fn lost(detail: impl Into<String>) -> HandshakeError {
    HandshakeError::new(Reason::ConnectionLost, detail)
}

fn broke(error: &io::Error) -> HandshakeError {
    lost(format!("the connection to the peer broke: {error}"))
}

/// A connection with what was read of it before in front.
type Bytes<'a> = io::Chain<Cursor<Vec<u8>>, &'a TcpStream>;

struct FrameStream<'a> {
    socket: &'a TcpStream,
    reader: BufReader<Bytes<'a>>,
    started: Instant,
}

/// What has passed over a connection before `converse` gets it.
#[derive(Default)]
pub struct Passed {
    /// The GCS's Challenge was sent already.
    pub is_challenged: bool,
    /// Bytes of the peer that were read.
    pub heard: Vec<u8>,
    /// The round trip, where it is known.
    pub rtt: Option<Duration>,
}

impl FrameStream<'_> {
    /// Time left; refuses when there is none.
    fn left<S: Side>(&self, machine: &mut Machine<S>) -> Result<Duration, HandshakeError> {
        let lasted = self.started.elapsed();
        machine.on_time(lasted)?;
        Ok((machine.deadline().saturating_sub(lasted)).max(Duration::from_micros(1)))
    }

    fn read<S: Side>(
        &mut self,
        machine: &mut Machine<S>,
        into: &mut [u8],
    ) -> Result<(), HandshakeError> {
        let mut filled = 0;
        while filled < into.len() {
            if self.reader.buffer().is_empty() {
                let left = self.left(machine)?;
                let limited = self.socket.set_read_timeout(Some(left));
                limited.map_err(|error| broke(&error))?;
                match self.reader.fill_buf() {
                    Ok([]) => return Err(lost("the peer closed the connection in the middle")),
                    Ok(_) => {}
                    Err(error) if is_timeout(&error) => continue, // the machine judges it
                    Err(error) => return Err(broke(&error)),
                }
            }
            let got = self.reader.read(&mut into[filled..]);
            filled += got.map_err(|error| broke(&error))?;
        }
        Ok(())
    }

    fn write<S: Side>(
        &mut self,
        machine: &mut Machine<S>,
        frame: &[u8],
    ) -> Result<(), HandshakeError> {
        let left = self.left(machine)?;
        let limited = self.socket.set_write_timeout(Some(left));
        limited.map_err(|error| broke(&error))?;
        match self.socket.write_all(frame) {
            Err(error) if is_timeout(&error) => {
                machine.on_time(self.started.elapsed())?;
                Err(broke(&error))
            }
            other => other.map_err(|error| broke(&error)),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// Drive `machine` over `socket` until it is done; `started`: accept, or the beginning of connect. `install` gets the
/// keys before the answer that completes the handshake is sent, and where it refuses nothing is sent; with them the time
/// from the first send to the first answer, which is a round trip at the GCS, unless `passed` knows it.
///
/// # Errors
/// Every kind; the machine has ended then, and the peer was told what it may be told.
pub fn converse<S: Side>(
    socket: &TcpStream,
    started: Instant,
    passed: Passed,
    machine: &mut Machine<S>,
    install: impl FnOnce(Established, Duration) -> Result<(), HandshakeError>,
) -> Result<(), HandshakeError> {
    converse_watched(socket, started, passed, machine, install, &mut ())
}

/// Who follows a conversation.
pub trait Watch {
    /// Before each message that goes out.
    fn sending(&mut self) {}
    /// Before each step of the machine, which may compute. It may wait here for its turn.
    ///
    /// # Errors
    /// The handshake is to end before it computes anything more.
    fn working(&mut self) -> Result<(), HandshakeError> {
        Ok(())
    }
    /// After each step.
    fn worked(&mut self) {}
}

/// Nobody.
impl Watch for () {}

/// `converse`, for whoever follows it.
///
/// # Errors
/// As `converse`.
pub fn converse_watched<S: Side>(
    socket: &TcpStream,
    started: Instant,
    passed: Passed,
    machine: &mut Machine<S>,
    install: impl FnOnce(Established, Duration) -> Result<(), HandshakeError>,
    watch: &mut impl Watch,
) -> Result<(), HandshakeError> {
    let outcome = conversation(socket, started, passed, machine, install, watch);
    if let Err(error) = &outcome {
        machine.end(error.reason);
        if error.sends_alert() {
            farewell(
                socket,
                if error.answer.is_empty() {
                    &ALERT
                } else {
                    &error.answer
                },
            );
        }
    }
    outcome
}

fn conversation<S: Side>(
    socket: &TcpStream,
    started: Instant,
    passed: Passed,
    machine: &mut Machine<S>,
    install: impl FnOnce(Established, Duration) -> Result<(), HandshakeError>,
    watch: &mut impl Watch,
) -> Result<(), HandshakeError> {
    // What was read before has no round trip in it.
    let mut unheard = !passed.heard.is_empty();
    let bytes = Cursor::new(passed.heard).chain(socket);
    let mut stream = FrameStream {
        socket,
        reader: BufReader::with_capacity(CHUNK_BYTES, bytes),
        started,
    };
    let mut install = Some(install);
    let mut rtt = passed.rtt;
    let first = machine.start()?;
    if !first.is_empty() && !passed.is_challenged {
        watch.sending();
        machine.mark_sending();
        stream.write(machine, &first)?;
    }
    let mut sent = Instant::now();
    let mut body = Vec::new();
    while !machine.is_done() {
        let mut header = [0; HEADER_BYTES];
        machine.mark_waiting();
        stream.read(machine, &mut header)?;
        if !std::mem::take(&mut unheard) {
            rtt.get_or_insert_with(|| sent.elapsed());
        }
        let length = machine.on_header(header)?;
        body.clear();
        body.resize(length, 0);
        stream.read(machine, &mut body)?;
        watch.working()?;
        let is_in_time = stream.left(machine); // it may have waited
        let answer = is_in_time.and_then(|_| machine.on_body(&body));
        watch.worked();
        let answer = answer?;
        if let Some(established) = machine.take_established() {
            if let Some(install) = install.take() {
                install(established, rtt.unwrap_or_default())?;
            }
        }
        if !answer.is_empty() {
            watch.sending();
            machine.mark_sending();
            stream.write(machine, &answer)?;
            sent = Instant::now();
        }
    }
    Ok(())
}

/// Tell the peer, then let it read: closing at once with bytes unread would take the alert with it.
fn farewell(mut socket: &TcpStream, frame: &[u8]) {
    let _ = socket.set_write_timeout(Some(FAREWELL));
    let _ = socket.set_read_timeout(Some(FAREWELL));
    if socket.write_all(frame).is_ok() && socket.shutdown(Shutdown::Write).is_ok() {
        let _ = socket.read(&mut [0; HEADER_BYTES]);
    }
}
