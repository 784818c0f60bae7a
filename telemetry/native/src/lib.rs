//! The power sampler's inner loop: wake up at each deadline, read the chip, keep a record.
//!
//! In scope: the deadlines of one tenth of a second. Everything else (preflight, gaps and their reasons, files, means, a
//! chip that lost its settings) is Python's, in `pqtelemetry.power`, ten times a second. The Python loop there does
//! the same without this crate and is what the tests hold it against.

pub mod block;
pub mod i2c;
pub mod model;
pub mod pace;
#[cfg(feature = "python")]
mod python;
pub mod registers;
