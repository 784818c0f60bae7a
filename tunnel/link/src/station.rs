//! A ground station at work: its drones, each with its own session, counters and plaintext address, and one tick.
//!
//! Drones come and go by `reload`, while the others go on. Whoever holds the table for reading sees keys, names and
//! sessions that belong together: no session begins for a drone that was revoked meanwhile.

use crate::book::{Book, LastHandshake};
use crate::config::Config;
use crate::error::{HandshakeError, Reason};
use crate::established::{Established, RekeyBasis, SessionId};
use crate::fleet::{self, Fleet, Member, Settings};
use crate::identity::{DroneId, GcsIdentity, PskStore};
use crate::link::log;
use crate::primitives::Primitives;
use crate::secret::scrub_stack;
use pq_core::cell::locked;
use pq_core::hub::{Address, Hub, HubPeer};
use pq_core::packet;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

const ASK_EVERY_NS: i64 = 1_000_000_000;
/// Reason "due", and the suite in use.
const REQUEST_DUE: [u8; 4] = [1, 0, 0, 0];
/// A port is free once the data thread has let go of it.
const BIND_TRIES: u32 = 20;
const BIND_PAUSE: Duration = Duration::from_millis(10);

/// Lines about refusals in one second, at most: whoever dials must not fill a disk.
const LINES_A_SECOND: u64 = 20;

/// How much was told of refusals, and how much was not.
#[derive(Default)]
struct Gossip {
    second_ns: i64,
    told: u64,
    untold: u64,
}

impl Gossip {
    /// May a line be written now; and how many were not in a second that has ended since.
    fn line_due(&mut self, now_ns: i64) -> (bool, u64) {
        const SECOND_NS: i64 = 1_000_000_000;
        let mut untold = 0;
        if now_ns - self.second_ns >= SECOND_NS {
            (self.second_ns, self.told) = (now_ns, 0);
            untold = std::mem::take(&mut self.untold);
        }
        let may = self.told < LINES_A_SECOND;
        *(if may {
            &mut self.told
        } else {
            &mut self.untold
        }) += 1;
        (may, untold)
    }
}

/// `hs_…` counters by name.
#[derive(Default)]
pub struct Counts(Mutex<BTreeMap<&'static str, u64>>);

impl Counts {
    /// One more of this name.
    pub fn add(&self, name: &'static str) {
        *locked(&self.0).entry(name).or_default() += 1;
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> BTreeMap<&'static str, u64> {
        locked(&self.0).clone()
    }
}

/// One drone that is served.
pub struct Peer {
    /// Unique at this station.
    pub name: String,
    /// Its packets.
    pub hub: Arc<HubPeer>,
    /// As its file says.
    pub settings: Settings,
    /// Of its handshakes.
    pub counts: Counts,
    /// Shown by `status`.
    pub last: Mutex<Option<LastHandshake>>,
    book: Mutex<Book>,
    asked_ns: AtomicI64,
}

impl Peer {
    /// Once the newest epoch was heard, what is rekeyed is that one.
    fn settle(&self) -> std::sync::MutexGuard<'_, Book> {
        let mut book = locked(&self.book);
        book.settle(self.hub.confirmed.is_set());
        book
    }
}

/// Whose a key id is.
#[derive(Clone)]
pub enum Claim {
    /// A drone that is served.
    Drone(Arc<Peer>),
    /// A drone that was, by its name.
    Revoked(String),
    /// Nobody's here.
    Unknown,
}

/// Who may dial now.
struct Table {
    peers: BTreeMap<String, Arc<Peer>>,
    by_id: HashMap<DroneId, Arc<Peer>>,
    revoked: BTreeMap<DroneId, String>,
    psks: Arc<PskStore>,
}

/// What a reload did.
#[derive(Default)]
pub struct Reloaded {
    /// For whoever asked.
    pub text: String,
    /// Ids that are not served any more, or as another drone: their handshakes in progress are to end.
    pub gone: HashSet<DroneId>,
}

/// All of a ground station but its TCP side.
pub struct Station {
    /// As read.
    pub config: Config,
    /// Its signing keys.
    pub identity: GcsIdentity,
    /// This host's.
    pub primitives: Box<dyn Primitives>,
    /// Its packets.
    pub hub: Hub,
    /// When the process began.
    pub started: Instant,
    /// Of all handshakes, strangers' too.
    pub counts: Counts,
    /// Dials with revoked keys.
    refused_revoked: Mutex<BTreeMap<DroneId, u64>>,
    /// What is told of strangers.
    gossip: Mutex<Gossip>,
    table: RwLock<Table>,
    random: SystemRandom,
}

impl Station {
    /// Bind the UDP sockets and load the drones; nothing passes before the first handshake.
    ///
    /// # Errors
    /// Text: what is wrong with the files, which port is taken. Where only some drones' ports are, the others are
    /// served.
    pub fn open(
        config: Config,
        identity: GcsIdentity,
        primitives: Box<dyn Primitives>,
    ) -> Result<Self, String> {
        let started = Instant::now();
        let address = config.sealed;
        let hub = Hub::open(address, started).map_err(|error| {
            format!("sealed = \"{address}\" cannot be bound: {error}; name a free port")
        })?;
        let nobody = PskStore::new(Vec::new()).map_err(|error| error.0)?;
        let station = Self {
            config,
            identity,
            primitives,
            hub,
            started,
            counts: Counts::default(),
            refused_revoked: Mutex::default(),
            gossip: Mutex::default(),
            table: RwLock::new(Table {
                peers: BTreeMap::new(),
                by_id: HashMap::new(),
                revoked: BTreeMap::new(),
                psks: Arc::new(nobody),
            }),
            random: SystemRandom::new(),
        };
        // One drone's port that is taken is no reason to serve none of the others; a fault in the files is.
        if let Err(text) = station.reload() {
            if station.peers().is_empty() {
                return Err(text);
            }
            log(&text);
        }
        Ok(station)
    }

    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Read the drones' files again: new ones are served, those that left lose session and keys, the others go on.
    ///
    /// # Errors
    /// Text: what is wrong with the files, and nothing has changed then; or a port of a new drone that is taken, and
    /// everybody else is served as the files say.
    pub fn reload(&self) -> Result<Reloaded, String> {
        let Fleet { members, revoked } = fleet::load(&self.config).map_err(|error| error.0)?;
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let (mut told, mut failures) = (Reloaded::default(), Vec::new());
        let holders = table.by_id.iter();
        let before: HashMap<DroneId, u64> =
            holders.map(|(id, peer)| (*id, peer.hub.number)).collect();
        let stays = |peer: &Peer| {
            let found = members.iter().find(|member| member.name == peer.name);
            found.is_some_and(|member| member.settings == peer.settings)
        };
        let (kept, left): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut table.peers)
            .into_iter()
            .partition(|(_, peer)| stays(peer));
        table.peers = kept;
        table.by_id.clear();
        let mut changes = Vec::new();
        for (name, peer) in left {
            self.hub.remove(&peer.hub);
            *locked(&peer.book) = Book::default();
            changes.push(format!("{name} ended"));
        }
        let mut psks = Vec::new();
        for member in members {
            let name = member.name.clone();
            let peer = match table.peers.get(&name) {
                Some(peer) => Arc::clone(peer),
                None => match self.serve(&member) {
                    Ok(peer) => {
                        changes.push(format!("{name} is served"));
                        table.peers.insert(name, Arc::clone(&peer));
                        peer
                    }
                    Err(text) => {
                        failures.push(text);
                        continue;
                    }
                },
            };
            for (key, _) in member.keys {
                table.by_id.insert(key.id, Arc::clone(&peer));
                psks.push((key.id, key.psk));
            }
        }
        table.revoked = revoked;
        table.psks = Arc::new(PskStore::new(psks).map_err(|error| error.0)?);
        told.gone = before
            .into_iter()
            .filter(|(id, number)| {
                let now = table.by_id.get(id);
                now.is_none_or(|peer| peer.hub.number != *number)
            })
            .map(|(id, _)| id)
            .collect();
        for peer in table.peers.values() {
            let mut book = peer.settle();
            if told.gone.iter().any(|id| book.holds(id)) {
                self.hub.end_session(&peer.hub);
                *book = Book::default();
                changes.push(format!("{}'s session under its old key ended", peer.name));
            }
        }
        drop(table);
        scrub_stack();
        if !failures.is_empty() {
            return Err(failures.join("\n"));
        }
        told.text = if changes.is_empty() {
            "nothing changed".to_owned()
        } else {
            changes.join(", ")
        };
        Ok(told)
    }

    fn serve(&self, member: &Member) -> Result<Arc<Peer>, String> {
        let Settings {
            plaintext,
            application,
            ..
        } = member.settings;
        let mut tries = 0;
        let hub = loop {
            tries += 1;
            match self.hub.add(plaintext, application) {
                Ok(hub) => break hub,
                Err(_) if tries < BIND_TRIES => std::thread::sleep(BIND_PAUSE),
                Err(error) => {
                    let name = &member.name;
                    return Err(format!(
                        "plaintext = \"{plaintext}\" of {name} cannot be bound: {error}; name a free port"
                    ));
                }
            }
        };
        Ok(Arc::new(Peer {
            name: member.name.clone(),
            hub,
            settings: member.settings.clone(),
            counts: Counts::default(),
            last: Mutex::default(),
            book: Mutex::default(),
            asked_ns: AtomicI64::new(0),
        }))
    }

    /// Every drone that is served, by name.
    #[must_use]
    pub fn peers(&self) -> Vec<Arc<Peer>> {
        self.table().peers.values().cloned().collect()
    }

    /// Each revoked key id, whose it was, and how often it was refused since this process began.
    #[must_use]
    pub fn revoked(&self) -> Vec<(DroneId, String, u64)> {
        let table = self.table();
        let refused = locked(&self.refused_revoked);
        let count = |id| refused.get(id).copied().unwrap_or(0);
        let ids = table.revoked.iter();
        ids.map(|(id, name)| (*id, name.clone(), count(id)))
            .collect()
    }

    /// How many are served.
    #[must_use]
    pub fn drones(&self) -> usize {
        self.table().peers.len()
    }

    /// The keys of all who may dial.
    #[must_use]
    pub fn psks(&self) -> Arc<PskStore> {
        Arc::clone(&self.table().psks)
    }

    /// Whose is this key id? For logs and counters: nothing is believed of who names it.
    #[must_use]
    pub fn claim(&self, id: &DroneId) -> Claim {
        let table = self.table();
        if let Some(peer) = table.by_id.get(id) {
            return Claim::Drone(Arc::clone(peer));
        }
        let revoked = table.revoked.get(id);
        revoked.map_or(Claim::Unknown, |name| Claim::Revoked(name.clone()))
    }

    /// Random bytes.
    ///
    /// # Errors
    /// `Failed`: the system gives none.
    pub fn random<const N: usize>(&self) -> Result<[u8; N], HandshakeError> {
        let mut fresh = [0; N];
        let filled = self.random.fill(&mut fresh);
        filled
            .map_err(|_| HandshakeError::new(Reason::Failed, "the system gives no randomness"))?;
        Ok(fresh)
    }

    /// A receiver index that no drone's packets carry; never 0.
    ///
    /// # Errors
    /// `Failed`: the system gives no randomness.
    pub fn free_index(&self) -> Result<u32, HandshakeError> {
        loop {
            let [a, b, c] = self.random()?;
            let index = u32::from_be_bytes([0, a, b, c]);
            if index != 0 && self.hub.index_is_free(index) {
                return Ok(index);
            }
        }
    }

    /// Count something that is no refusal: of everybody, and of this drone.
    pub fn counted(&self, id: &DroneId, name: &'static str) {
        self.counts.add(name);
        if let Claim::Drone(peer) = self.claim(id) {
            peer.counts.add(name);
        }
    }

    /// Count and log a refusal: of everybody, and of the drone that was named, if one was.
    pub fn refused(&self, source: &str, claimed: Option<&DroneId>, error: &HandshakeError) {
        let counter = error.reason.counter();
        self.counts.add(counter);
        let Some(id) = claimed else {
            self.tell(|| format!("{source}: {error}"));
            return;
        };
        match self.claim(id) {
            Claim::Drone(peer) => {
                peer.counts.add(counter);
                self.tell(|| format!("{source} as {}: {error}", peer.name));
            }
            Claim::Revoked(name) => {
                self.counts.add("hs_revoked");
                self.tell(|| format!("{source} with the revoked key of {name}: {error}"));
                *locked(&self.refused_revoked).entry(*id).or_default() += 1;
            }
            Claim::Unknown => {
                self.counts.add("hs_unknown_drone");
                self.tell(|| format!("{source} with an unknown key id: {error}"));
            }
        }
    }

    /// A log line about somebody who is not served, where there is room for it in this second.
    fn tell(&self, line: impl Fn() -> String) {
        let (may, untold) = locked(&self.gossip).line_due(self.hub.now_ns());
        if untold > 0 {
            log(&format!(
                "{untold} more refusals of strangers were counted and not told"
            ));
        }
        if may {
            log(&line());
        }
    }

    /// What a rekey of this session builds on.
    #[must_use]
    pub fn rekey_basis(&self, session: &SessionId) -> Option<RekeyBasis> {
        let table = self.table();
        let mut found = table.peers.values();
        found.find_map(|peer| peer.settle().basis(session))
    }

    /// Take in the keys of a completed handshake; a new session's packets go to the drone's port at `source`.
    ///
    /// # Errors
    /// `Policy`: the drone is served no more, or a newer handshake has overtaken this one (`arrival` orders them). `Failed`:
    /// the session does not take the keys. Nothing has changed then.
    pub fn install(
        &self,
        established: Established,
        arrival: u64,
        source: Address,
        rtt: Duration,
        wall: Duration,
    ) -> Result<(), HandshakeError> {
        // Held to the end: who is revoked meanwhile waits, and finds the session to end.
        let table = self.table();
        let id = DroneId::try_from(&established.peer_key_id[..]).ok();
        let peer = id.and_then(|id| table.by_id.get(&id));
        let Some(peer) = peer else {
            let detail = "this drone's key was revoked while it dialled";
            return Err(HandshakeError::new(Reason::Policy, detail));
        };
        // With its scope, without which an address of one link alone names nobody.
        let mut address = source;
        address.set_port(peer.settings.peer_port);
        let address = (!established.is_rekey()).then_some(address);
        let mut book = peer.settle();
        book.admits(&established, arrival)?;
        let taken = self
            .hub
            .install(&peer.hub, &established.epoch_keys(), address, rtt);
        taken.map_err(|error| {
            HandshakeError::new(Reason::Failed, format!("keys not installed: {error:?}"))
        })?;
        // The AEAD's key schedule was made on the stack and moved to the heap.
        scrub_stack();
        let last = LastHandshake::of(&established, wall);
        log(&format!("{}: {}", peer.name, last.line()));
        *locked(&peer.last) = Some(last);
        book.enter(established, arrival);
        peer.counts.add("hs_completed");
        self.counts.add("hs_completed");
        Ok(())
    }

    /// For each drone: forget what has ended, keep the path warm, ask for a rekey that is due, tell complaints.
    pub fn tick(&self) {
        for peer in self.peers() {
            drop(peer.settle());
            let now_ns = self.hub.now_ns();
            let (keepalive, can_send, due) = {
                let session = &mut locked(&peer.hub.cell).session;
                session.expire(now_ns);
                (
                    session.keepalive_due(now_ns),
                    session.can_send(),
                    session.rekey_due(now_ns),
                )
            };
            if keepalive {
                // Of a control type; without keys or address there is nothing to keep alive.
                let _ = self.hub.send_control(&peer.hub, packet::KEEPALIVE, &[]);
            }
            let limit = Duration::from_secs(self.config.rekey_s);
            let aged = |last: &LastHandshake| last.at.elapsed() >= limit;
            let due = due || locked(&peer.last).as_ref().is_some_and(aged);
            let asked_ns = peer.asked_ns.load(Ordering::Relaxed);
            let may = can_send && peer.hub.confirmed.is_set();
            if may && due && now_ns - asked_ns >= ASK_EVERY_NS {
                peer.asked_ns.store(now_ns, Ordering::Relaxed);
                let request = packet::REKEY_REQUEST;
                let _ = self.hub.send_control(&peer.hub, request, &REQUEST_DUE);
            }
            for note in peer.hub.take_notes() {
                log(&format!("{}: {note}", peer.name));
            }
        }
    }

    /// Forget every key.
    pub fn erase(&self) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        for peer in std::mem::take(&mut table.peers).into_values() {
            self.hub.remove(&peer.hub);
            *locked(&peer.book) = Book::default();
        }
        table.by_id.clear();
        scrub_stack();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_no_flood_of_lines() {
        let mut gossip = Gossip::default();
        let lines = (0..10_000).filter(|_| gossip.line_due(5).0).count();
        assert_eq!(lines as u64, LINES_A_SECOND);
        assert_eq!(
            gossip.line_due(1_000_000_005),
            (true, 10_000 - LINES_A_SECOND)
        );
        assert_eq!(gossip.line_due(1_000_000_006), (true, 0));
    }
}
