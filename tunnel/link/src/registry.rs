//! Algorithms of the registry (docs/PROTOCOL.md, section 2): pure data. `pqtunnel.registry` holds
//! the same but for the KEMs of `hqc-kem`, which the lab does not know.

use crate::hqc;
use pq_core::aead::Algorithm;

/// How a KEM is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KemKind {
    /// By liboqs, under this name.
    Oqs(&'static str),
    /// RFC 7748 in the form of a KEM.
    X25519,
    /// X25519 beside the KEM of this token.
    Hybrid(&'static str),
    /// By the crate `hqc-kem`: HQC of 2025, in other suites than liboqs' HQC of 2023.
    HqcV5,
}

/// A key-encapsulation mechanism; sizes in bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Kem {
    /// Its token in suite ids.
    pub token: &'static str,
    /// How it is carried out.
    pub kind: KemKind,
    /// Its code on the wire.
    pub code: u8,
    /// 1, 3 or 5.
    pub level: u8,
    /// Public key.
    pub public_bytes: usize,
    /// Secret key.
    pub secret_bytes: usize,
    /// Ciphertext.
    pub ciphertext_bytes: usize,
    /// Shared secret.
    pub shared_bytes: usize,
    /// Seconds that it may add to a handshake's deadline.
    pub allowance_s: u64,
}

impl Kem {
    /// The part of the shared secret, at its beginning, that belongs in the key schedule's X25519 slot.
    #[must_use]
    pub fn x25519_bytes(&self) -> usize {
        match self.kind {
            KemKind::Hybrid(_) => 32,
            _ => 0,
        }
    }

    /// Who carries it out.
    #[must_use]
    pub fn provider(&self) -> &'static str {
        match self.kind {
            KemKind::Oqs(_) => "liboqs",
            KemKind::X25519 => "x25519-dalek",
            KemKind::Hybrid(_) => "x25519-dalek and liboqs",
            KemKind::HqcV5 => hqc::PROVIDER,
        }
    }
}

/// A signature scheme; sizes in bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Sig {
    /// Its token in suite ids.
    pub token: &'static str,
    /// liboqs' name; empty for Ed25519.
    pub oqs_name: &'static str,
    /// Its code on the wire.
    pub code: u8,
    /// 1, 3 or 5.
    pub level: u8,
    /// Public key.
    pub public_bytes: usize,
    /// Secret key.
    pub secret_bytes: usize,
    /// Signature: the exact size, or the greatest where `is_variable`.
    pub signature_bytes: usize,
    /// May a signature be shorter?
    pub is_variable: bool,
    /// Seconds that it may add to a handshake's deadline.
    pub allowance_s: u64,
}

/// An AEAD of the registry.
#[derive(Debug, PartialEq, Eq)]
pub struct Aead {
    /// Its token in suite ids.
    pub token: &'static str,
    /// Its code on the wire.
    pub code: u8,
    /// The core's.
    pub algorithm: Algorithm,
}

#[allow(clippy::too_many_arguments)] // a row of a table
const fn kem(
    token: &'static str,
    kind: KemKind,
    code: u8,
    level: u8,
    public_bytes: usize,
    secret_bytes: usize,
    ciphertext_bytes: usize,
    shared_bytes: usize,
    allowance_s: u64,
) -> Kem {
    Kem {
        token,
        kind,
        code,
        level,
        public_bytes,
        secret_bytes,
        ciphertext_bytes,
        shared_bytes,
        allowance_s,
    }
}

#[allow(clippy::too_many_arguments)] // a row of a table
const fn sig(
    token: &'static str,
    oqs_name: &'static str,
    code: u8,
    level: u8,
    public_bytes: usize,
    secret_bytes: usize,
    signature_bytes: usize,
    is_variable: bool,
    allowance_s: u64,
) -> Sig {
    Sig {
        token,
        oqs_name,
        code,
        level,
        public_bytes,
        secret_bytes,
        signature_bytes,
        is_variable,
        allowance_s,
    }
}

const MCELIECE: [&str; 3] = [
    "Classic-McEliece-348864",
    "Classic-McEliece-460896",
    "Classic-McEliece-8192128",
];

/// The KEMs of the 72 suites, then those beside them.
#[rustfmt::skip]
pub static KEMS: [Kem; 16] = [
    kem("mlkem512", KemKind::Oqs("ML-KEM-512"), 0x01, 1, 800, 1632, 768, 32, 1),
    kem("mlkem768", KemKind::Oqs("ML-KEM-768"), 0x02, 3, 1184, 2400, 1088, 32, 1),
    kem("mlkem1024", KemKind::Oqs("ML-KEM-1024"), 0x03, 5, 1568, 3168, 1568, 32, 1),
    kem("hqc128", KemKind::Oqs("HQC-128"), 0x11, 1, 2249, 2305, 4433, 64, 2),
    kem("hqc192", KemKind::Oqs("HQC-192"), 0x12, 3, 4522, 4586, 8978, 64, 2),
    kem("hqc256", KemKind::Oqs("HQC-256"), 0x13, 5, 7245, 7317, 14421, 64, 3),
    kem("classicmceliece348864", KemKind::Oqs(MCELIECE[0]), 0x21, 1, 261_120, 6492, 96, 32, 15),
    kem("classicmceliece460896", KemKind::Oqs(MCELIECE[1]), 0x22, 3, 524_160, 13608, 156, 32, 30),
    kem("classicmceliece8192128", KemKind::Oqs(MCELIECE[2]), 0x23, 5, 1_357_824, 14120, 208, 32, 60),
    kem("x25519", KemKind::X25519, 0x41, 1, 32, 32, 32, 32, 1),
    kem("x25519mlkem512", KemKind::Hybrid("mlkem512"), 0x51, 1, 832, 1664, 800, 64, 1),
    kem("x25519mlkem768", KemKind::Hybrid("mlkem768"), 0x52, 3, 1216, 2432, 1120, 64, 1),
    kem("x25519mlkem1024", KemKind::Hybrid("mlkem1024"), 0x53, 5, 1600, 3200, 1600, 64, 1),
    kem("hqc128v5", KemKind::HqcV5, 0x61, 1, 2241, 2321, 4433, 32, 2),
    kem("hqc192v5", KemKind::HqcV5, 0x62, 3, 4514, 4602, 8978, 32, 2),
    kem("hqc256v5", KemKind::HqcV5, 0x63, 5, 7237, 7333, 14421, 32, 3),
];

/// How many of [`KEMS`] are those of the 72.
pub const MATRIX_KEMS: usize = 9;

/// The signature schemes of the 72 suites, then those beside them, in order of their codes.
#[rustfmt::skip]
pub static SIGS: [Sig; 12] = [
    sig("mldsa44", "ML-DSA-44", 0x01, 1, 1312, 2560, 2420, false, 1),
    sig("mldsa65", "ML-DSA-65", 0x02, 3, 1952, 4032, 3309, false, 1),
    sig("mldsa87", "ML-DSA-87", 0x03, 5, 2592, 4896, 4627, false, 1),
    sig("falcon512", "Falcon-512", 0x11, 1, 897, 1281, 752, true, 1),
    sig("falcon1024", "Falcon-1024", 0x12, 5, 1793, 2305, 1462, true, 1),
    sig("sphincs128s", "SPHINCS+-SHA2-128s-simple", 0x21, 1, 32, 64, 7856, false, 10),
    sig("sphincs192s", "SPHINCS+-SHA2-192s-simple", 0x22, 3, 48, 96, 16224, false, 15),
    sig("sphincs256s", "SPHINCS+-SHA2-256s-simple", 0x23, 5, 64, 128, 29792, false, 15),
    sig("ed25519", "", 0x31, 1, 32, 32, 64, false, 1),
    sig("slhdsa128s", "SLH_DSA_PURE_SHA2_128S", 0x41, 1, 32, 64, 7856, false, 10),
    sig("slhdsa192s", "SLH_DSA_PURE_SHA2_192S", 0x42, 3, 48, 96, 16224, false, 15),
    sig("slhdsa256s", "SLH_DSA_PURE_SHA2_256S", 0x43, 5, 64, 128, 29792, false, 15),
];

/// How many of [`SIGS`] are those of the 72.
pub const MATRIX_SIGS: usize = 8;

/// The AEADs of the 72 suites, then the one beside them.
pub static AEADS: [Aead; 4] = [
    Aead {
        token: "aesgcm",
        code: 0x01,
        algorithm: Algorithm::AesGcm,
    },
    Aead {
        token: "chacha20poly1305",
        code: 0x02,
        algorithm: Algorithm::ChaCha20Poly1305,
    },
    Aead {
        token: "ascon128a",
        code: 0x03,
        algorithm: Algorithm::Ascon128a,
    },
    Aead {
        token: "asconaead128",
        code: 0x04,
        algorithm: Algorithm::AsconAead128,
    },
];

/// How many of [`AEADS`] are those of the 72.
pub const MATRIX_AEADS: usize = 3;

/// The KEM of this token.
#[must_use]
pub fn kem_by_token(token: &str) -> Option<&'static Kem> {
    KEMS.iter().find(|kem| kem.token == token)
}

/// The signature scheme of this token.
#[must_use]
pub fn sig_by_token(token: &str) -> Option<&'static Sig> {
    SIGS.iter().find(|sig| sig.token == token)
}
