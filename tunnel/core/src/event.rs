//! A flag between threads: set once, seen for the price of a load, waited for with a limit.

use crate::cell::locked;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A flag that can be waited for.
#[derive(Default)]
pub struct Event {
    set: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Event {
    /// Set it; costs one load when it is set already.
    pub fn set(&self) {
        if !self.set.load(Ordering::Acquire) {
            let _held = locked(&self.lock);
            self.set.store(true, Ordering::Release);
            self.changed.notify_all();
        }
    }

    /// Clear it.
    pub fn clear(&self) {
        self.set.store(false, Ordering::Release);
    }

    /// Is it set?
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// Wait until it is set, at most `limit`; says whether it is.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> bool {
        let held = locked(&self.lock);
        let waited = self
            .changed
            .wait_timeout_while(held, limit, |()| !self.is_set());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        self.is_set()
    }
}
