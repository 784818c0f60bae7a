//! Threads that handshakes use one after another. A thread's start, and its stack that goes back to the system at its end,
//! were a third of a station's processor time where many drones dial.

use pq_core::cell::locked;
use std::io;
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex, Weak};

/// What a thread is to do.
pub type Job = Box<dyn FnOnce() + Send>;

/// Threads that have ended a job and wait for the next. As many jobs at once as are given; a thread that finds enough
/// others waiting ends.
pub struct Workers {
    name: &'static str,
    most_idle: usize,
    idle: Mutex<Vec<Sender<Job>>>,
}

impl Workers {
    /// Nobody works yet.
    #[must_use]
    pub fn new(name: &'static str, most_idle: usize) -> Arc<Self> {
        Arc::new(Self {
            name,
            most_idle,
            idle: Mutex::default(),
        })
    }

    /// Do this now: by the thread that ended last, whose stack is warm, or by a new one.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn give(self: &Arc<Self>, mut job: Job) -> io::Result<()> {
        while let Some(waiting) = locked(&self.idle).pop() {
            match waiting.send(job) {
                Ok(()) => return Ok(()),
                Err(refused) => job = refused.0, // that thread is gone
            }
        }
        let own = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name(self.name.to_owned());
        thread.spawn(move || work(&own, job)).map(drop)
    }
}

/// One job after another, until nobody gives any or enough others wait.
fn work(workers: &Weak<Workers>, first: Job) {
    let mut next = Some(first);
    while let Some(job) = next.take() {
        job();
        let Some(workers) = workers.upgrade() else {
            return;
        };
        // The one sender is the workers': when they are gone there is nothing to wait for.
        let (sender, receiver) = channel();
        {
            let idle = &mut *locked(&workers.idle);
            if idle.len() >= workers.most_idle {
                return;
            }
            idle.push(sender);
        }
        drop(workers);
        next = receiver.recv().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::thread::{current, ThreadId};
    use std::time::{Duration, Instant};

    fn waiting(workers: &Workers) -> usize {
        locked(&workers.idle).len()
    }

    fn until(is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn one_thread_does_what_comes_one_after_another() {
        let workers = Workers::new("worker", 2);
        let seen: Arc<Mutex<HashSet<ThreadId>>> = Arc::default();
        for _ in 0..20 {
            let seen = Arc::clone(&seen);
            let note = move || {
                locked(&seen).insert(current().id());
            };
            workers.give(Box::new(note)).expect("a thread");
            until(|| waiting(&workers) == 1);
        }
        assert_eq!(locked(&seen).len(), 1);
    }

    #[test]
    fn all_jobs_run_at_once_and_few_threads_stay() {
        const JOBS: usize = 16;
        let workers = Workers::new("worker", 2);
        let together = Arc::new(Barrier::new(JOBS + 1));
        for _ in 0..JOBS {
            let together = Arc::clone(&together);
            let meet = move || {
                together.wait();
            };
            workers.give(Box::new(meet)).expect("a thread");
        }
        together.wait(); // none would pass where one had to wait for another's thread
        until(|| waiting(&workers) == 2);
    }

    #[test]
    fn nobody_waits_for_a_station_that_is_gone() {
        let workers = Workers::new("worker", 2);
        let alive = Arc::new(());
        let held = Arc::downgrade(&alive);
        thread_local!(static KEPT: std::cell::RefCell<Option<Arc<()>>> = const { std::cell::RefCell::new(None) });
        let keep = move || KEPT.with_borrow_mut(|kept| *kept = Some(alive));
        workers.give(Box::new(keep)).expect("a thread");
        until(|| waiting(&workers) == 1);
        assert!(held.upgrade().is_some());
        drop(workers);
        until(|| held.upgrade().is_none()); // with its thread
    }
}
