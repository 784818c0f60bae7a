//! `pq_core.Session`: the interface of `pqspec.session.Session` over the native one.

use crate::aead::{Algorithm, BadKeyLength};
use crate::cell::{locked, Cell, SharedCell};
use crate::counters::SESSION;
use crate::packet;
use crate::session::{EpochKeys, InstallError, Role, SealError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};

/// An error of the package `pqtunnel.errors`: callers catch the same ones whichever session they hold.
#[must_use]
pub fn error(py: Python<'_>, class: &str, message: String, options: &[(&str, &str)]) -> PyErr {
    let made = || -> PyResult<Bound<'_, PyAny>> {
        let keywords = PyDict::new(py);
        for (name, value) in options {
            keywords.set_item(name, value)?;
        }
        let errors = py.import("pqtunnel.errors")?;
        errors.getattr(class)?.call((message,), Some(&keywords))
    };
    match made() {
        Ok(instance) => PyErr::from_value(instance),
        Err(failure) => failure,
    }
}

/// 0 is no type: what does not fit four bits ends as "not a control type".
pub(super) fn control_kind(packet_type: i64) -> u8 {
    u8::try_from(packet_type).unwrap_or(0)
}

pub(super) fn seal_error(py: Python<'_>, failure: SealError, length: usize, kind: i64) -> PyErr {
    match failure {
        SealError::NotReady => {
            let text = "no epoch may be sent on yet".to_owned();
            error(py, "SessionNotReady", text, &[])
        }
        SealError::Oversize => {
            let text = format!("plaintext of {length} bytes does not fit one datagram");
            error(py, "SessionError", text, &[("code", "oversize")])
        }
        SealError::NotControl => {
            let text = format!("packet type {kind} is not a control type");
            error(py, "SessionError", text, &[])
        }
        SealError::Exhausted { epoch } => {
            let stop = crate::session::HARD_STOP_PACKETS;
            let text = format!("epoch {epoch} has sent {stop} packets");
            error(py, "SequenceExhausted", text, &[])
        }
    }
}

/// One datagram's outcome; `kind` 0 when it was dropped for `reason`.
#[pyclass(name = "Received", frozen, get_all, module = "pq_core")]
pub struct PyReceived {
    kind: u8,
    payload: Py<PyBytes>,
    epoch: u32,
    sequence: u64,
    reason: &'static str,
    newest: bool,
    first: bool,
}

/// A session with the counters, ledger and bins of its cell. Safe to use from any thread.
#[pyclass(name = "Session", frozen, module = "pq_core")]
pub struct PySession {
    pub cell: SharedCell,
}

/// Key and IV of one direction, copied out of Python.
type Material = (PyBackedBytes, PyBackedBytes);

impl PySession {
    /// Take in the keys of an epoch under the AEAD of this token. Raises `SessionError`, `KeyMaterialError`.
    ///
    /// # Errors
    /// As Python's callers catch it.
    pub fn install_keys(
        &self,
        py: Python<'_>,
        keys: &EpochKeys<'_>,
        token: &str,
        now_ns: i64,
    ) -> PyResult<()> {
        let mut cell = locked(&self.cell);
        let mine = cell.session.role().name();
        let result = cell.session.install(keys, now_ns);
        drop(cell);
        result.map_err(|failure| refused_keys(py, &failure, keys, mine, token))
    }
}

fn refused_keys(
    py: Python<'_>,
    failure: &InstallError,
    keys: &EpochKeys<'_>,
    mine: &str,
    token: &str,
) -> PyErr {
    match failure {
        InstallError::WrongRole => {
            let owner = keys.role.name();
            let text = format!("keys of the {owner} cannot serve the {mine}");
            error(py, "SessionError", text, &[])
        }
        InstallError::IndexTaken => {
            let text = format!("receiver index {:#08x} is taken", keys.rx_index);
            let hint = [("hint", "Draw it by new_index.")];
            error(py, "SessionError", text, &hint)
        }
        InstallError::Mixed => {
            let text = "plain and sealed epochs cannot live together".to_owned();
            let hint = [("hint", "Prepare the cell anew.")];
            error(py, "SessionError", text, &hint)
        }
        InstallError::BadKey(BadKeyLength {
            what,
            got,
            expected,
        }) => {
            let text = format!("{token}: {what} has {got} bytes, not {expected}");
            error(py, "KeyMaterialError", text, &[])
        }
    }
}

impl PySession {
    fn install_bytes(&self, established: &Bound<'_, PyAny>, now_ns: i64) -> PyResult<()> {
        let py = established.py();
        let owner: String = established.getattr("role")?.extract()?;
        let role = Role::by_name(&owner)
            .ok_or_else(|| PyValueError::new_err(format!("role {owner:?} is not drone or gcs")))?;
        let token: String = established
            .getattr("suite")?
            .getattr("aead")?
            .getattr("token")?
            .extract()?;
        let algorithm = Algorithm::by_token(&token).ok_or_else(|| {
            let text = format!("AEAD {token} is not in the native core");
            let hint = "Choose a suite of another AEAD: ./pqtunnel suites";
            error(py, "ProviderMissing", text, &[("hint", hint)])
        })?;
        let keys = established.getattr("keys")?;
        let direction = |key: &str, iv: &str| -> PyResult<Material> {
            Ok((keys.getattr(key)?.extract()?, keys.getattr(iv)?.extract()?))
        };
        let send = direction("send_key", "send_iv")?;
        let receive = direction("receive_key", "receive_iv")?;
        let keys = EpochKeys {
            role,
            algorithm,
            epoch: established.getattr("epoch")?.extract()?,
            rx_index: established.getattr("rx_index")?.extract()?,
            tx_index: established.getattr("tx_index")?.extract()?,
            send: (&send.0, &send.1),
            receive: (&receive.0, &receive.1),
        };
        self.install_keys(py, &keys, &token, now_ns)
    }
}

#[pymethods]
impl PySession {
    #[new]
    #[pyo3(signature = (role, *, ledger = false))]
    fn new(role: &str, ledger: bool) -> PyResult<Self> {
        let role = Role::by_name(role)
            .ok_or_else(|| PyValueError::new_err(format!("role {role:?} is not drone or gcs")))?;
        Ok(Self {
            cell: Cell::shared(role, ledger),
        })
    }

    /// `drone` or `gcs`.
    #[getter]
    fn role(&self) -> &'static str {
        locked(&self.cell).session.role().name()
    }

    /// True once an epoch may be sent on.
    #[getter]
    fn can_send(&self) -> bool {
        locked(&self.cell).session.can_send()
    }

    /// 32-bit number of the epoch sent on, None before the first.
    #[getter]
    fn epoch(&self) -> Option<u32> {
        locked(&self.cell).session.epoch()
    }

    /// Receiver index of the epoch sent on, None before the first.
    #[getter]
    fn sent_on(&self) -> Option<u32> {
        locked(&self.cell).session.sent_on()
    }

    /// Tags that failed under the keys that live now.
    #[getter]
    fn failed_tags(&self) -> u64 {
        locked(&self.cell).session.failed_tags()
    }

    /// False for an index that lives, or ended so lately that packets may still carry it.
    fn index_is_free(&self, index: u32) -> bool {
        locked(&self.cell).session.index_is_free(index)
    }

    /// Take in an epoch: a native one, which installs itself, or the specification's with its keys as bytes. Raises
    /// `SessionError`, `KeyMaterialError`.
    fn install(slf: &Bound<'_, Self>, established: &Bound<'_, PyAny>, now_ns: i64) -> PyResult<()> {
        if let Some(install) = established.getattr_opt("install_into")? {
            return install.call1((slf, now_ns)).map(drop);
        }
        slf.get().install_bytes(established, now_ns)
    }

    /// Forget every key.
    fn close(&self) {
        locked(&self.cell).session.close();
    }

    /// (datagram, epoch, sequence) of one plaintext datagram.
    fn seal_data<'py>(
        &self,
        py: Python<'py>,
        payload: &[u8],
    ) -> PyResult<(Bound<'py, PyBytes>, u32, u64)> {
        let mut out = Vec::with_capacity(payload.len() + packet::OVERHEAD_BYTES);
        let sealed = {
            let cell = &mut *locked(&self.cell);
            cell.session
                .seal_data(payload, &mut out, &mut cell.counters)
        };
        let (epoch, sequence) =
            sealed.map_err(|e| seal_error(py, e, payload.len(), packet::DATA.into()))?;
        Ok((PyBytes::new(py, &out), epoch, sequence))
    }

    /// One sealed control datagram.
    #[pyo3(signature = (packet_type, payload = None))]
    fn seal_control<'py>(
        &self,
        py: Python<'py>,
        packet_type: i64,
        payload: Option<&[u8]>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let payload = payload.unwrap_or_default();
        let kind = control_kind(packet_type);
        let mut out = Vec::with_capacity(payload.len() + packet::OVERHEAD_BYTES);
        let sealed = {
            let cell = &mut *locked(&self.cell);
            cell.session
                .seal_control(kind, payload, &mut out, &mut cell.counters)
        };
        sealed.map_err(|e| seal_error(py, e, payload.len(), packet_type))?;
        Ok(PyBytes::new(py, &out))
    }

    /// Open one datagram; never raises on anything the network can send.
    fn receive(&self, py: Python<'_>, datagram: &[u8], now_ns: i64) -> PyReceived {
        let mut copy = datagram.to_vec();
        let opened = {
            let cell = &mut *locked(&self.cell);
            cell.session.receive(&mut copy, now_ns, &mut cell.counters)
        };
        match opened {
            Ok(packet) => {
                let start = packet::HEADER_BYTES;
                let plaintext = &copy[start..start + packet.length];
                PyReceived {
                    kind: packet.kind,
                    payload: PyBytes::new(py, plaintext).unbind(),
                    epoch: packet.epoch,
                    sequence: packet.sequence,
                    reason: "",
                    newest: packet.newest,
                    first: packet.first,
                }
            }
            Err(reason) => PyReceived {
                kind: 0,
                payload: PyBytes::new(py, b"").unbind(),
                epoch: 0,
                sequence: 0,
                reason: reason.counter().name(),
                newest: false,
                first: false,
            },
        }
    }

    /// True once plain keys are installed: nothing that is received then proves anything.
    #[getter]
    fn is_plain(&self) -> bool {
        locked(&self.cell).session.is_plain()
    }

    /// The path's round trip, ns: the previous epoch receives for three of them from the next switch on.
    fn set_rtt(&self, rtt_ns: i64) {
        locked(&self.cell).session.set_rtt(rtt_ns);
    }

    /// Erase the previous epoch's keys once its time is over.
    fn expire(&self, now_ns: i64) {
        locked(&self.cell).session.expire(now_ns);
    }

    /// True when nothing was sent for 1 s.
    fn keepalive_due(&self, now_ns: i64) -> bool {
        locked(&self.cell).session.keepalive_due(now_ns)
    }

    /// True when an installed epoch has heard nothing authentic for 3 s.
    fn silent(&self, now_ns: i64) -> bool {
        locked(&self.cell).session.silent(now_ns)
    }

    /// True from 2^31 packets or 10 minutes on.
    fn rekey_due(&self, now_ns: i64) -> bool {
        locked(&self.cell).session.rekey_due(now_ns)
    }

    /// The counters that a session keeps without sockets around it.
    fn session_counters(&self) -> Vec<(&'static str, u64)> {
        let counters = locked(&self.cell).counters.clone();
        SESSION
            .iter()
            .map(|counter| (counter.name(), counters.get(*counter)))
            .collect()
    }

    /// Every counter of the cell and both digest sums, of one instant.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = locked(&self.cell).counters.clone();
        let named = PyDict::new(py);
        for (name, value) in counters.named() {
            named.set_item(name, value)?;
        }
        Ok(named)
    }

    /// Lines of the ledger including its header; 0 where the cell keeps none.
    fn ledger_line_count(&self) -> usize {
        let cell = locked(&self.cell);
        cell.ledger
            .as_ref()
            .map_or(0, crate::ledger::Ledger::line_count)
    }

    /// Rows over the limit, counted and not kept.
    fn ledger_cut(&self) -> u64 {
        let cell = locked(&self.cell);
        cell.ledger.as_ref().map_or(0, |l| l.tx.cut + l.rx.cut)
    }

    /// CSV lines [since, since + limit), the header being line 0.
    #[allow(clippy::needless_pass_by_value)] // Python hands over a copy
    fn ledger_lines(
        &self,
        py: Python<'_>,
        names: Vec<String>,
        since: usize,
        limit: usize,
    ) -> Vec<String> {
        py.detach(|| {
            let page = locked(&self.cell)
                .ledger
                .as_ref()
                .map(|l| l.page(since, limit));
            page.map_or_else(Vec::new, |page| page.render(&names))
        })
    }

    /// 20 ms bins from number `since` (realtime ns / `BIN_NS`) on: (number, counts in the order of `BIN_FIELDS`).
    #[pyo3(signature = (since = 0))]
    fn bins(&self, since: u64) -> Vec<(u64, Vec<u64>)> {
        let bins = locked(&self.cell).bins.since(since);
        bins.into_iter()
            .map(|bin| (bin.number, bin.counts.to_vec()))
            .collect()
    }
}
