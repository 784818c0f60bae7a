//! The functions of the liboqs that is linked into this program (feature `static-oqs`).

use crate::raw::oqs::{Functions, KemHead, SigHead};
use std::ffi::{c_char, c_int};
use std::path::Path;

// The declarations of liboqs 0.13: common.h, kem.h, sig.h.
extern "C" {
    fn OQS_init();
    fn OQS_version() -> *const c_char;
    fn OQS_KEM_new(name: *const c_char) -> *mut KemHead;
    fn OQS_KEM_keypair(kem: *const KemHead, public: *mut u8, secret: *mut u8) -> c_int;
    fn OQS_KEM_encaps(
        kem: *const KemHead,
        ciphertext: *mut u8,
        shared: *mut u8,
        public: *const u8,
    ) -> c_int;
    fn OQS_KEM_decaps(
        kem: *const KemHead,
        shared: *mut u8,
        ciphertext: *const u8,
        secret: *const u8,
    ) -> c_int;
    fn OQS_SIG_new(name: *const c_char) -> *mut SigHead;
    fn OQS_SIG_keypair(sig: *const SigHead, public: *mut u8, secret: *mut u8) -> c_int;
    fn OQS_SIG_sign(
        sig: *const SigHead,
        signature: *mut u8,
        length: *mut usize,
        message: *const u8,
        message_length: usize,
        secret: *const u8,
    ) -> c_int;
    fn OQS_SIG_verify(
        sig: *const SigHead,
        message: *const u8,
        message_length: usize,
        signature: *const u8,
        length: usize,
        public: *const u8,
    ) -> c_int;
}

/// What this program is to say of where its liboqs is.
pub(super) fn place(_path: &Path) -> String {
    "in this program".to_owned()
}

/// The path means nothing here, and nothing can fail: the interface is that of `loaded`.
#[allow(clippy::unnecessary_wraps)]
pub(super) fn functions(_path: &Path) -> Result<Functions, String> {
    Ok(Functions {
        init: OQS_init,
        version: OQS_version,
        kem_new: OQS_KEM_new,
        kem_keypair: OQS_KEM_keypair,
        kem_encaps: OQS_KEM_encaps,
        kem_decaps: OQS_KEM_decaps,
        sig_new: OQS_SIG_new,
        sig_keypair: OQS_SIG_keypair,
        sig_sign: OQS_SIG_sign,
        sig_verify: OQS_SIG_verify,
    })
}
