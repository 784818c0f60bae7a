//! The only module of the crate with `unsafe` in it: calls of liboqs' C functions, the handlers of what ends an end, a
//! thread's processor time, a lock, a socket that another owns, and a serial port's settings. Each block says why it is sound; everything that leaves the
//! module is safe.
#![allow(unsafe_code)]

#[cfg(unix)]
pub mod clock;
#[cfg(feature = "static-oqs")]
mod linked;
#[cfg(not(feature = "static-oqs"))]
mod loaded;
#[cfg(unix)]
pub mod lock;
pub mod oqs;
#[cfg_attr(windows, path = "signals_windows.rs")]
pub mod signals;
pub mod socket;
#[cfg(unix)]
pub mod tty;
