//! Erasing what returned functions left on the stack.

/// Overwrite the stack below the caller, where what it called may have left copies of keys: a function that returned
/// does not erase its locals, and a moved value stays behind where it was. Takes some microseconds.
pub fn scrub_stack() {
    scrub::<{ 128 * 1024 }>();
}

/// The same after a batch of datagrams, and as deep as sealing and opening one goes: some hundred nanoseconds. Searches of
/// the memory of agents and of `pqlink` tell whether that is deep enough.
pub(crate) fn scrub_packets() {
    scrub::<{ 16 * 1024 }>();
}

/// Run `work`, a function of its own, so far down the stack that the frames of whoever scrubs afterwards do not cover it.
#[inline(never)]
pub(crate) fn below<T>(work: impl FnOnce() -> T) -> T {
    let between = [0_u8; 512];
    std::hint::black_box(&between);
    let done = work();
    std::hint::black_box(&between);
    done
}

/// The same, for what goes deeper.
#[inline(never)]
#[allow(clippy::large_stack_arrays)] // the stack is what it is about
pub fn scrub<const BYTES: usize>() {
    let below = [0_u8; BYTES];
    std::hint::black_box(&below);
}
