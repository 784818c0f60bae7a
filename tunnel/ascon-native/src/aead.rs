//! Ascon-AEAD128 of NIST SP 800-232, and Ascon-128a of Ascon v1.2 by the last release line that has it: one class
//! for Python each, over two versions of one crate.

use crate::{exactly, InvalidTag};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

macro_rules! aead {
    ($(#[$doc:meta])* $name:ident of $version:ident) => {
        $(#[$doc])*
        #[pyclass(frozen, module = "pq_ascon")]
        pub struct $name {
            cipher: $version::$name,
        }

        #[pymethods]
        impl $name {
            #[new]
            fn new(key: &[u8]) -> PyResult<Self> {
                use $version::aead::KeyInit;
                Ok(Self {
                    cipher: $version::$name::new(exactly("key", key)?.into()),
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
                use $version::aead::{Aead, Payload};
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
                use $version::aead::{Aead, Payload};
                let payload = Payload { msg: sealed, aad };
                self.cipher
                    .decrypt(exactly("nonce", nonce)?.into(), payload)
                    .map(|plaintext| PyBytes::new(py, &plaintext))
                    .map_err(|_| InvalidTag::new_err("tag does not verify"))
            }
        }
    };
}

aead! {
    /// One Ascon-AEAD128 key. Stateless apart from the key: safe to share between threads.
    AsconAead128 of ascon_nist
}
aead! {
    /// One Ascon-128a key. Stateless apart from the key: safe to share between threads.
    Ascon128a of ascon_v1
}
