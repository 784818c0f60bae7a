//! The handshake of docs/PROTOCOL.md as two sans-IO state machines, and the shell of `pqlink` around them.
//!
//! Reading order: `secret`, `registry`, `suite`, `error`, `wire`, `schedule`, `transcript`, `identity`, `primitives`,
//! `established`, `trace`, `machine`, `drone`, `gcs` (no socket, no clock, no randomness of their own but the primitives'); then
//! the shell: `config`, `place`, `keys`, `private`, `fleet`, `limits`, `turns`, `cookie`, `first`, `retry`, `pilot`, `stream`, `book`, `link`, `dialling`,
//! `station`, `door`, `accepting`, `reception`, `local`, `report`, `status`, `peer_command`, `mavlink`, `serial`, `ending`. Packets are
//! `pq_core`'s. Only `raw` may hold `unsafe`. `pqspec.handshake` is the executable specification; the tests hold both
//! against each other.

pub mod accepting;
pub mod book;
pub mod config;
pub mod cookie;
pub mod dialling;
pub mod door;
pub mod drone;
pub mod ending;
pub mod error;
pub mod established;
pub mod first;
pub mod fleet;
pub mod gcs;
pub mod hex;
pub mod hqc;
pub mod identity;
pub mod keys;
pub mod limits;
pub mod link;
pub mod local;
#[cfg(windows)]
mod local_windows;
pub mod machine;
pub mod mavlink;
pub mod peer_command;
pub mod pilot;
pub mod place;
pub mod primitives;
pub mod private;
pub mod raw;
pub mod reception;
pub mod registry;
pub mod report;
pub mod retry;
pub mod schedule;
pub mod secret;
#[cfg(unix)]
pub mod serial;
pub mod station;
pub mod status;
pub mod stream;
pub mod suite;
pub mod trace;
pub mod transcript;
pub mod turns;
pub mod wire;
pub mod workers;
