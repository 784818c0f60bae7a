//! Challenges that a ground station need not remember, sans-IO but for randomness.
//!
//! A Challenge's nonce is 16 random bytes and a MAC over them and the source's address, under a secret that is replaced
//! every 8 s and good for as long again. So a Hello that answers the Challenge of a connection that is gone can be told
//! from a made-up one by one MAC, without a memory of connections. The port is not in it, since the next connection has
//! another one. Whoever dials gets one of these: a cookie proves that the nonce is fresh and was given to this source,
//! and nothing about who it is. That, the PSK's MAC over nonce and Hello tells. Each is good for one right EarlyHello: a
//! recorded one is worthless, as a recorded Hello is.

use crate::error::{HandshakeError, Reason};
use crate::schedule::mac_equal;
use crate::wire::NONCE_BYTES;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::collections::HashSet;
use std::net::IpAddr;

/// A secret makes cookies for so long, and knows them for so long again.
pub const SECRET_LIFE_NS: i64 = 8_000_000_000;
const RANDOM_BYTES: usize = 16;
const TAG_BYTES: usize = NONCE_BYTES - RANDOM_BYTES;

struct Bucket {
    key: hmac::Key,
    made_ns: i64,
    /// Random parts of what was answered already.
    spent: HashSet<[u8; RANDOM_BYTES]>,
}

impl Bucket {
    fn fresh(random: &SystemRandom, now_ns: i64) -> Result<Self, HandshakeError> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, random);
        let key = key.map_err(|_| HandshakeError::new(Reason::Failed, NO_RANDOMNESS))?;
        Ok(Self {
            key,
            made_ns: now_ns,
            spent: HashSet::new(),
        })
    }

    fn tag(&self, fresh: &[u8], source: IpAddr) -> [u8; TAG_BYTES] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(b"pqtunnel/1 cookie\0");
        context.update(fresh);
        match source {
            IpAddr::V4(ip) => context.update(&ip.octets()),
            IpAddr::V6(ip) => context.update(&ip.octets()),
        }
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&context.sign().as_ref()[..TAG_BYTES]);
        tag
    }
}

const NO_RANDOMNESS: &str = "the system gives no randomness";

/// Makes nonces and knows them again.
pub struct Cookies {
    random: SystemRandom,
    current: Bucket,
    before: Option<Bucket>,
}

impl Cookies {
    /// With a fresh secret.
    ///
    /// # Errors
    /// `Failed`: the system gives no randomness.
    pub fn new(now_ns: i64) -> Result<Self, HandshakeError> {
        let random = SystemRandom::new();
        Ok(Self {
            current: Bucket::fresh(&random, now_ns)?,
            before: None,
            random,
        })
    }

    fn rotate(&mut self, now_ns: i64) -> Result<(), HandshakeError> {
        if now_ns - self.current.made_ns >= SECRET_LIFE_NS {
            let fresh = Bucket::fresh(&self.random, now_ns)?;
            self.before = Some(std::mem::replace(&mut self.current, fresh));
        }
        // By its own age, not by its successor's: that one is made when somebody asks, maybe much later.
        let is_over = |bucket: &Bucket| now_ns - bucket.made_ns >= 2 * SECRET_LIFE_NS;
        if self.before.as_ref().is_some_and(is_over) {
            self.before = None;
        }
        Ok(())
    }

    /// The nonce of a Challenge to this source; `source`: what limits count as one.
    ///
    /// # Errors
    /// `Failed`: the system gives no randomness.
    pub fn nonce(
        &mut self,
        source: IpAddr,
        now_ns: i64,
    ) -> Result<[u8; NONCE_BYTES], HandshakeError> {
        self.rotate(now_ns)?;
        let mut nonce = [0; NONCE_BYTES];
        let filled = self.random.fill(&mut nonce[..RANDOM_BYTES]);
        filled.map_err(|_| HandshakeError::new(Reason::Failed, NO_RANDOMNESS))?;
        let tag = self.current.tag(&nonce[..RANDOM_BYTES], source);
        nonce[RANDOM_BYTES..].copy_from_slice(&tag);
        Ok(nonce)
    }

    /// Was this nonce given to this source lately, and not answered yet?
    ///
    /// # Errors
    /// `StaleCookie`; `Failed` without randomness for the next secret.
    pub fn check(
        &mut self,
        nonce: &[u8; NONCE_BYTES],
        source: IpAddr,
        now_ns: i64,
    ) -> Result<(), HandshakeError> {
        self.rotate(now_ns)?;
        let (fresh, tag) = nonce.split_at(RANDOM_BYTES);
        let buckets = [Some(&self.current), self.before.as_ref()];
        let found = buckets
            .into_iter()
            .flatten()
            .find(|bucket| mac_equal(&bucket.tag(fresh, source), tag));
        let Some(bucket) = found else {
            let detail = "an EarlyHello answers no Challenge that this source was given lately";
            return Err(HandshakeError::new(Reason::StaleCookie, detail));
        };
        if bucket.spent.contains(fresh) {
            let detail = "an EarlyHello came a second time";
            return Err(HandshakeError::new(Reason::StaleCookie, detail));
        }
        Ok(())
    }

    /// It was answered by a right EarlyHello: never again. Its bucket forgets it when nobody takes it any more.
    pub fn spend(&mut self, nonce: &[u8; NONCE_BYTES]) {
        let mut fresh = [0; RANDOM_BYTES];
        fresh.copy_from_slice(&nonce[..RANDOM_BYTES]);
        // Whichever made it: the other one never takes it.
        self.current.spent.insert(fresh);
        if let Some(before) = &mut self.before {
            before.spent.insert(fresh);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(last: u8) -> IpAddr {
        IpAddr::from([198, 18, 0, last])
    }

    fn reason(outcome: Result<(), HandshakeError>) -> Option<Reason> {
        outcome.err().map(|error| error.reason)
    }

    #[test]
    fn a_nonce_is_known_again_at_its_source_once_and_not_for_long() {
        let mut cookies = Cookies::new(0).expect("random");
        let nonce = cookies.nonce(host(7), 0).expect("random");
        assert_eq!(cookies.check(&nonce, host(7), 1), Ok(()));
        assert_eq!(
            cookies.check(&nonce, host(7), 2),
            Ok(()),
            "asking costs it nothing"
        );
        let elsewhere = reason(cookies.check(&nonce, host(8), 2));
        assert_eq!(elsewhere, Some(Reason::StaleCookie));
        for place in 0..NONCE_BYTES {
            let mut altered = nonce;
            altered[place] ^= 1;
            let found = reason(cookies.check(&altered, host(7), 2));
            assert_eq!(found, Some(Reason::StaleCookie), "byte {place}");
        }
        cookies.spend(&nonce);
        assert_eq!(
            reason(cookies.check(&nonce, host(7), 3)),
            Some(Reason::StaleCookie)
        );
        // Spent stays spent when the secret is replaced.
        let next_ns = SECRET_LIFE_NS + 1;
        assert_eq!(
            reason(cookies.check(&nonce, host(7), next_ns)),
            Some(Reason::StaleCookie)
        );
    }

    #[test]
    fn a_secret_outlives_its_turn_by_one_and_no_more() {
        let mut cookies = Cookies::new(0).expect("random");
        let first = cookies.nonce(host(7), 0).expect("random");
        assert_eq!(cookies.check(&first, host(7), SECRET_LIFE_NS), Ok(()));
        let second = cookies.nonce(host(7), SECRET_LIFE_NS).expect("random");
        assert_eq!(cookies.check(&second, host(7), 2 * SECRET_LIFE_NS), Ok(()));
        let old = reason(cookies.check(&first, host(7), 2 * SECRET_LIFE_NS));
        assert_eq!(old, Some(Reason::StaleCookie));
        // Nobody asked for long: nothing from before is good.
        let long_after = reason(cookies.check(&second, host(7), 9 * SECRET_LIFE_NS));
        assert_eq!(long_after, Some(Reason::StaleCookie));
    }

    #[test]
    fn a_secret_is_over_by_its_own_age_however_late_its_successor_was_made() {
        let mut cookies = Cookies::new(0).expect("random");
        let first = cookies.nonce(host(7), 0).expect("random");
        // Nobody asked in between: the successor is made here.
        let late_ns = 2 * SECRET_LIFE_NS - 1;
        assert_eq!(cookies.check(&first, host(7), late_ns), Ok(()));
        let old = reason(cookies.check(&first, host(7), late_ns + 1));
        assert_eq!(old, Some(Reason::StaleCookie));
    }

    #[test]
    fn nonces_differ_and_another_station_knows_none() {
        let mut cookies = Cookies::new(0).expect("random");
        let mut seen = HashSet::new();
        for _ in 0..1000 {
            let nonce = cookies.nonce(host(7), 0).expect("random");
            assert!(seen.insert(nonce));
        }
        let mut other = Cookies::new(0).expect("random");
        let nonce = seen.iter().next().expect("made");
        assert_eq!(
            reason(other.check(nonce, host(7), 0)),
            Some(Reason::StaleCookie)
        );
    }
}
