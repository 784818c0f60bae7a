//! What a handshake's steps took, for Python's tracer: the same readings in the same places as `pqtunnel.trace`.

use pq_core::cell::locked;
use pq_link::trace::{Kind, Trace};
use std::collections::BTreeMap;
use std::sync::Mutex;

#[cfg(unix)]
use pq_link::raw::clock::thread_cpu_ns;

/// Nothing is metered where the system does not tell it closely: Python's meter says so.
#[cfg(not(unix))]
fn thread_cpu_ns() -> u64 {
    0
}

/// Python's `time.perf_counter_ns`, to the nanosecond: spans of both languages stand on one time line.
#[cfg(target_os = "linux")]
mod clock {
    use pyo3::prelude::*;

    /// Nothing to hold: both read `CLOCK_MONOTONIC`.
    #[derive(Clone, Copy)]
    pub struct Clock;

    impl Clock {
        #[allow(clippy::unnecessary_wraps)] // other systems ask Python
        pub fn new(_theirs: &Bound<'_, PyAny>) -> PyResult<Self> {
            Ok(Self)
        }

        #[allow(clippy::unused_self)] // other systems hold an origin
        pub fn now_ns(self) -> i64 {
            pq_link::raw::clock::monotonic_ns()
        }
    }
}

/// Python's `time.perf_counter_ns`, as closely as two readings can be taken.
#[cfg(not(target_os = "linux"))]
mod clock {
    use pyo3::prelude::*;
    use std::time::{Duration, Instant};

    /// A moment on this clock, and what Python's said then, ns.
    #[derive(Clone, Copy)]
    pub struct Clock(Instant, i64);

    impl Clock {
        /// The closest pair of five, because a thread may lose its core between the two readings.
        pub fn new(theirs: &Bound<'_, PyAny>) -> PyResult<Self> {
            let mut closest: (Duration, Self) = (Duration::MAX, Self(Instant::now(), 0));
            for _ in 0..5 {
                let before = Instant::now();
                let now_ns: i64 = theirs.call0()?.extract()?;
                let apart = before.elapsed();
                if apart < closest.0 {
                    closest = (apart, Self(before + apart / 2, now_ns));
                }
            }
            Ok(closest.1)
        }

        pub fn now_ns(self) -> i64 {
            let since = self.0.elapsed().as_nanos();
            self.1 + i64::try_from(since).unwrap_or(i64::MAX / 2)
        }
    }
}

pub use clock::Clock;

/// (step, `start_ns`) of each span, in order.
pub type Marks = Vec<(&'static str, i64)>;

/// What was recorded.
#[derive(Default)]
pub struct Recorded {
    /// Spans by their beginnings.
    pub marks: Marks,
    /// (place in `marks`, length of what the step made).
    pub sizes: Vec<(usize, usize)>,
    /// (place in `marks`, thread's processor time at its start, at its end).
    pub cpu: Vec<(usize, u64, u64)>,
    /// Primitives by their counters.
    pub counts: BTreeMap<&'static str, u64>,
    /// Is the open step a primitive?
    is_crypto: bool,
}

/// Records, for one conversation.
pub struct Recorder {
    clock: Clock,
    /// Are primitives' spans to carry processor time?
    is_metered: bool,
    recorded: Mutex<Recorded>,
}

impl Recorder {
    /// Nothing yet.
    pub fn new(clock: Clock, is_metered: bool) -> Self {
        Self {
            clock,
            is_metered,
            recorded: Mutex::default(),
        }
    }

    /// What was recorded, and when the last step ended.
    pub fn finish(&self) -> (Recorded, i64) {
        let end_ns = self.clock.now_ns();
        (std::mem::take(&mut *locked(&self.recorded)), end_ns)
    }
}

fn close(recorded: &mut Recorded, cpu_ns: u64) {
    let last = recorded.marks.len().checked_sub(1);
    match recorded.cpu.last_mut() {
        Some(of) if Some(of.0) == last => of.2 = cpu_ns,
        _ => {}
    }
}

impl Trace for Recorder {
    fn mark(&self, step: &'static str, kind: Kind) {
        let recorded = &mut *locked(&self.recorded);
        // The thread's clock is read on the side of the edge that is no primitive, so that none pays for it.
        let before = (self.is_metered && kind == Kind::Crypto).then(thread_cpu_ns);
        let start_ns = self.clock.now_ns();
        let is_after = std::mem::replace(&mut recorded.is_crypto, kind == Kind::Crypto);
        let read = match before {
            Some(cpu_ns) => Some(cpu_ns),
            None if self.is_metered && is_after => Some(thread_cpu_ns()),
            None => None,
        };
        if let Some(cpu_ns) = read.filter(|_| is_after) {
            close(recorded, cpu_ns);
        }
        let place = recorded.marks.len();
        recorded.marks.push((step, start_ns));
        if let Some(cpu_ns) = before {
            recorded.cpu.push((place, cpu_ns, cpu_ns));
        }
    }

    fn size(&self, bytes: usize) {
        let recorded = &mut *locked(&self.recorded);
        if let Some(place) = recorded.marks.len().checked_sub(1) {
            recorded.sizes.push((place, bytes));
        }
    }

    fn count(&self, counter: &'static str) {
        *locked(&self.recorded).counts.entry(counter).or_default() += 1;
    }
}
