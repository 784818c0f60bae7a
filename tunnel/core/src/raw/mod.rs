//! The only module of the crate with `unsafe` in it: memory that is erased when it is dropped, the batch
//! system calls and the poll of Linux, and two socket settings of Windows. Each block says why it is sound; everything that
//! leaves the module is safe.
#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
pub mod batch;
#[cfg(target_os = "linux")]
pub mod poll;
#[cfg(windows)]
pub mod winsock;
pub mod wiped;
