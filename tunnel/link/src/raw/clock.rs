//! Processor time of the calling thread, which `std` does not tell.

use std::mem::zeroed;

/// Nanoseconds that this thread has had a processor; 0 where the system does not say.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    // SAFETY: a plain C structure for which zeros are valid; the call writes it and keeps nothing.
    let (result, time) = unsafe {
        let mut time = zeroed::<libc::timespec>();
        let result = libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time);
        (result, time)
    };
    if result != 0 {
        return 0;
    }
    // Neither part is negative: it counts from the thread's beginning.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
