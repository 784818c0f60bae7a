//! Data plane of the tunnel.
//!
//! Reading order: `packet`, `replay`, `aead`, `counters`, `outcome`, `session`, `path`, then the forwarder around them:
//! `shared`, `forward`, `sealing`, `opening`, `plane`; for many peers `hub`, `hub_lanes`. Only `raw` may hold `unsafe`. The Python module `pq_core` is made
//! with the feature `python`.

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
mod python;
pub mod raw;
pub mod replay;
mod sealing;
pub mod session;
mod shared;
pub mod tcp;
pub mod udp;
