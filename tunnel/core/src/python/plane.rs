//! `pq_core.DataPlane`: the native forwarder as `pqtunnel.endpoint.native` drives it.

use crate::cell::locked;
use crate::plane::{Event, Gate, Plane, Route, Setup};
use crate::python::session::{control_kind, seal_error, PySession};
use crate::session::Role;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// `(host, port)`.
pub(super) type Address = (String, u16);

pub(super) fn address(given: &Address) -> PyResult<SocketAddr> {
    let host: Ipv4Addr = given
        .0
        .parse()
        .map_err(|_| PyValueError::new_err(format!("{:?} is not an IPv4 address", given.0)))?;
    Ok(SocketAddr::from((host, given.1)))
}

pub(super) fn shown(address: SocketAddr) -> Address {
    (address.ip().to_string(), address.port())
}

/// One moment on this clock and on Python's monotonic clock, ns: the closest pair of five readings, because a thread
/// may lose its core between the two.
fn same_moment(py: Python<'_>) -> PyResult<(Instant, i64)> {
    let clock = py.import("time")?.getattr("monotonic_ns")?;
    let mut closest: Option<(Duration, Instant, i64)> = None;
    for _ in 0..5 {
        let before = Instant::now();
        let theirs: i64 = clock.call0()?.extract()?;
        let apart = before.elapsed();
        if closest.is_none_or(|best| apart < best.0) {
            closest = Some((apart, before, theirs));
        }
    }
    closest
        .map(|(apart, before, theirs)| (before + apart / 2, theirs))
        .ok_or_else(|| PyRuntimeError::new_err("no clock was read"))
}

/// One control frame.
type Frame<'py> = (u8, Bound<'py, PyBytes>, u32, Address, i64);

/// Something the data threads set and others wait for.
#[pyclass(name = "Event", frozen, module = "pq_core")]
pub struct PyEvent(Arc<Event>);

#[pymethods]
impl PyEvent {
    /// Wait at most `timeout` seconds; says whether it is set.
    fn wait(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        let limit = Duration::try_from_secs_f64(timeout)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(py.detach(|| self.0.wait(limit)))
    }

    /// Is it set?
    fn is_set(&self) -> bool {
        self.0.is_set()
    }

    /// Wait for another one from now on.
    fn clear(&self) {
        self.0.clear();
    }
}

/// The UDP side of an endpoint, on threads of its own.
#[pyclass(name = "DataPlane", frozen, module = "pq_core")]
pub struct PyDataPlane {
    plane: Mutex<Option<Plane>>,
    first_plaintext: Arc<Event>,
    confirmed: Arc<Event>,
    addresses: (SocketAddr, SocketAddr),
}

impl PyDataPlane {
    fn with<T>(&self, work: impl FnOnce(&mut Plane) -> T) -> PyResult<T> {
        locked(&self.plane)
            .as_mut()
            .map(work)
            .ok_or_else(|| PyRuntimeError::new_err("the data plane is closed"))
    }
}

#[pymethods]
impl PyDataPlane {
    /// Raises `OSError` with `filename` "plaintext" or "sealed" when that socket cannot be bound.
    #[new]
    #[allow(clippy::needless_pass_by_value)] // Python hands over copies
    fn new(
        py: Python<'_>,
        role: &str,
        plaintext: Address,
        sealed: Address,
        peer: Option<Address>,
        routes: Vec<(String, Address)>,
    ) -> PyResult<Self> {
        let role = Role::by_name(role)
            .ok_or_else(|| PyValueError::new_err(format!("role {role:?} is not drone or gcs")))?;
        if routes.is_empty() {
            return Err(PyValueError::new_err("no route is given"));
        }
        let route = |(source, target): &(String, Address)| -> PyResult<Route> {
            Ok(Route {
                source: address(&(source.clone(), 0))?.ip(),
                target: address(target)?,
            })
        };
        let setup = Setup {
            role,
            plain: address(&plaintext)?,
            sealed: address(&sealed)?,
            peer: peer.as_ref().map(address).transpose()?,
            routes: routes.iter().map(route).collect::<PyResult<_>>()?,
            origin: same_moment(py)?,
        };
        let plane = Plane::new(setup).map_err(|failure| {
            let socket = if failure.plain { "plaintext" } else { "sealed" };
            let code = failure.error.raw_os_error().unwrap_or(0);
            PyOSError::new_err((code, failure.error.to_string(), socket))
        })?;
        Ok(Self {
            first_plaintext: plane.first_plaintext(),
            confirmed: plane.confirmed(),
            addresses: (plane.plaintext_address(), plane.sealed_address()),
            plane: Mutex::new(Some(plane)),
        })
    }

    /// Start both threads.
    fn open(&self) -> PyResult<()> {
        self.with(Plane::open)?.map_err(PyErr::from)
    }

    /// Stop both threads and free the ports; calling again changes nothing.
    fn close(&self, py: Python<'_>) {
        let plane = locked(&self.plane).take();
        py.detach(|| drop(plane));
    }

    /// True where receive times are the kernel's.
    #[getter]
    fn is_stamped(&self) -> PyResult<bool> {
        self.with(|plane| plane.is_stamped())
    }

    /// Local address of plaintext in.
    #[getter]
    fn plaintext_address(&self) -> Address {
        shown(self.addresses.0)
    }

    /// Local address of sealed datagrams.
    #[getter]
    fn sealed_address(&self) -> Address {
        shown(self.addresses.1)
    }

    /// Work on the session's cell from the next batch on; None: drop everything.
    #[pyo3(signature = (session))]
    fn attach(&self, session: Option<&PySession>) -> PyResult<()> {
        let cell = session.map(|session| Arc::clone(&session.cell));
        self.with(|plane| plane.attach(cell))
    }

    /// Where sealed datagrams go.
    #[allow(clippy::needless_pass_by_value)] // Python hands over a copy
    fn set_peer(&self, peer: Address) -> PyResult<()> {
        let peer = address(&peer)?;
        self.with(|plane| plane.set_peer(peer))
    }

    /// Open or close the gate of a window on the route at that place in the list.
    fn set_gate(&self, route: usize, place: u16, is_open: bool) -> PyResult<()> {
        let gate = Gate {
            route,
            place,
            is_open,
        };
        self.with(|plane| {
            if route < plane.route_count() {
                plane.set_gate(gate);
                Ok(())
            } else {
                Err(PyValueError::new_err(format!("there is no route {route}")))
            }
        })?
    }

    /// (route, place, `is_open`).
    #[getter]
    fn gate(&self) -> PyResult<(usize, u16, bool)> {
        let gate = self.with(|plane| plane.gate())?;
        Ok((gate.route, gate.place, gate.is_open))
    }

    /// Set by the next datagram on the gate's route.
    #[getter]
    fn first_plaintext(&self) -> PyEvent {
        PyEvent(Arc::clone(&self.first_plaintext))
    }

    /// Set by the first authenticated packet of an epoch.
    #[getter]
    fn confirmed(&self) -> PyEvent {
        PyEvent(Arc::clone(&self.confirmed))
    }

    /// When the last data packet moved in either direction, monotonic ns; 0: never. Now, while a thread has a batch in
    /// hand.
    #[getter]
    fn last_data_ns(&self) -> PyResult<i64> {
        self.with(|plane| plane.last_data_ns())
    }

    /// When the last datagram on the gate's route came, monotonic ns; 0: never.
    #[getter]
    fn last_plaintext_ns(&self) -> PyResult<i64> {
        self.with(|plane| plane.last_plaintext_ns())
    }

    /// Where sealed datagrams go now, None before that is known.
    #[getter]
    fn peer(&self) -> PyResult<Option<Address>> {
        Ok(self.with(|plane| plane.peer())?.map(shown))
    }

    /// Send one sealed control packet to the peer; False when there is no key to send it under, or no peer.
    #[pyo3(signature = (kind, payload = None))]
    fn send_control(&self, py: Python<'_>, kind: i64, payload: Option<&[u8]>) -> PyResult<bool> {
        let payload = payload.unwrap_or_default();
        let sent = self.with(|plane| plane.send_control(control_kind(kind), payload))?;
        sent.map_err(|failure| seal_error(py, failure, payload.len(), kind))
    }

    /// (kind, payload, epoch, source, `monotonic_ns`) of the control frames since the last call, oldest first.
    fn take_control<'py>(&self, py: Python<'py>) -> PyResult<Vec<Frame<'py>>> {
        let frames = self.with(|plane| plane.take_control())?;
        let given = frames.into_iter().map(|frame| {
            let payload = PyBytes::new(py, &frame.payload);
            let source = shown(frame.source);
            (frame.kind, payload, frame.epoch, source, frame.monotonic_ns)
        });
        Ok(given.collect())
    }

    /// When the first packet of an epoch was sent, monotonic ns; None: it is not remembered, or there was none.
    fn first_sent_ns(&self, epoch: u32) -> PyResult<Option<i64>> {
        self.with(|plane| plane.first_sent_ns(epoch))
    }

    /// One empty datagram to the first route's target.
    fn announce(&self) -> PyResult<()> {
        self.with(|plane| plane.announce())
    }

    /// Complaints since the last call.
    fn take_notes(&self) -> PyResult<Vec<String>> {
        self.with(|plane| plane.take_notes())
    }
}
