//! A stop that is asked for by the end of standard input: how a service host ends its program where there are no signals.

use crate::raw::signals;
use std::io::{self, Read as _};

/// From now on the end of standard input asks for a clean stop.
///
/// # Errors
/// There is no thread to wait for it.
pub fn stop_with_input() -> io::Result<()> {
    let wait = || {
        let mut room = [0; 64];
        while io::stdin().read(&mut room).is_ok_and(|count| count > 0) {}
        signals::stop();
    };
    let named = std::thread::Builder::new().name("input".to_owned());
    named.spawn(wait).map(drop)
}
