//! Absolute deadlines on CLOCK_MONOTONIC, and waiting for them at little cost.
//!
//! Two kernel timers take turns, each with twice the period. When one rings the other is armed already, so arming the
//! first again is never the next event of this processor, and its clock need not be set: on a virtual machine that saves
//! an exit to the hypervisor for every sample (8 to 20 µs where this was written).

use rustix::io::{read, Errno};
use rustix::time::{
    clock_gettime, timerfd_create, timerfd_settime, ClockId, Itimerspec, TimerfdClockId,
    TimerfdFlags, TimerfdTimerFlags, Timespec,
};
use std::io;
use std::os::fd::OwnedFd;

const TIMERS: i64 = 2;

/// CLOCK_MONOTONIC in nanoseconds.
#[must_use]
pub fn now_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Deadline k is `start_ns` + k × `period_ns`.
pub struct Pace {
    pub start_ns: i64,
    pub period_ns: i64,
    timers: [OwnedFd; TIMERS as usize],
}

impl Pace {
    /// # Errors
    /// When the kernel gives no timer.
    pub fn new(start_ns: i64, period_ns: i64) -> io::Result<Self> {
        Ok(Self {
            start_ns,
            period_ns,
            timers: [
                timer(start_ns, period_ns * TIMERS)?,
                timer(start_ns + period_ns, period_ns * TIMERS)?,
            ],
        })
    }

    /// Monotonic time before which deadline `index` is not due.
    #[must_use]
    pub fn deadline_ns(&self, index: i64) -> i64 {
        self.start_ns + index * self.period_ns
    }

    /// Sleep until deadline `index`; returns the time, or None after a signal.
    ///
    /// # Errors
    /// When the timer cannot be read.
    pub fn wait(&self, index: i64) -> io::Result<Option<i64>> {
        let deadline_ns = self.deadline_ns(index);
        let mut now = now_ns();
        // A timer rings as well for deadlines that were met without it: then it is read again.
        while now < deadline_ns {
            let mut expirations = [0_u8; 8];
            match read(&self.timers[(index % TIMERS) as usize], &mut expirations) {
                Ok(_) => now = now_ns(),
                Err(Errno::INTR) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(now))
    }
}

fn timer(first_ns: i64, interval_ns: i64) -> io::Result<OwnedFd> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let rings = Itimerspec {
        it_interval: spec(interval_ns),
        it_value: spec(first_ns),
    };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &rings)?;
    Ok(timer)
}

fn spec(ns: i64) -> Timespec {
    Timespec {
        tv_sec: ns / 1_000_000_000,
        tv_nsec: ns % 1_000_000_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_deadline_is_met_early_and_missed_ones_do_not_delay() {
        let pace = Pace::new(now_ns() + 2_000_000, 2_000_000).unwrap();
        for index in [0, 1, 2, 5, 6, 9] {
            let now = pace.wait(index).unwrap().unwrap();
            assert!(now >= pace.deadline_ns(index));
        }
        std::thread::sleep(std::time::Duration::from_millis(15));
        let before = now_ns();
        assert!(pace.wait(10).unwrap().unwrap() >= before);
        let next = (now_ns() - pace.start_ns) / pace.period_ns + 2;
        assert!(pace.wait(next).unwrap().unwrap() >= pace.deadline_ns(next));
    }
}
