//! A value whose memory is overwritten after it is dropped.
//!
//! `ring` does not erase its key schedules. Kept on the heap behind this type they never move after they are
//! made, so erasing that one place erases them. (The stack frame that made the value is beyond reach.)

use std::mem::MaybeUninit;
use std::ops::Deref;
use zeroize::Zeroize;

/// Owns a `T` on the heap; its bytes are zero before the memory is given back.
pub struct Wiped<T>(Box<MaybeUninit<T>>);

impl<T> Wiped<T> {
    /// Move `value` to the heap.
    pub fn new(value: T) -> Self {
        Self(Box::new(MaybeUninit::new(value)))
    }

    /// End the value and overwrite its bytes. By itself so that a test can look at them before they are given back.
    ///
    /// # Safety
    /// Nothing may use the value afterwards, and a `T` that needs dropping must not be erased twice.
    unsafe fn erase(&mut self) {
        // SAFETY: initialised by `new`; the caller erases it once.
        unsafe { self.0.assume_init_drop() };
        self.0.zeroize();
    }
}

impl<T> Deref for Wiped<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `new` is the only constructor and initialises the value; only `drop` ends it.
        unsafe { self.0.assume_init_ref() }
    }
}

impl<T> Drop for Wiped<T> {
    fn drop(&mut self) {
        // SAFETY: dropped once: nothing touches the value after this line, and `MaybeUninit` never drops its
        // content by itself.
        unsafe { self.erase() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn value_is_dropped_once() {
        struct Counted(Rc<Cell<u32>>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let count = Rc::new(Cell::new(0));
        let wiped = Wiped::new(Counted(Rc::clone(&count)));
        assert_eq!(wiped.deref().0.get(), 0);
        drop(wiped);
        assert_eq!(count.get(), 1);
    }

    #[test]
    fn bytes_are_zero_afterwards() {
        let mut wiped = Wiped::new([0xA5_u8; 64]);
        assert_eq!(*wiped, [0xA5; 64]);
        // SAFETY: bytes need no drop, so `drop` may erase them again; every bit pattern of them is valid to read.
        unsafe { wiped.erase() };
        assert_eq!(*wiped, [0; 64]);
    }
}
