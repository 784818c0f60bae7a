//! Long-term keys and ready key pairs, as handles that Python holds.

use crate::given::Given;
use pq_core::cell::locked;
use pq_core::python::error;
use pq_link::identity::{DroneId, GcsIdentity, GcsPublic, PskStore};
use pq_link::primitives::{HostPrimitives, KemPair, Primitives as _};
use pq_link::registry::{kem_by_token, sig_by_token, Sig};
use pq_link::schedule::{PskKeys, PSK_BYTES};
use pq_link::secret::Secret;
use pyo3::prelude::*;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use zeroize::Zeroize as _;

/// No key of the registry is longer.
const SECRET_LIMIT_BYTES: u64 = 1 << 16;

/// A secret that Python may hold and hand back, and not read; erased with its last holder.
#[pyclass(name = "Secret", frozen, module = "pq_core")]
pub struct PySecret(pub Secret);

#[pymethods]
impl PySecret {
    fn __len__(&self) -> usize {
        self.0.len()
    }
}

/// KEMs and signatures of one liboqs.
#[pyclass(name = "Primitives", frozen, module = "pq_core")]
pub struct PyPrimitives(pub Arc<HostPrimitives>);

#[pymethods]
impl PyPrimitives {
    /// Of the library in this file. Raises `ProviderMissing`.
    #[new]
    #[allow(clippy::needless_pass_by_value)] // Python hands over a copy
    fn new(py: Python<'_>, library: PathBuf) -> PyResult<Self> {
        let loaded = HostPrimitives::load(&library);
        loaded
            .map(|primitives| Self(Arc::new(primitives)))
            .map_err(|failure| error(py, "ProviderMissing", failure.to_string(), &[]))
    }

    /// Name, version and place of the library.
    fn provider(&self) -> String {
        self.0.provider()
    }

    /// A fresh ephemeral pair of this KEM. Raises `PrimitiveFailed`.
    fn kem_pair(&self, py: Python<'_>, token: &str) -> PyResult<PyKemPair> {
        let kem = kem_by_token(token).ok_or_else(|| {
            let text = format!("the native tunnel has no KEM {token}");
            error(py, "ProviderMissing", text, &[])
        })?;
        let made = py.detach(|| self.0.kem_pair(kem));
        made.map(|pair| PyKemPair(Mutex::new(Some(pair))))
            .map_err(|failure| error(py, "PrimitiveFailed", failure.to_string(), &[]))
    }
}

/// An ephemeral pair made ahead of its handshake; taken once.
#[pyclass(name = "KemPair", frozen, module = "pq_core")]
pub struct PyKemPair(pub Mutex<Option<KemPair>>);

#[pymethods]
impl PyKemPair {
    /// Erase the secret key.
    fn wipe(&self) {
        drop(locked(&self.0).take());
    }
}

fn sig(py: Python<'_>, token: &str) -> PyResult<&'static Sig> {
    sig_by_token(token).ok_or_else(|| {
        let text = format!("the native tunnel has no signature scheme {token}");
        error(py, "KeyMaterialError", text, &[])
    })
}

fn public(py: Python<'_>, keys: &[(String, Vec<u8>)]) -> PyResult<GcsPublic> {
    let of = |(token, key): &(String, Vec<u8>)| Ok((sig(py, token)?, key.clone()));
    let keys = keys.iter().map(of).collect::<PyResult<Vec<_>>>()?;
    GcsPublic::new(keys).ok_or_else(|| {
        let text = "a GCS identity needs one key of its length a scheme".to_owned();
        error(py, "KeyMaterialError", text, &[])
    })
}

/// A long-term secret: its bytes, or the file that has them and is read here alone.
#[derive(FromPyObject)]
pub enum Held {
    Given(Vec<u8>),
    File(PathBuf),
}

impl Held {
    /// Raises `KeyMaterialError` where it cannot be read or has another length.
    fn take(self, py: Python<'_>, what: &str, length: usize) -> PyResult<Secret> {
        let (secret, place) = match self {
            Self::Given(mut bytes) => {
                let secret = Secret::copy_of(&bytes);
                bytes.zeroize();
                (secret, String::new())
            }
            Self::File(path) => {
                let place = format!(" in {}", path.display());
                let unreadable = |failure: io::Error| {
                    let text = format!("{what}{place} cannot be read: {failure}");
                    error(py, "KeyMaterialError", text, &[])
                };
                (read(&path).map_err(unreadable)?, place)
            }
        };
        if secret.len() == length {
            return Ok(secret);
        }
        let got = secret.len();
        let text = format!("{what}{place} has {got} bytes, not {length}");
        Err(error(py, "KeyMaterialError", text, &[]))
    }
}

/// Into memory of its own, in one place.
fn read(path: &Path) -> io::Result<Secret> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut secret = Secret::zeros(size.min(SECRET_LIMIT_BYTES) as usize);
    file.read_exact(&mut secret)?;
    Ok(secret)
}

fn secrets(py: Python<'_>, keys: Vec<(String, Held)>) -> PyResult<Vec<(&'static Sig, Secret)>> {
    let of = |(token, key): (String, Held)| {
        let sig = sig(py, &token)?;
        let what = format!("signing key {token}");
        Ok((sig, key.take(py, &what, sig.secret_bytes)?))
    };
    keys.into_iter().map(of).collect()
}

fn psk_keys(py: Python<'_>, psk: Held) -> PyResult<PskKeys> {
    let secret = psk.take(py, "a PSK", PSK_BYTES)?;
    let psk: &[u8; PSK_BYTES] = (&*secret).try_into()?;
    Ok(PskKeys::derive(psk))
}

/// Keys of a ground station: its identity, and the PSKs of its drones.
#[pyclass(name = "Station", frozen, module = "pq_core")]
pub struct PyStation {
    pub primitives: Arc<HostPrimitives>,
    pub identity: GcsIdentity,
    pub psks: PskStore,
    pub given: Given,
}

#[pymethods]
impl PyStation {
    /// `public` and `signing` by SIG token; `psks` by drone key id. Raises `KeyMaterialError`, `PrimitiveFailed`.
    #[new]
    #[allow(clippy::needless_pass_by_value)] // Python hands over copies
    fn new(
        py: Python<'_>,
        primitives: &PyPrimitives,
        public_keys: Vec<(String, Vec<u8>)>,
        signing: Vec<(String, Held)>,
        psks: Vec<(DroneId, Held)>,
    ) -> PyResult<Self> {
        let drones = psks.into_iter();
        let drones = drones.map(|(id, psk)| Ok((id, psk_keys(py, psk)?)));
        let psks = PskStore::new(drones.collect::<PyResult<_>>()?)
            .map_err(|failure| error(py, "PrimitiveFailed", failure.to_string(), &[]))?;
        let given = Given::new();
        let given = given.map_err(|failure| error(py, "PrimitiveFailed", failure.detail, &[]))?;
        Ok(Self {
            primitives: Arc::clone(&primitives.0),
            identity: GcsIdentity {
                public: public(py, &public_keys)?,
                secrets: secrets(py, signing)?,
            },
            psks,
            given,
        })
    }
}

/// Keys of a drone: its PSK, the stations that it trusts, and its own signing keys.
#[pyclass(name = "Vehicle", frozen, module = "pq_core")]
pub struct PyVehicle {
    pub primitives: Arc<HostPrimitives>,
    pub drone_id: DroneId,
    pub psk: PskKeys,
    pub trusted: Vec<GcsPublic>,
    pub signing: Vec<(&'static Sig, Secret)>,
}

#[pymethods]
impl PyVehicle {
    /// `trusted`: public keys by SIG token of each station. Raises `KeyMaterialError`.
    #[new]
    #[allow(clippy::needless_pass_by_value)] // Python hands over copies
    fn new(
        py: Python<'_>,
        primitives: &PyPrimitives,
        drone_id: DroneId,
        psk: Held,
        trusted: Vec<Vec<(String, Vec<u8>)>>,
        signing: Vec<(String, Held)>,
    ) -> PyResult<Self> {
        let trusted = trusted.iter().map(|keys| public(py, keys));
        Ok(Self {
            primitives: Arc::clone(&primitives.0),
            drone_id,
            psk: psk_keys(py, psk)?,
            trusted: trusted.collect::<PyResult<_>>()?,
            signing: secrets(py, signing)?,
        })
    }
}

impl PyVehicle {
    /// The signing key of this scheme.
    pub fn signing_key(&self, sig: &Sig) -> Option<&[u8]> {
        let mut found = self.signing.iter().filter(|(held, _)| *held == sig);
        found.next().map(|(_, key)| &key[..])
    }
}
