//! Ascon-128a (Ascon v1.2) for Python.
//!
//! In scope: seal and open with associated data under a 16-byte key and 16-byte nonce; the 16-byte tag follows
//! the ciphertext. Not in scope: Ascon-AEAD128 of NIST SP 800-232, which is another algorithm, and nonce handling,
//! which belongs to the caller. `ascon-aead` is unaudited by its own word.

use ascon_aead::aead::{Aead, KeyInit, Payload};
use ascon_aead::{Ascon128a, Key, Nonce};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Length of a key in bytes.
const KEY_BYTES: usize = 16;
/// Length of a nonce in bytes.
const NONCE_BYTES: usize = 16;
/// Length of the tag that follows every ciphertext, in bytes.
const TAG_BYTES: usize = 16;

create_exception!(
    pq_ascon,
    InvalidTag,
    PyException,
    "The tag does not fit key, nonce, associated data and ciphertext."
);

fn nonce_of(bytes: &[u8]) -> PyResult<&Nonce<Ascon128a>> {
    if bytes.len() == NONCE_BYTES {
        Ok(Nonce::<Ascon128a>::from_slice(bytes))
    } else {
        Err(PyValueError::new_err(format!(
            "nonce has {} bytes, Ascon-128a takes {NONCE_BYTES}",
            bytes.len()
        )))
    }
}

/// One Ascon-128a key. Stateless apart from the key: safe to share between threads.
#[pyclass(name = "Ascon128a", frozen, module = "pq_ascon")]
struct PyAscon128a {
    cipher: Ascon128a,
}

#[pymethods]
impl PyAscon128a {
    #[new]
    fn new(key: &[u8]) -> PyResult<Self> {
        if key.len() != KEY_BYTES {
            return Err(PyValueError::new_err(format!(
                "key has {} bytes, Ascon-128a takes {KEY_BYTES}",
                key.len()
            )));
        }
        Ok(Self {
            cipher: Ascon128a::new(Key::<Ascon128a>::from_slice(key)),
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
            .encrypt(nonce_of(nonce)?, payload)
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
            .decrypt(nonce_of(nonce)?, payload)
            .map(|plaintext| PyBytes::new(py, &plaintext))
            .map_err(|_| InvalidTag::new_err("tag does not verify"))
    }
}

/// Ascon-128a AEAD by `RustCrypto`.
#[pymodule]
fn pq_ascon(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ALGORITHM", "Ascon-128a")?;
    module.add("KEY_BYTES", KEY_BYTES)?;
    module.add("NONCE_BYTES", NONCE_BYTES)?;
    module.add("TAG_BYTES", TAG_BYTES)?;
    module.add("InvalidTag", module.py().get_type::<InvalidTag>())?;
    module.add_class::<PyAscon128a>()
}
