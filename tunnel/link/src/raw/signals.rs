//! SIGTERM and SIGINT set a flag; nothing else happens in the handler.

use std::io;
use std::mem::zeroed;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

static STOPPING: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    // A store to an atomic is all that a handler may do here, and all that it does.
    STOPPING.store(true, Ordering::SeqCst);
}

/// From now on SIGTERM and SIGINT ask for a clean stop, and a peer that closed its socket raises no SIGPIPE.
///
/// # Errors
/// What the system said.
pub fn catch() -> io::Result<()> {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let handler = note as extern "C" fn(libc::c_int);
        // SAFETY: `action` is a plain C structure for which zeros are valid; the handler is async-signal-safe, has the
        // signature that sa_sigaction's union takes without SA_SIGINFO, and lives as long as the program.
        let result = unsafe {
            let mut action = zeroed::<libc::sigaction>();
            action.sa_sigaction = handler as libc::sighandler_t;
            libc::sigaction(signal, &raw const action, ptr::null_mut())
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Ask for a clean stop.
pub fn stop() {
    STOPPING.store(true, Ordering::SeqCst);
}

/// Was a stop asked for?
#[must_use]
pub fn stopping() -> bool {
    STOPPING.load(Ordering::SeqCst)
}
