//! Ascon-AEAD128 of NIST SP 800-232.

use crate::{exactly, InvalidTag};
use ascon_nist::aead::{Aead, KeyInit, Payload};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// One Ascon-AEAD128 key. Stateless apart from the key: safe to share between threads.
#[pyclass(name = "AsconAead128", frozen, module = "pq_ascon")]
pub struct AsconAead128 {
    cipher: ascon_nist::AsconAead128,
}

#[pymethods]
impl AsconAead128 {
    #[new]
    fn new(key: &[u8]) -> PyResult<Self> {
        Ok(Self {
            cipher: ascon_nist::AsconAead128::new(exactly("key", key)?.into()),
        })
    }

    /// Seal `plaintext` with `aad`: ciphertext followed by the tag.
    fn seal<'py>(
        &self,
        py: Python<'py>,
        nonce: &[u8],
        plaintext: &[u8],
        aad: &[u8],
    ) -> PyResult<Bound<'py, PyBytes>> {
        let payload = Payload {
            msg: plaintext,
            aad,
        };
        self.cipher
            .encrypt(exactly("nonce", nonce)?.into(), payload)
            .map(|sealed| PyBytes::new(py, &sealed))
            .map_err(|_| PyValueError::new_err("plaintext is too long"))
    }

    /// Open ciphertext followed by its tag; raises `InvalidTag` and returns nothing when the tag does not fit.
    fn open<'py>(
        &self,
        py: Python<'py>,
        nonce: &[u8],
        sealed: &[u8],
        aad: &[u8],
    ) -> PyResult<Bound<'py, PyBytes>> {
        let payload = Payload { msg: sealed, aad };
        self.cipher
            .decrypt(exactly("nonce", nonce)?.into(), payload)
            .map(|plaintext| PyBytes::new(py, &plaintext))
            .map_err(|_| InvalidTag::new_err("tag does not verify"))
    }
}
