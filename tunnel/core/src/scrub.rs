//! Erasing what returned functions left on the stack.

/// Overwrite the stack below the caller, where what it called may have left copies of keys: a function that returned
/// does not erase its locals, and a moved value stays behind where it was. Takes some microseconds.
pub fn scrub_stack() {
    scrub::<{ 128 * 1024 }>();
}

/// The same, for what goes deeper.
#[inline(never)]
#[allow(clippy::large_stack_arrays)] // the stack is what it is about
pub fn scrub<const BYTES: usize>() {
    let below = [0_u8; BYTES];
    std::hint::black_box(&below);
}
