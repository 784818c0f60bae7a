//! KEMs and signatures of this host behind one trait: liboqs, X25519 and Ed25519, `hqc-kem`.

use crate::hqc;
use crate::raw::oqs::Oqs;
use crate::registry::{kem_by_token, Kem, KemKind, Sig, KEMS, SIGS};
use crate::secret::Secret;
use crate::suite::Suite;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair as _, UnparsedPublicKey, ED25519};
use std::fmt;
use std::path::Path;
use x25519_dalek::{PublicKey, StaticSecret};

const X25519_BYTES: usize = 32;

/// A primitive failed, or is not on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimitiveError(pub String);

impl fmt::Display for PrimitiveError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for PrimitiveError {}

/// An ephemeral KEM key pair.
pub struct KemPair {
    /// Sent.
    pub public: Vec<u8>,
    /// Erased when dropped.
    pub secret: Secret,
}

/// What the machines need of a host. Lengths of all arguments are checked: C reads what the algorithm says.
#[allow(clippy::missing_errors_doc)] // each: the primitive failed, is not here, or a length is wrong
pub trait Primitives: Send + Sync {
    /// Who carries them out, with its version.
    fn provider(&self) -> String;
    /// Can this host carry out the suite?
    fn supports(&self, suite: Suite) -> bool;
    /// A fresh ephemeral pair.
    fn kem_pair(&self, kem: &'static Kem) -> Result<KemPair, PrimitiveError>;
    /// (ciphertext, shared secret).
    fn encapsulate(
        &self,
        kem: &'static Kem,
        public: &[u8],
    ) -> Result<(Vec<u8>, Secret), PrimitiveError>;
    /// The shared secret.
    fn decapsulate(
        &self,
        kem: &'static Kem,
        pair: &KemPair,
        ciphertext: &[u8],
    ) -> Result<Secret, PrimitiveError>;
    /// A fresh signing pair: (public, secret).
    fn signing_pair(&self, sig: &'static Sig) -> Result<(Vec<u8>, Secret), PrimitiveError>;
    /// A signature.
    fn sign(
        &self,
        sig: &'static Sig,
        secret: &[u8],
        message: &[u8],
    ) -> Result<Vec<u8>, PrimitiveError>;
    /// Does it verify? False for wrong lengths, too.
    fn verify(&self, sig: &'static Sig, public: &[u8], message: &[u8], signature: &[u8]) -> bool;
}

/// liboqs, `x25519-dalek`, ring and `hqc-kem`.
pub struct HostPrimitives {
    oqs: Oqs,
    random: SystemRandom,
}

impl HostPrimitives {
    /// With the liboqs in this program, or where there is none, of this file.
    ///
    /// # Errors
    /// No library there, one that lacks a function, or one whose sizes differ from the registry's.
    pub fn load(library: &Path) -> Result<Self, PrimitiveError> {
        let oqs_name = |kem: &Kem| match kem.kind {
            KemKind::Oqs(name) => Some(name),
            _ => None,
        };
        let kems: Vec<&str> = KEMS.iter().filter_map(oqs_name).collect();
        let sigs: Vec<&str> = SIGS.iter().map(|sig| sig.oqs_name).collect();
        let oqs = Oqs::load(library, &kems, &sigs).map_err(PrimitiveError)?;
        let differ = |token: &str, found: &[usize], expected: &[usize]| {
            PrimitiveError(format!(
                "{token}: sizes {found:?} of this liboqs differ from the registry's {expected:?}; use the library of \
                 the tunnel image"
            ))
        };
        for kem in &KEMS {
            let expected = [
                kem.public_bytes,
                kem.secret_bytes,
                kem.ciphertext_bytes,
                kem.shared_bytes,
            ];
            match oqs_name(kem).and_then(|name| oqs.kem_sizes(name)) {
                Some(found) if found != expected => {
                    return Err(differ(kem.token, &found, &expected))
                }
                _ => {}
            }
        }
        for sig in &SIGS {
            let expected = [sig.public_bytes, sig.secret_bytes, sig.signature_bytes];
            match oqs.sig_sizes(sig.oqs_name) {
                Some(found) if found != expected => {
                    return Err(differ(sig.token, &found, &expected))
                }
                _ => {}
            }
        }
        Ok(Self {
            oqs,
            random: SystemRandom::new(),
        })
    }

    fn random_secret(&self, count: usize) -> Result<Secret, PrimitiveError> {
        let mut secret = Secret::zeros(count);
        let filled = self.random.fill(&mut secret);
        filled.map_err(|_| PrimitiveError("the system gives no randomness".to_owned()))?;
        Ok(secret)
    }

    fn supports_kem(&self, kem: &Kem) -> bool {
        match kem.kind {
            KemKind::Oqs(name) => self.oqs.kem_sizes(name).is_some(),
            KemKind::X25519 | KemKind::HqcV5 => true,
            KemKind::Hybrid(inner) => {
                kem_by_token(inner).is_some_and(|inner| self.supports_kem(inner))
            }
        }
    }
}

fn expect(what: &str, token: &str, value: &[u8], expected: usize) -> Result<(), PrimitiveError> {
    if value.len() == expected {
        return Ok(());
    }
    let got = value.len();
    Err(PrimitiveError(format!(
        "{token}: {what} has {got} bytes, not {expected}"
    )))
}

fn failed(token: &str, what: &str) -> PrimitiveError {
    PrimitiveError(format!("{token}: {what} failed"))
}

fn scalar(secret: &[u8]) -> Result<StaticSecret, PrimitiveError> {
    let bytes: &[u8; X25519_BYTES] = secret
        .try_into()
        .map_err(|_| PrimitiveError("x25519: a key has 32 bytes".to_owned()))?;
    Ok(StaticSecret::from(*bytes))
}

fn x25519(secret: &[u8], public: &[u8]) -> Result<Secret, PrimitiveError> {
    let public: [u8; X25519_BYTES] = public
        .try_into()
        .map_err(|_| PrimitiveError("x25519: a key has 32 bytes".to_owned()))?;
    let shared = scalar(secret)?.diffie_hellman(&PublicKey::from(public));
    if shared.was_contributory() {
        Ok(Secret::copy_of(shared.as_bytes()))
    } else {
        // A point of small order: the secret would be zero, RFC 7748 section 6.1.
        Err(PrimitiveError(
            "x25519: the peer's value has small order".to_owned(),
        ))
    }
}

fn inner_of(token: &'static str) -> Result<&'static Kem, PrimitiveError> {
    kem_by_token(token).ok_or_else(|| PrimitiveError(format!("{token} is no KEM")))
}

impl Primitives for HostPrimitives {
    fn provider(&self) -> String {
        format!("{} of {}", self.oqs.version(), self.oqs.place())
    }

    fn supports(&self, suite: Suite) -> bool {
        let sig = suite.sig;
        let signs = sig.oqs_name.is_empty() || self.oqs.sig_sizes(sig.oqs_name).is_some();
        signs && self.supports_kem(suite.kem)
    }

    fn kem_pair(&self, kem: &'static Kem) -> Result<KemPair, PrimitiveError> {
        match kem.kind {
            KemKind::Oqs(name) => {
                let mut public = vec![0; kem.public_bytes];
                let mut secret = Secret::zeros(kem.secret_bytes);
                let made = self.oqs.kem_pair(name, &mut public, &mut secret);
                made.ok_or_else(|| failed(kem.token, "key generation"))?;
                Ok(KemPair { public, secret })
            }
            KemKind::X25519 => {
                let secret = self.random_secret(X25519_BYTES)?;
                let public = PublicKey::from(&scalar(&secret)?).to_bytes().to_vec();
                Ok(KemPair { public, secret })
            }
            KemKind::Hybrid(inner) => {
                let left = self.kem_pair(inner_of("x25519")?)?;
                let right = self.kem_pair(inner_of(inner)?)?;
                Ok(KemPair {
                    public: [left.public, right.public].concat(),
                    secret: Secret::joined(&[&left.secret, &right.secret]),
                })
            }
            KemKind::HqcV5 => {
                let seed = self.random_secret(hqc::SEED_BYTES)?;
                let made = hqc::pair(kem.level, &seed);
                let (public, secret) = made.ok_or_else(|| failed(kem.token, "key generation"))?;
                Ok(KemPair { public, secret })
            }
        }
    }

    fn encapsulate(
        &self,
        kem: &'static Kem,
        public: &[u8],
    ) -> Result<(Vec<u8>, Secret), PrimitiveError> {
        expect("public key", kem.token, public, kem.public_bytes)?;
        match kem.kind {
            KemKind::Oqs(name) => {
                let mut ciphertext = vec![0; kem.ciphertext_bytes];
                let mut shared = Secret::zeros(kem.shared_bytes);
                let made = self
                    .oqs
                    .encapsulate(name, public, &mut ciphertext, &mut shared);
                made.ok_or_else(|| failed(kem.token, "encapsulation"))?;
                Ok((ciphertext, shared))
            }
            KemKind::X25519 => {
                let pair = self.kem_pair(kem)?;
                let shared = x25519(&pair.secret, public)?;
                Ok((pair.public, shared))
            }
            KemKind::Hybrid(inner) => {
                let (first, second) = public.split_at(X25519_BYTES);
                let (left_text, left) = self.encapsulate(inner_of("x25519")?, first)?;
                let (right_text, right) = self.encapsulate(inner_of(inner)?, second)?;
                let shared = Secret::joined(&[&left, &right]);
                Ok(([left_text, right_text].concat(), shared))
            }
            KemKind::HqcV5 => {
                let message = self.random_secret(hqc::message_bytes(kem.level))?;
                let salt = self.random_secret(hqc::SALT_BYTES)?;
                let made = hqc::encapsulate(kem.level, public, &message, &salt);
                made.ok_or_else(|| failed(kem.token, "encapsulation"))
            }
        }
    }

    fn decapsulate(
        &self,
        kem: &'static Kem,
        pair: &KemPair,
        ciphertext: &[u8],
    ) -> Result<Secret, PrimitiveError> {
        expect("ciphertext", kem.token, ciphertext, kem.ciphertext_bytes)?;
        expect("secret key", kem.token, &pair.secret, kem.secret_bytes)?;
        match kem.kind {
            KemKind::Oqs(name) => {
                let mut shared = Secret::zeros(kem.shared_bytes);
                let made = self
                    .oqs
                    .decapsulate(name, &pair.secret, ciphertext, &mut shared);
                made.ok_or_else(|| failed(kem.token, "decapsulation"))?;
                Ok(shared)
            }
            KemKind::X25519 => x25519(&pair.secret, ciphertext),
            KemKind::Hybrid(inner) => {
                let half = |public: &[u8], secret: &[u8]| KemPair {
                    public: public.to_vec(),
                    secret: Secret::copy_of(secret),
                };
                let (public, secret) = (
                    pair.public.split_at(X25519_BYTES),
                    pair.secret.split_at(X25519_BYTES),
                );
                let (first, second) = ciphertext.split_at(X25519_BYTES);
                let left =
                    self.decapsulate(inner_of("x25519")?, &half(public.0, secret.0), first)?;
                let right =
                    self.decapsulate(inner_of(inner)?, &half(public.1, secret.1), second)?;
                Ok(Secret::joined(&[&left, &right]))
            }
            KemKind::HqcV5 => {
                let shared = hqc::decapsulate(kem.level, &pair.secret, ciphertext);
                shared.ok_or_else(|| failed(kem.token, "decapsulation"))
            }
        }
    }

    fn signing_pair(&self, sig: &'static Sig) -> Result<(Vec<u8>, Secret), PrimitiveError> {
        if sig.oqs_name.is_empty() {
            let secret = self.random_secret(sig.secret_bytes)?;
            let pair = Ed25519KeyPair::from_seed_unchecked(&secret)
                .map_err(|_| failed(sig.token, "key generation"))?;
            return Ok((pair.public_key().as_ref().to_vec(), secret));
        }
        let mut public = vec![0; sig.public_bytes];
        let mut secret = Secret::zeros(sig.secret_bytes);
        let made = self.oqs.sig_pair(sig.oqs_name, &mut public, &mut secret);
        made.ok_or_else(|| failed(sig.token, "key generation"))?;
        Ok((public, secret))
    }

    fn sign(
        &self,
        sig: &'static Sig,
        secret: &[u8],
        message: &[u8],
    ) -> Result<Vec<u8>, PrimitiveError> {
        expect("secret key", sig.token, secret, sig.secret_bytes)?;
        if sig.oqs_name.is_empty() {
            let pair = Ed25519KeyPair::from_seed_unchecked(secret)
                .map_err(|_| failed(sig.token, "signing"))?;
            return Ok(pair.sign(message).as_ref().to_vec());
        }
        let mut signature = vec![0; sig.signature_bytes];
        let length = self
            .oqs
            .sign(sig.oqs_name, secret, message, &mut signature)
            .ok_or_else(|| failed(sig.token, "signing"))?;
        signature.truncate(length);
        Ok(signature)
    }

    fn verify(&self, sig: &'static Sig, public: &[u8], message: &[u8], signature: &[u8]) -> bool {
        let most = sig.signature_bytes;
        if public.len() != sig.public_bytes || signature.is_empty() || signature.len() > most {
            return false;
        }
        if sig.oqs_name.is_empty() {
            let key = UnparsedPublicKey::new(&ED25519, public);
            return key.verify(message, signature).is_ok();
        }
        self.oqs.verify(sig.oqs_name, public, message, signature)
    }
}
