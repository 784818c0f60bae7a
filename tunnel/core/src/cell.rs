//! Everything that one cell's data plane works on, behind one lock that is never held during a system call.

use crate::bins::Bins;
use crate::counters::Counters;
use crate::ledger::Ledger;
use crate::session::{Role, Session};
use std::net::SocketAddrV4;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Session, counters, ledger and peer of one cell.
pub struct Cell {
    /// Keys and windows.
    pub session: Session,
    /// Counts since the cell was prepared.
    pub counters: Counters,
    /// Rows, where the cell keeps a ledger.
    pub ledger: Option<Ledger>,
    /// 20 ms bins.
    pub bins: Bins,
    /// Where sealed datagrams go.
    pub peer: Option<SocketAddrV4>,
    /// Epoch whose first authenticated packet named the peer.
    pub peer_epoch: Option<u32>,
}

/// A cell that data threads and control share; it outlives its session, to be read.
pub type SharedCell = Arc<Mutex<Cell>>;

impl Cell {
    /// A fresh cell without keys.
    #[must_use]
    pub fn shared(role: Role, ledger: bool) -> SharedCell {
        Arc::new(Mutex::new(Self {
            session: Session::new(role),
            counters: Counters::default(),
            ledger: ledger.then(Ledger::default),
            bins: Bins::default(),
            peer: None,
            peer_epoch: None,
        }))
    }
}

/// Lock, whatever became of an earlier holder: the counters of a cell stay readable.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
