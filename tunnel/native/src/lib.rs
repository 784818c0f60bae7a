//! The Python module `pq_core`: data plane (`pq_core`) and handshake (`pq_link`) as the lab's agent drives them.
//!
//! It translates, and decides nothing: what is measured here is what `pqlink` runs. Keys stay on this side; Python holds
//! handles of them.

mod conversation;
mod given;
mod keys;
mod meeting;
mod recorder;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The tunnel, native.
#[pymodule]
#[pyo3(name = "pq_core")]
fn pq_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("RETRY", PyBytes::new(module.py(), &pq_link::wire::RETRY))?;
    pq_core::python::register(module)?;
    module.add_class::<keys::PyPrimitives>()?;
    module.add_class::<keys::PyKemPair>()?;
    module.add_class::<keys::PyStation>()?;
    module.add_class::<keys::PyVehicle>()?;
    module.add_class::<keys::PySecret>()?;
    module.add_class::<conversation::PyEstablished>()?;
    module.add_class::<conversation::PyConversation>()?;
    module.add_function(wrap_pyfunction!(conversation::dial, module)?)?;
    module.add_function(wrap_pyfunction!(conversation::answer, module)?)?;
    module.add_function(wrap_pyfunction!(meeting::meet, module)?)?;
    module.add_function(wrap_pyfunction!(meeting::derive_epoch, module)?)
}
