//! The functions of a liboqs shared library, loaded by its path (without the feature `static-oqs`).

use crate::raw::oqs::{
    Decaps, Encaps, Functions, Init, KemHead, New, Pair, SigHead, Sign, Verify, Version,
};
use std::ffi::{c_void, CStr};
use std::path::Path;
use std::ptr::NonNull;

#[cfg(unix)]
mod system {
    use super::{c_void, CStr, NonNull, Path};
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt as _;

    /// What `dlopen` or `dlsym` said last.
    fn complaint() -> String {
        // SAFETY: dlerror gives null or a string that lives until this thread's next dl call.
        unsafe {
            let text = libc::dlerror();
            if text.is_null() {
                return "no reason given".to_owned();
            }
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }

    pub fn open(path: &Path) -> Result<NonNull<c_void>, String> {
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| "the library's path holds a zero byte".to_owned())?;
        // SAFETY: the name ends with a zero. Initialisers of the library run: it is the one the caller chose to trust.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).ok_or_else(complaint)
    }

    pub fn symbol(library: NonNull<c_void>, name: &CStr) -> Result<NonNull<c_void>, String> {
        // SAFETY: the handle is open, the name ends with a zero.
        let found = unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) };
        NonNull::new(found).ok_or_else(complaint)
    }
}

#[cfg(windows)]
mod system {
    use super::{c_void, CStr, NonNull, Path};
    use std::ffi::c_char;
    use std::io;
    use std::os::windows::ffi::OsStrExt as _;

    // MSDN, libloaderapi.h.
    #[link(name = "kernel32")]
    extern "system" {
        fn LoadLibraryW(name: *const u16) -> *mut c_void;
        fn GetProcAddress(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }

    fn complaint() -> String {
        io::Error::last_os_error().to_string()
    }

    pub fn open(path: &Path) -> Result<NonNull<c_void>, String> {
        let name: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
        // SAFETY: the name ends with a zero. Initialisers of the library run: it is the one the caller chose to trust.
        let handle = unsafe { LoadLibraryW(name.as_ptr()) };
        NonNull::new(handle).ok_or_else(complaint)
    }

    pub fn symbol(library: NonNull<c_void>, name: &CStr) -> Result<NonNull<c_void>, String> {
        // SAFETY: the library is loaded, the name ends with a zero.
        let found = unsafe { GetProcAddress(library.as_ptr(), name.as_ptr()) };
        NonNull::new(found).ok_or_else(complaint)
    }
}

/// Where the library is.
pub(super) fn place(path: &Path) -> String {
    path.display().to_string()
}

/// Load the library of this file; it stays loaded until the process ends.
pub(super) fn functions(path: &Path) -> Result<Functions, String> {
    use std::mem::transmute;
    let library = system::open(path)?;
    let find = |name| system::symbol(library, name).map(NonNull::as_ptr);
    // SAFETY: each symbol is the liboqs function of this name, whose C declaration the type repeats (kem.h, sig.h,
    // common.h of 0.13).
    unsafe {
        Ok(Functions {
            init: transmute::<*mut c_void, Init>(find(c"OQS_init")?),
            version: transmute::<*mut c_void, Version>(find(c"OQS_version")?),
            kem_new: transmute::<*mut c_void, New<KemHead>>(find(c"OQS_KEM_new")?),
            kem_keypair: transmute::<*mut c_void, Pair<KemHead>>(find(c"OQS_KEM_keypair")?),
            kem_encaps: transmute::<*mut c_void, Encaps>(find(c"OQS_KEM_encaps")?),
            kem_decaps: transmute::<*mut c_void, Decaps>(find(c"OQS_KEM_decaps")?),
            sig_new: transmute::<*mut c_void, New<SigHead>>(find(c"OQS_SIG_new")?),
            sig_keypair: transmute::<*mut c_void, Pair<SigHead>>(find(c"OQS_SIG_keypair")?),
            sig_sign: transmute::<*mut c_void, Sign>(find(c"OQS_SIG_sign")?),
            sig_verify: transmute::<*mut c_void, Verify>(find(c"OQS_SIG_verify")?),
        })
    }
}
