//! Classes of the Python module `pq_core` for the data plane. The module itself is made in `tunnel/native`.

mod path;
mod plane;
mod session;

pub use session::{error, PySession};

use pyo3::prelude::*;

/// Add them to the module.
///
/// # Errors
/// Python's own.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("BIN_NS", crate::bins::BIN_NS)?;
    module.add("BIN_FIELDS", crate::bins::FIELDS.to_vec())?;
    module.add("COUNTERS", crate::counters::NAMES.to_vec())?;
    module.add_class::<plane::PyDataPlane>()?;
    module.add_class::<plane::PyEvent>()?;
    module.add_class::<path::PyPathState>()?;
    module.add_class::<session::PySession>()?;
    module.add_class::<session::PyReceived>()
}
