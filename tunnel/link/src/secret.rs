//! Secret bytes: on the heap, in one place, zero before the memory is given back.

use std::fmt;
use std::ops::{Deref, DerefMut};
use zeroize::Zeroize as _;

pub use pq_core::scrub::{scrub, scrub_stack};

/// Bytes that nobody prints or copies by accident. Moving one moves a pointer.
pub struct Secret(Box<[u8]>);

impl Secret {
    /// `count` zero bytes, to be written in place.
    #[must_use]
    pub fn zeros(count: usize) -> Self {
        Self(vec![0; count].into_boxed_slice())
    }

    /// A copy of `bytes`; erasing those is the caller's.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The parts one after another, in memory of exactly their length: nothing is moved while it is filled.
    #[must_use]
    pub fn joined(parts: &[&[u8]]) -> Self {
        let mut whole = Self::zeros(parts.iter().map(|part| part.len()).sum());
        let mut end = 0;
        for part in parts {
            whole[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        }
        whole
    }
}

impl Deref for Secret {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Secret {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Secret({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        assert_eq!(
            format!("{:?}", Secret::copy_of(b"hidden")),
            "Secret(6 bytes)"
        );
    }

    #[test]
    fn parts_stand_one_after_another() {
        assert_eq!(&*Secret::joined(&[b"ab", b"", b"c"]), b"abc");
    }
}
