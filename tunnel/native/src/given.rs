//! Challenges that a ground station has given and need not remember (`pq_link::cookie`), for all its threads.

use pq_core::cell::locked;
use pq_link::cookie::Cookies;
use pq_link::error::HandshakeError;
use pq_link::place::source_of;
use pq_link::wire::NONCE_BYTES;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Instant;

/// A Challenge's nonce.
pub type Nonce = [u8; NONCE_BYTES];

/// What was given to whom.
pub struct Given {
    begun: Instant,
    cookies: Mutex<Cookies>,
}

impl Given {
    /// Nothing yet.
    pub fn new() -> Result<Self, HandshakeError> {
        Ok(Self {
            begun: Instant::now(),
            cookies: Mutex::new(Cookies::new(0)?),
        })
    }

    fn now_ns(&self) -> i64 {
        i64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(i64::MAX)
    }

    /// A fresh one for whoever dials from there.
    pub fn nonce(&self, source: IpAddr) -> Result<Nonce, HandshakeError> {
        locked(&self.cookies).nonce(source_of(source), self.now_ns())
    }

    /// Was it given to this source lately, and not answered yet? `StaleCookie` else.
    pub fn check(&self, nonce: &Nonce, source: IpAddr) -> Result<(), HandshakeError> {
        locked(&self.cookies).check(nonce, source_of(source), self.now_ns())
    }

    /// The same once the Hello to it was found right, and never again: of two at once one fails.
    pub fn spend(&self, nonce: &Nonce, source: IpAddr) -> Result<(), HandshakeError> {
        let mut cookies = locked(&self.cookies);
        cookies.check(nonce, source_of(source), self.now_ns())?;
        cookies.spend(nonce);
        Ok(())
    }
}
