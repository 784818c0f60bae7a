//! Ascon for Python: Ascon-128a (Ascon v1.2) and Ascon-AEAD128 (NIST SP 800-232), two algorithms that do not
//! understand each other.
//!
//! In scope: seal and open with associated data under a 16-byte key and 16-byte nonce; the 16-byte tag follows
//! the ciphertext. Not in scope: nonce handling, which belongs to the caller. `ascon-aead` is unaudited by its
//! own word.

mod aead;

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;

/// Length of a key in bytes, in both.
const KEY_BYTES: usize = 16;
/// Length of a nonce in bytes, in both.
const NONCE_BYTES: usize = 16;
/// Length of the tag that follows every ciphertext in bytes, in both.
const TAG_BYTES: usize = 16;

create_exception!(
    pq_ascon,
    InvalidTag,
    PyException,
    "The tag does not fit key, nonce, associated data and ciphertext."
);

/// `bytes` as an array, or a `ValueError` that names both lengths.
fn exactly<'a>(what: &str, bytes: &'a [u8]) -> PyResult<&'a [u8; KEY_BYTES]> {
    bytes.try_into().map_err(|_| {
        PyValueError::new_err(format!(
            "{what} has {} bytes, Ascon takes {KEY_BYTES}",
            bytes.len()
        ))
    })
}

/// Ascon AEADs by `RustCrypto`.
#[pymodule]
fn pq_ascon(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ALGORITHMS", ("Ascon-128a", "Ascon-AEAD128"))?;
    module.add("KEY_BYTES", KEY_BYTES)?;
    module.add("NONCE_BYTES", NONCE_BYTES)?;
    module.add("TAG_BYTES", TAG_BYTES)?;
    module.add("InvalidTag", module.py().get_type::<InvalidTag>())?;
    module.add_class::<aead::Ascon128a>()?;
    module.add_class::<aead::AsconAead128>()
}
