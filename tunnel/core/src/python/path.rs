//! `pq_core.PathState`: the interface of `pqtunnel.path.PathState` over the native one, for the tests that hold both
//! against each other. The forwarder uses the native one directly.

use crate::cell::locked;
use crate::packet::Token;
use crate::path::PathState;
use crate::python::plane::{address, shown, Address};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Mutex;

/// `(to, token)` of a challenge to send.
type Due<'py> = (Address, Bound<'py, PyBytes>);

/// The peer's address; `rng(8)` gives a token.
#[pyclass(name = "PathState", frozen, module = "pq_core")]
pub struct PyPathState {
    state: Mutex<PathState>,
    rng: Py<PyAny>,
}

#[pymethods]
#[allow(clippy::needless_pass_by_value)] // Python hands over copies
impl PyPathState {
    #[new]
    fn new(peer: Option<Address>, rng: Py<PyAny>) -> PyResult<Self> {
        let peer = peer.as_ref().map(address).transpose()?;
        Ok(Self {
            state: Mutex::new(PathState::new(peer)),
            rng,
        })
    }

    /// Where everything goes.
    #[getter]
    fn peer(&self) -> Option<Address> {
        locked(&self.state).peer().map(shown)
    }

    /// The caller knows better.
    fn set_peer(&self, peer: Address) -> PyResult<()> {
        locked(&self.state).set_peer(address(&peer)?);
        Ok(())
    }

    /// (to, token) of the challenge that is due, or None.
    fn on_authentic<'py>(
        &self,
        py: Python<'py>,
        source: Address,
        is_newest: bool,
        now_ns: i64,
    ) -> PyResult<Option<Due<'py>>> {
        let source = address(&source)?;
        let mut failure = None;
        let fresh = || match self.rng.call1(py, (8,)).and_then(|t| t.extract(py)) {
            Ok(token) => Some::<Token>(token),
            Err(error) => {
                failure = Some(error);
                None
            }
        };
        let due = locked(&self.state).on_authentic(source, is_newest, now_ns, fresh);
        match failure {
            Some(error) => Err(error),
            None => Ok(due.map(|d| (shown(d.to), PyBytes::new(py, &d.token)))),
        }
    }

    /// True when it answers the outstanding challenge: the peer is there now.
    fn on_response(&self, source: Address, token: &[u8], now_ns: i64) -> PyResult<bool> {
        let source = address(&source)?;
        Ok(locked(&self.state).on_response(source, token, now_ns))
    }
}
