//! The only module of the crate with `unsafe` in it: calls of liboqs' C functions, the handler of the signals that end
//! an end, and a thread's processor time. Each block says why it is sound; everything that leaves the module is safe.
#![allow(unsafe_code)]

pub mod clock;
pub mod oqs;
pub mod signals;
