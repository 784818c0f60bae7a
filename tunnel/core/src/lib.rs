//! Data plane of the tunnel.
//!
//! Reading order: `packet`, `replay`, `aead`, `counters`, `outcome`, `session`, `path`, then the forwarder around them:
//! `shared`, `forward`, `sealing`, `opening`, `plane`; for many peers `hub`, `hub_lanes`. Only `raw` may hold `unsafe`. With the feature `python`
//! it has the classes of the Python module `pq_core`, which `tunnel/native` makes of them and of the handshake's.

pub mod aead;
pub mod bins;
pub mod cell;
pub mod counters;
mod event;
mod forward;
pub mod hub;
mod hub_lanes;
pub mod ledger;
mod opening;
pub mod outcome;
mod outgoing;
pub mod packet;
pub mod path;
pub mod plane;
#[cfg(feature = "python")]
pub mod python;
pub mod raw;
pub mod replay;
pub mod scrub;
mod sealing;
pub mod session;
mod shared;
pub mod tcp;
pub mod udp;
