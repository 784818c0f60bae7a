//! This host's primitives, and how long each took.

use pq_link::primitives::{HostPrimitives, KemPair, PrimitiveError, Primitives};
use pq_link::registry::{Kem, Sig};
use pq_link::secret::Secret;
use pq_link::suite::Suite;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Which primitive of a handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Keygen,
    Other,
}

/// (which, ns), in the order in which they ended.
pub type Times = Arc<Mutex<Vec<(Step, u64)>>>;

/// One for each end that needs a box of its own; they share the library and the list.
#[derive(Clone)]
pub struct Timed {
    host: &'static HostPrimitives,
    times: Times,
}

impl Timed {
    pub fn of(host: &'static HostPrimitives) -> Self {
        Self {
            host,
            times: Arc::default(),
        }
    }

    /// What was noted since the last call.
    pub fn take(&self) -> Vec<(Step, u64)> {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut times)
    }

    fn timed<T>(&self, step: Step, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.push((step, ns));
        done
    }
}

impl Primitives for Timed {
    fn provider(&self) -> String {
        self.host.provider()
    }

    fn supports(&self, suite: Suite) -> bool {
        self.host.supports(suite)
    }

    fn kem_pair(&self, kem: &'static Kem) -> Result<KemPair, PrimitiveError> {
        self.timed(Step::Keygen, || self.host.kem_pair(kem))
    }

    fn encapsulate(
        &self,
        kem: &'static Kem,
        public: &[u8],
    ) -> Result<(Vec<u8>, Secret), PrimitiveError> {
        self.timed(Step::Other, || self.host.encapsulate(kem, public))
    }

    fn decapsulate(
        &self,
        kem: &'static Kem,
        pair: &KemPair,
        ciphertext: &[u8],
    ) -> Result<Secret, PrimitiveError> {
        self.timed(Step::Other, || self.host.decapsulate(kem, pair, ciphertext))
    }

    fn signing_pair(&self, sig: &'static Sig) -> Result<(Vec<u8>, Secret), PrimitiveError> {
        self.host.signing_pair(sig)
    }

    fn sign(
        &self,
        sig: &'static Sig,
        secret: &[u8],
        message: &[u8],
    ) -> Result<Vec<u8>, PrimitiveError> {
        self.timed(Step::Other, || self.host.sign(sig, secret, message))
    }

    fn verify(&self, sig: &'static Sig, public: &[u8], message: &[u8], signature: &[u8]) -> bool {
        self.timed(Step::Other, || {
            self.host.verify(sig, public, message, signature)
        })
    }
}
