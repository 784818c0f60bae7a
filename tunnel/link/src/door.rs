//! Who knocks at a ground station: one thread for all connections whose right Hello has not come. Each gets a Challenge
//! that nothing here need remember, and may wait in a room of bounded size; for a stranger the station spends three MACs
//! and no thread. Who must give way is sent a Retry, and comes back with an EarlyHello, which is judged as soon as it is
//! there. A connection whose Hello is right is handed on, to wait for its turn.

use crate::cookie::Cookies;
use crate::error::{HandshakeError, Reason};
use crate::first::{Answered, FirstFrame, Judge};
use crate::identity::DroneId;
use crate::limits::{Room, MAX_WAITING};
use crate::machine::BASE_DEADLINE;
use crate::place::source_of;
use crate::station::Station;
use crate::stream::Passed;
use crate::turns::Purpose;
use crate::wire::{Challenge, Hello, ALERT, NONCE_BYTES, PURPOSE_REKEY, RETRY};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use pq_core::udp::canonical;
use std::cell::Cell;
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LISTENER: Token = Token(0);
/// Connections taken in one turn, fewer than the room holds: what came with a connection is read before it gives way.
const ACCEPTED_A_TURN: usize = MAX_WAITING / 2;
/// A whole fleet may dial at once after an outage; beyond this many it dials in turns.
pub const MAX_OF_A_FLEET: usize = 1024;
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Out of descriptors, or a connection that died in the queue: not a spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(5);

/// A connection whose right Hello has not come.
struct Visitor {
    socket: TcpStream,
    source: SocketAddr,
    started: Instant,
    challenged: Instant,
    nonce: [u8; NONCE_BYTES],
    heard: FirstFrame,
}

/// A connection whose Hello is right.
pub struct Guest {
    /// Unique at this station.
    pub number: u64,
    /// Does not block yet.
    pub socket: Arc<std::net::TcpStream>,
    /// Canonical.
    pub source: SocketAddr,
    /// When it was accepted.
    pub started: Instant,
    /// Whose Hello it is.
    pub id: DroneId,
    /// What that wants.
    pub purpose: Purpose,
    /// Of the Challenge that the Hello answers.
    pub nonce: [u8; NONCE_BYTES],
    /// What passed so far.
    pub passed: Passed,
}

/// What a knock leads to.
pub trait House {
    /// Its keys, clock and counters.
    fn station(&self) -> &Station;
    /// Is there a place for the handshake of a drone whose Hello is right?
    ///
    /// # Errors
    /// There is none for it.
    fn admit(&self, hello: &Hello) -> Result<(), HandshakeError>;
    /// Go on with it.
    fn receive(&self, guest: Guest);
}

/// The memory of the one thread that keeps it.
pub struct Door<H: House> {
    house: H,
    poll: Poll,
    listener: TcpListener,
    cookies: Cookies,
    room: Room,
    visitors: HashMap<u64, Visitor>,
    next_number: u64,
    looked: Instant,
    events: Events,
    /// More may knock than were taken in.
    knocks: bool,
}

fn lost(detail: impl Into<String>) -> HandshakeError {
    HandshakeError::new(Reason::ConnectionLost, detail)
}

impl<H: House> Door<H> {
    /// Of a listener that is bound.
    ///
    /// # Errors
    /// What the system said.
    pub fn new(house: H, listener: std::net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let mut listener = TcpListener::from_std(listener);
        let poll = Poll::new()?;
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        let cookies = Cookies::new(house.station().hub.now_ns());
        let cookies = cookies.map_err(|error| io::Error::other(error.detail))?;
        Ok(Self {
            house,
            poll,
            listener,
            cookies,
            room: Room::default(),
            visitors: HashMap::new(),
            next_number: LISTENER.0 as u64 + 1,
            looked: Instant::now(),
            events: Events::with_capacity(2 * MAX_WAITING),
            knocks: false,
        })
    }

    /// Wait until somebody knocks or speaks, and see to all who do.
    ///
    /// # Errors
    /// The system has no poll any more.
    pub fn turn(&mut self) -> io::Result<()> {
        let limit = match (self.knocks, self.visitors.is_empty()) {
            (true, _) => Some(Duration::ZERO),
            (false, false) => Some(LOOK_EVERY),
            (false, true) => None,
        };
        match self.poll.poll(&mut self.events, limit) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        // First those who are here: a knock may make the oldest of them give way.
        let tokens: Vec<Token> = self.events.iter().map(mio::event::Event::token).collect();
        for token in tokens {
            match token {
                LISTENER => self.knocks = true,
                Token(number) => self.hear(number as u64),
            }
        }
        if self.knocks {
            self.knocks = self.accept();
        }
        self.send_away_the_late();
        Ok(())
    }

    /// Take in some of those who knock; true where more may.
    fn accept(&mut self) -> bool {
        let drones = self.house.station().drones();
        self.room
            .set_size((MAX_WAITING + drones).min(MAX_OF_A_FLEET));
        for _ in 0..ACCEPTED_A_TURN {
            match self.listener.accept() {
                Ok((socket, source)) => self.greet(socket, canonical(source)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    if let Some(victim) = self.room.gives_way() {
                        self.send_away(victim);
                    }
                    std::thread::sleep(ACCEPT_PAUSE);
                    return true;
                }
            }
        }
        true
    }

    /// Give it a Challenge and let it wait.
    fn greet(&mut self, mut socket: TcpStream, source: SocketAddr) {
        let started = Instant::now();
        let number = self.next_number;
        self.next_number += 1;
        let station = self.house.station();
        station.counts.add("hs_started");
        let group = source_of(source.ip());
        let greeted = self
            .cookies
            .nonce(group, station.hub.now_ns())
            .and_then(|nonce| {
                // Without it a small frame may wait for an acknowledgement: slower, not wrong.
                let _ = socket.set_nodelay(true);
                let gcs_id = station.identity.public.key_id;
                let frame = Challenge { nonce, gcs_id }.encode();
                match socket.write(&frame) {
                    Ok(count) if count == frame.len() => {}
                    Ok(_) => return Err(lost("it took no whole Challenge")),
                    Err(error) => return Err(lost(format!("it took no Challenge: {error}"))),
                }
                let token = Token(number as usize);
                let registry = self.poll.registry();
                let watched = registry.register(&mut socket, token, Interest::READABLE);
                watched.map_err(|error| lost(format!("it cannot be watched: {error}")))?;
                Ok(nonce)
            });
        match greeted {
            Ok(nonce) => {
                let visitor = Visitor {
                    socket,
                    source,
                    started,
                    challenged: Instant::now(),
                    nonce,
                    heard: FirstFrame::default(),
                };
                self.visitors.insert(number, visitor);
                if let Some(victim) = self.room.enter(number, group) {
                    self.send_away(victim);
                }
            }
            Err(error) => station.refused(&source.to_string(), None, &error),
        }
    }

    /// It gives way: it may come back with its Hello first.
    fn send_away(&mut self, number: u64) {
        self.room.leave(number);
        if let Some(mut visitor) = self.visitors.remove(&number) {
            let detail = "no right Hello when its place was needed";
            let error = HandshakeError::new(Reason::Evicted, detail);
            let source = visitor.source.to_string();
            self.house.station().refused(&source, None, &error);
            if part(&mut visitor.socket, &RETRY) {
                let _ = visitor.socket.shutdown(Shutdown::Write);
            }
        }
    }

    fn send_away_the_late(&mut self) {
        if self.looked.elapsed() < LOOK_EVERY {
            return;
        }
        self.looked = Instant::now();
        let late = self.visitors.iter().filter(|(_, visitor)| {
            // A Hello that is late by the look's interval is one that is too late.
            visitor.started.elapsed() >= BASE_DEADLINE
        });
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        for number in late {
            let limit = BASE_DEADLINE.as_secs();
            let detail = format!("no Hello within {limit} s");
            self.refuse(number, None, &HandshakeError::new(Reason::TimedOut, detail));
        }
    }

    fn refuse(&mut self, number: u64, claimed: Option<&DroneId>, error: &HandshakeError) {
        self.room.leave(number);
        if let Some(mut visitor) = self.visitors.remove(&number) {
            let source = visitor.source.to_string();
            self.house.station().refused(&source, claimed, error);
            if error.sends_alert() && part(&mut visitor.socket, &ALERT) {
                let _ = visitor.socket.shutdown(Shutdown::Write);
            }
        }
    }

    /// Something came: once a whole Hello is there, judge it.
    fn hear(&mut self, number: u64) {
        let Some(visitor) = self.visitors.get_mut(&number) else {
            return; // it gave way in this very turn
        };
        match visitor.heard.read(&mut visitor.socket) {
            Ok(false) => {}
            Ok(true) => self.judge(number),
            Err(error) => self.refuse(number, None, &error),
        }
    }

    fn judge(&mut self, number: u64) {
        let claimed = Cell::new(None);
        match self.judged(number, &claimed) {
            Ok(()) => {}
            Err(error) => self.refuse(number, claimed.get().as_ref(), &error),
        }
    }

    /// Its MAC fits, and there is a place for it: hand it on.
    fn judged(
        &mut self,
        number: u64,
        claimed: &Cell<Option<DroneId>>,
    ) -> Result<(), HandshakeError> {
        let Some(visitor) = self.visitors.get(&number) else {
            return Ok(());
        };
        let station = self.house.station();
        let note_claim = |id: &DroneId| claimed.set(Some(*id));
        let psks = station.psks();
        let judge = Judge {
            cookies: &mut self.cookies,
            psks: &psks,
            gcs_id: station.identity.public.key_id,
            source: source_of(visitor.source.ip()),
            now_ns: station.hub.now_ns(),
        };
        let Answered {
            hello,
            nonce,
            is_early,
        } = visitor.heard.judge(judge, &visitor.nonce, &note_claim)?;
        self.house.admit(&hello)?;
        self.room.leave(number);
        let Some(mut visitor) = self.visitors.remove(&number) else {
            return Ok(());
        };
        if is_early {
            self.cookies.spend(&nonce);
            station.counts.add("hs_early");
        }
        // An error says that it was not watched, and that is what is wanted.
        let _ = self.poll.registry().deregister(&mut visitor.socket);
        let socket = Arc::new(std::net::TcpStream::from(visitor.socket));
        let rtt = (!is_early).then(|| visitor.challenged.elapsed());
        let guest = Guest {
            number,
            source: visitor.source,
            started: visitor.started,
            id: hello.drone_id,
            purpose: match hello.purpose {
                PURPOSE_REKEY => Purpose::Rekey,
                _ => Purpose::Join,
            },
            nonce,
            socket,
            passed: Passed {
                is_challenged: true,
                heard: visitor.heard.into_bytes(),
                rtt,
            },
        };
        self.house.receive(guest);
        Ok(())
    }
}

/// A last word; true where it was taken. What has come is read first: closing with bytes unread would take the word with
/// it. The socket does not block.
pub fn part(socket: &mut (impl io::Read + io::Write), word: &[u8]) -> bool {
    let mut unread = [0; 4096];
    for _ in 0..16 {
        match socket.read(&mut unread) {
            Ok(count) if count > 0 => {}
            _ => break,
        }
    }
    // Who has gone needs no word.
    socket.write(word).is_ok()
}
