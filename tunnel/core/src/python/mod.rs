//! The Python module `pq_core`.

mod path;
mod plane;
mod session;

use pyo3::prelude::*;

/// Data plane of the tunnel.
#[pymodule]
fn pq_core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("BIN_NS", crate::bins::BIN_NS)?;
    module.add("BIN_FIELDS", crate::bins::FIELDS.to_vec())?;
    module.add("COUNTERS", crate::counters::NAMES.to_vec())?;
    module.add_class::<plane::PyDataPlane>()?;
    module.add_class::<plane::PyEvent>()?;
    module.add_class::<path::PyPathState>()?;
    module.add_class::<session::PySession>()?;
    module.add_class::<session::PyReceived>()
}
