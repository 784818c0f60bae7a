//! KEMs and signatures of liboqs: of the one linked into this program (`linked`), or of a shared library (`loaded`).
//!
//! The library stays until the process ends, and its algorithm objects with it: pointers into it never dangle.
//! Lengths of all buffers are compared with what the library itself says before each call, because C reads and writes
//! as many bytes as the algorithm has. liboqs 0.13 keeps no state between calls but its source of randomness, which is
//! the system's and safe to use from any thread.

#[cfg(feature = "static-oqs")]
use crate::raw::linked as source;
#[cfg(not(feature = "static-oqs"))]
use crate::raw::loaded as source;
use std::ffi::{c_char, c_int, CStr, CString};
use std::path::Path;
use std::ptr::NonNull;

/// The beginning of `OQS_KEM` in liboqs 0.13 (src/kem/kem.h).
#[repr(C)]
pub(super) struct KemHead {
    method_name: *const c_char,
    alg_version: *const c_char,
    claimed_nist_level: u8,
    ind_cca: bool,
    length_public_key: usize,
    length_secret_key: usize,
    length_ciphertext: usize,
    length_shared_secret: usize,
}

/// The beginning of `OQS_SIG` in liboqs 0.13 (src/sig/sig.h). The flags between level and lengths fit the padding.
#[repr(C)]
pub(super) struct SigHead {
    method_name: *const c_char,
    alg_version: *const c_char,
    claimed_nist_level: u8,
    flags: [bool; 3],
    length_public_key: usize,
    length_secret_key: usize,
    length_signature: usize,
}

pub(super) type New<T> = unsafe extern "C" fn(*const c_char) -> *mut T;
pub(super) type Pair<T> = unsafe extern "C" fn(*const T, *mut u8, *mut u8) -> c_int;
pub(super) type Encaps = unsafe extern "C" fn(*const KemHead, *mut u8, *mut u8, *const u8) -> c_int;
pub(super) type Decaps =
    unsafe extern "C" fn(*const KemHead, *mut u8, *const u8, *const u8) -> c_int;
pub(super) type Sign =
    unsafe extern "C" fn(*const SigHead, *mut u8, *mut usize, *const u8, usize, *const u8) -> c_int;
pub(super) type Verify =
    unsafe extern "C" fn(*const SigHead, *const u8, usize, *const u8, usize, *const u8) -> c_int;
pub(super) type Init = unsafe extern "C" fn();
pub(super) type Version = unsafe extern "C" fn() -> *const c_char;

/// The functions of a liboqs that are used here.
pub(super) struct Functions {
    pub init: Init,
    pub version: Version,
    pub kem_new: New<KemHead>,
    pub kem_keypair: Pair<KemHead>,
    pub kem_encaps: Encaps,
    pub kem_decaps: Decaps,
    pub sig_new: New<SigHead>,
    pub sig_keypair: Pair<SigHead>,
    pub sig_sign: Sign,
    pub sig_verify: Verify,
}

/// A liboqs, and an object of each algorithm that it holds.
pub struct Oqs {
    call: Functions,
    place: String,
    kems: Vec<(&'static str, NonNull<KemHead>)>,
    sigs: Vec<(&'static str, NonNull<SigHead>)>,
}

// SAFETY: the objects are written by OQS_*_new and only read afterwards; the functions may be called from any thread.
unsafe impl Send for Oqs {}
// SAFETY: as above.
unsafe impl Sync for Oqs {}

impl Oqs {
    /// An object of each of these algorithms that the library holds: of the one linked into this program, or of the
    /// shared one in this file.
    ///
    /// # Errors
    /// Text: no library, or one without a function that is needed.
    pub fn load(path: &Path, kems: &[&'static str], sigs: &[&'static str]) -> Result<Self, String> {
        let call = source::functions(path)?;
        // SAFETY: OQS_init may be called more than once, and before anything else, which this is; the two makers are
        // those of what their lists hold.
        let (kems, sigs) = unsafe {
            (call.init)();
            (made(call.kem_new, kems), made(call.sig_new, sigs))
        };
        Ok(Self {
            place: source::place(path),
            call,
            kems,
            sigs,
        })
    }

    /// Where the library is.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The library's own word of its version.
    #[must_use]
    pub fn version(&self) -> String {
        // SAFETY: gives a string of the library's, which stays loaded.
        unsafe { CStr::from_ptr((self.call.version)()) }
            .to_string_lossy()
            .into_owned()
    }

    fn kem(&self, name: &str) -> Option<&KemHead> {
        let mut found = self.kems.iter().filter(|(held, _)| *held == name);
        // SAFETY: made by OQS_KEM_new and never freed; nobody writes to it.
        found.next().map(|(_, object)| unsafe { object.as_ref() })
    }

    fn sig(&self, name: &str) -> Option<&SigHead> {
        let mut found = self.sigs.iter().filter(|(held, _)| *held == name);
        // SAFETY: made by OQS_SIG_new and never freed; nobody writes to it.
        found.next().map(|(_, object)| unsafe { object.as_ref() })
    }

    /// Lengths of public key, secret key, ciphertext and shared secret; `None` where this build lacks the KEM.
    #[must_use]
    pub fn kem_sizes(&self, name: &str) -> Option<[usize; 4]> {
        let kem = self.kem(name)?;
        Some([
            kem.length_public_key,
            kem.length_secret_key,
            kem.length_ciphertext,
            kem.length_shared_secret,
        ])
    }

    /// Lengths of public key, secret key and greatest signature; `None` where this build lacks the scheme.
    #[must_use]
    pub fn sig_sizes(&self, name: &str) -> Option<[usize; 3]> {
        let sig = self.sig(name)?;
        Some([
            sig.length_public_key,
            sig.length_secret_key,
            sig.length_signature,
        ])
    }

    /// Fill in a fresh key pair; `None`: it failed, or a buffer has another length.
    #[must_use]
    pub fn kem_pair(&self, name: &str, public: &mut [u8], secret: &mut [u8]) -> Option<()> {
        let kem = self.kem(name)?;
        fits(public, kem.length_public_key)?;
        fits(secret, kem.length_secret_key)?;
        // SAFETY: the object is the library's, both buffers have the lengths that it says and do not overlap.
        let status =
            unsafe { (self.call.kem_keypair)(kem, public.as_mut_ptr(), secret.as_mut_ptr()) };
        (status == 0).then_some(())
    }

    /// Fill in ciphertext and shared secret; `None` as above.
    #[must_use]
    pub fn encapsulate(
        &self,
        name: &str,
        public: &[u8],
        ciphertext: &mut [u8],
        shared: &mut [u8],
    ) -> Option<()> {
        let kem = self.kem(name)?;
        fits(public, kem.length_public_key)?;
        fits(ciphertext, kem.length_ciphertext)?;
        fits(shared, kem.length_shared_secret)?;
        let (ciphertext, shared) = (ciphertext.as_mut_ptr(), shared.as_mut_ptr());
        // SAFETY: the object is the library's, all three buffers have the lengths that it says; it reads `public`.
        let status = unsafe { (self.call.kem_encaps)(kem, ciphertext, shared, public.as_ptr()) };
        (status == 0).then_some(())
    }

    /// Fill in the shared secret; `None` as above.
    #[must_use]
    pub fn decapsulate(
        &self,
        name: &str,
        secret: &[u8],
        ciphertext: &[u8],
        shared: &mut [u8],
    ) -> Option<()> {
        let kem = self.kem(name)?;
        fits(secret, kem.length_secret_key)?;
        fits(ciphertext, kem.length_ciphertext)?;
        fits(shared, kem.length_shared_secret)?;
        let (ciphertext, secret) = (ciphertext.as_ptr(), secret.as_ptr());
        // SAFETY: the object is the library's, all three buffers have the lengths that it says; it writes `shared`.
        let status =
            unsafe { (self.call.kem_decaps)(kem, shared.as_mut_ptr(), ciphertext, secret) };
        (status == 0).then_some(())
    }

    /// Fill in a fresh signing pair; `None` as above.
    #[must_use]
    pub fn sig_pair(&self, name: &str, public: &mut [u8], secret: &mut [u8]) -> Option<()> {
        let sig = self.sig(name)?;
        fits(public, sig.length_public_key)?;
        fits(secret, sig.length_secret_key)?;
        // SAFETY: the object is the library's, both buffers have the lengths that it says and do not overlap.
        let status =
            unsafe { (self.call.sig_keypair)(sig, public.as_mut_ptr(), secret.as_mut_ptr()) };
        (status == 0).then_some(())
    }

    /// Sign; the signature's length, at most the buffer's. `None` as above.
    #[must_use]
    pub fn sign(
        &self,
        name: &str,
        secret: &[u8],
        message: &[u8],
        signature: &mut [u8],
    ) -> Option<usize> {
        let sig = self.sig(name)?;
        fits(secret, sig.length_secret_key)?;
        fits(signature, sig.length_signature)?;
        let mut length = signature.len();
        // SAFETY: the object is the library's, secret and signature have the lengths that it says, the message's is
        // given; it writes the signature and its length.
        let status = unsafe {
            (self.call.sig_sign)(
                sig,
                signature.as_mut_ptr(),
                &raw mut length,
                message.as_ptr(),
                message.len(),
                secret.as_ptr(),
            )
        };
        (status == 0 && length <= signature.len()).then_some(length)
    }

    /// Does it verify? False as well where this build lacks the scheme, or a length is wrong.
    #[must_use]
    pub fn verify(&self, name: &str, public: &[u8], message: &[u8], signature: &[u8]) -> bool {
        let Some(sig) = self.sig(name) else {
            return false;
        };
        if public.len() != sig.length_public_key || signature.len() > sig.length_signature {
            return false;
        }
        // SAFETY: the object is the library's, the public key has the length that it says, the other two lengths are
        // given; it writes nothing.
        let status = unsafe {
            (self.call.sig_verify)(
                sig,
                message.as_ptr(),
                message.len(),
                signature.as_ptr(),
                signature.len(),
                public.as_ptr(),
            )
        };
        status == 0
    }
}

fn fits(buffer: &[u8], length: usize) -> Option<()> {
    (buffer.len() == length).then_some(())
}

/// An object of each algorithm that the library holds.
///
/// # Safety
/// `new` is OQS_KEM_new or OQS_SIG_new, and `T` the beginning of what it makes.
unsafe fn made<T>(new: New<T>, names: &[&'static str]) -> Vec<(&'static str, NonNull<T>)> {
    let mut objects = Vec::new();
    for name in names {
        let Ok(text) = CString::new(*name) else {
            continue; // no name of the registry holds a zero byte
        };
        // SAFETY: the text ends with a zero; null says that this build lacks the algorithm.
        if let Some(object) = NonNull::new(unsafe { new(text.as_ptr()) }) {
            objects.push((*name, object));
        }
    }
    objects
}
