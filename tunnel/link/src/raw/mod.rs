//! The only module of the crate with `unsafe` in it: calls of liboqs' C functions, and the handler of the signals that
//! end an end. Each block says why it is sound; everything that leaves the module is safe.
#![allow(unsafe_code)]

pub mod oqs;
pub mod signals;
