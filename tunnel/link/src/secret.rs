//! Secret bytes: on the heap, in one place, zero before the memory is given back.

use std::fmt;
use std::ops::{Deref, DerefMut};
use zeroize::Zeroize as _;

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

/// Overwrite the stack below the caller, where what it called may have left copies of keys: a function that returned
/// does not erase its locals, and a moved value stays behind where it was. Takes some microseconds.
pub fn scrub_stack() {
    scrub::<{ 128 * 1024 }>();
}

/// The same, for what goes deeper.
#[inline(never)]
#[allow(clippy::large_stack_arrays)] // the stack is what it is about
pub fn scrub<const BYTES: usize>() {
    let below = [0_u8; BYTES];
    std::hint::black_box(&below);
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
