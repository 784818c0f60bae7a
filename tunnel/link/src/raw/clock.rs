//! What `std` does not tell: processor time of a thread and of a process, and the monotonic clock that processes share.

use std::mem::zeroed;

/// Nanoseconds that this thread has had a processor; 0 where the system does not say.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID).map_or(0, i64::unsigned_abs)
}

/// Monotonic, ns: the same for every process of one boot; 0 where the system does not say.
#[must_use]
pub fn monotonic_ns() -> i64 {
    read(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// Nanoseconds that all threads of a process have had a processor, those that ended too; `None`: it is gone.
#[must_use]
pub fn process_cpu_ns(process: u32) -> Option<i64> {
    let process = libc::pid_t::try_from(process).ok()?;
    // SAFETY: the call writes one integer and keeps nothing; it is read only where the call says that it did.
    let clock = unsafe {
        let mut clock = zeroed::<libc::clockid_t>();
        (libc::clock_getcpuclockid(process, &raw mut clock) == 0).then_some(clock)
    }?;
    read(clock)
}

fn read(clock: libc::clockid_t) -> Option<i64> {
    // SAFETY: a plain C structure for which zeros are valid; the call writes it and keeps nothing.
    let (result, time) = unsafe {
        let mut time = zeroed::<libc::timespec>();
        let result = libc::clock_gettime(clock, &raw mut time);
        (result, time)
    };
    #[allow(clippy::useless_conversion)] // their widths are the platform's
    (result == 0).then(|| i64::from(time.tv_sec) * 1_000_000_000 + i64::from(time.tv_nsec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_its_time_and_one_that_is_gone_is_not() {
        let before = process_cpu_ns(std::process::id()).expect("it runs");
        let begun = monotonic_ns();
        while monotonic_ns() < begun + 20_000_000 {}
        assert!(process_cpu_ns(std::process::id()).expect("it runs") > before);
        assert_eq!(process_cpu_ns(u32::MAX), None);
    }
}
