//! Ctrl-C, Ctrl-Break, closing of the console, logging off and shutting down set a flag.

use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static STOPPING: AtomicBool = AtomicBool::new(false);

#[link(name = "kernel32")]
extern "system" {
    fn SetConsoleCtrlHandler(
        handler: Option<unsafe extern "system" fn(kind: u32) -> c_int>,
        add: c_int,
    ) -> c_int;
}

/// From this kind on (`CTRL_CLOSE_EVENT`) the process ends as soon as the handler returns.
const CLOSING: u32 = 2;
/// Time to tidy up in that case; Windows itself waits 5 s.
const TIDYING: Duration = Duration::from_secs(3);

unsafe extern "system" fn note(kind: u32) -> c_int {
    STOPPING.store(true, Ordering::SeqCst);
    if kind >= CLOSING {
        // A thread of its own, which ends with the process.
        std::thread::sleep(TIDYING);
    }
    1
}

/// From now on whatever ends a console's program asks for a clean stop.
///
/// # Errors
/// What the system said.
pub fn catch() -> io::Result<()> {
    // SAFETY: the handler has the signature that Windows calls, lives as long as the program, and stores to an atomic.
    if unsafe { SetConsoleCtrlHandler(Some(note), 1) } == 0 {
        return Err(io::Error::last_os_error());
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
