//! Runs one program as a Windows service: in a job object, started again when it ends, stopped cleanly.
//!
//! What decides (settings, pauses, states) runs on every system and is tested there; what touches Windows is in
//! [`world`], [`service`] and, with all of the crate's `unsafe`, [`raw`].

pub mod config;
pub mod journal;
pub mod pause;
pub mod supervise;

#[cfg(windows)]
mod raw;
#[cfg(windows)]
pub mod service;
#[cfg(windows)]
pub mod world;

/// Exit codes of the program: usage, and a setting or a file that is not as it has to be.
pub const EXIT_USAGE: i32 = 2;
/// See [`EXIT_USAGE`].
pub const EXIT_ENVIRONMENT: i32 = 4;
