//! One handshake over a socket that Python opened: the conversation that `pqlink` runs, heard step by step.

use crate::given::Nonce;
use crate::keys::{PyKemPair, PySecret, PyStation, PyVehicle};
use crate::recorder::{Clock, Marks, Recorded, Recorder};
use pq_core::cell::locked;
use pq_core::python::PySession;
use pq_link::drone::{DroneHandshake, DroneSetup};
use pq_link::error::{HandshakeError, Reason, REASONS};
use pq_link::established::{Established, RekeyBasis, RekeyFrom, SessionId};
use pq_link::gcs::{GcsHandshake, GcsSetup};
use pq_link::identity::DroneId;
use pq_link::machine::{Machine, Side};
use pq_link::primitives::KemPair;
use pq_link::raw::socket::with_lent;
use pq_link::registry::{Kem, Sig};
use pq_link::secret::{scrub_stack, Secret};
use pq_link::stream::{converse, Passed};
use pq_link::suite::Suite;
use pq_link::wire::{Challenge, HEADER_BYTES, NONCE_BYTES};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// One authenticated epoch. What is secret of it stays on this side.
#[pyclass(name = "Established", frozen, module = "pq_core")]
pub struct PyEstablished {
    keys: Established,
    rekey_secret: Py<PySecret>,
}

impl PyEstablished {
    fn new(py: Python<'_>, mut keys: Established) -> PyResult<Self> {
        let rekey_secret = std::mem::replace(&mut keys.rekey_secret, Secret::zeros(0));
        Ok(Self {
            keys,
            rekey_secret: Py::new(py, PySecret(rekey_secret))?,
        })
    }
}

#[pymethods]
impl PyEstablished {
    /// `drone` or `gcs`.
    #[getter]
    fn role(&self) -> &'static str {
        self.keys.role.name()
    }

    #[getter]
    fn suite_id(&self) -> String {
        self.keys.suite.id()
    }

    #[getter]
    fn epoch(&self) -> u32 {
        self.keys.epoch
    }

    #[getter]
    fn session_id<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.keys.session_id)
    }

    #[getter]
    fn peer_key_id<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.keys.peer_key_id)
    }

    /// 16 hex digits, equal at both ends.
    #[getter]
    fn handshake_id(&self) -> String {
        pq_link::hex::shown(&self.keys.handshake_id)
    }

    #[getter]
    fn rx_index(&self) -> u32 {
        self.keys.rx_index
    }

    #[getter]
    fn tx_index(&self) -> u32 {
        self.keys.tx_index
    }

    /// Was a session replaced?
    #[getter]
    fn is_rekey(&self) -> bool {
        self.keys.is_rekey()
    }

    /// What a rekey mixes in, as a handle.
    #[getter]
    fn rekey_secret(&self, py: Python<'_>) -> Py<PySecret> {
        self.rekey_secret.clone_ref(py)
    }

    /// Hand the keys to a session. Raises `SessionError`, `KeyMaterialError`.
    fn install_into(&self, py: Python<'_>, session: &PySession, now_ns: i64) -> PyResult<()> {
        let token = self.keys.suite.aead.token;
        let installed = session.install_keys(py, &self.keys.epoch_keys(), token, now_ns);
        // An AEAD's key is expanded on the stack and moved from there: the copy would outlive the epoch.
        scrub_stack();
        installed
    }
}

/// How a conversation went. `refusal`: (name of the reason, what happened), None where it completed.
#[pyclass(name = "Conversation", frozen, get_all, module = "pq_core")]
pub struct PyConversation {
    established: Option<Py<PyEstablished>>,
    refusal: Option<(String, String)>,
    raised: Option<Py<PyAny>>,
    marks: Marks,
    sizes: Vec<(usize, usize)>,
    cpu: Vec<(usize, u64, u64)>,
    counts: BTreeMap<&'static str, u64>,
    end_ns: i64,
    /// First 8 bytes of the Challenge's nonce, hex; empty before one came.
    handshake_id: String,
    is_pooled: bool,
    /// At the drone after a Retry: the body of the Challenge to answer first on the next connection.
    to_answer: Option<Vec<u8>>,
}

/// The suites of these wire codes, three bytes each.
pub fn suites(codes: &[u8]) -> PyResult<Vec<Suite>> {
    let of = |code: &[u8]| <[u8; 3]>::try_from(code).ok().and_then(Suite::by_code);
    let unknown = || PyValueError::new_err("a wire code that the native registry lacks");
    codes
        .chunks(3)
        .map(|code| of(code).ok_or_else(unknown))
        .collect()
}

pub fn fresh_nonce() -> PyResult<[u8; NONCE_BYTES]> {
    let mut nonce = [0; NONCE_BYTES];
    let filled = SystemRandom::new().fill(&mut nonce);
    filled.map_err(|_| PyOSError::new_err("the system gives no randomness"))?;
    Ok(nonce)
}

/// How long a conversation may take, and since when it lasts.
#[derive(Clone, Copy)]
struct Term {
    started: Instant,
    base: Duration,
}

impl Term {
    fn new(elapsed_ns: u64, base_s: f64) -> PyResult<Self> {
        let base = Duration::try_from_secs_f64(base_s);
        let base = base.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let now = Instant::now();
        let started = now.checked_sub(Duration::from_nanos(elapsed_ns));
        Ok(Self {
            started: started.unwrap_or(now),
            base,
        })
    }
}

/// What Python's callbacks raised, kept while the conversation is told to end.
#[derive(Default)]
struct Raised(Mutex<Option<PyErr>>);

impl Raised {
    /// The refusal to end the conversation with; the peer is told as the exception's class says.
    fn keep(&self, py: Python<'_>, error: PyErr) -> HandshakeError {
        let counter: Option<String> = error
            .value(py)
            .getattr("counter")
            .and_then(|name| name.extract())
            .ok();
        let known = REASONS
            .iter()
            .find(|reason| Some(reason.counter()) == counter.as_deref());
        let refusal = HandshakeError::new(
            known.copied().unwrap_or(Reason::Failed),
            error.value(py).to_string(),
        );
        locked(&self.0).get_or_insert(error);
        refusal
    }

    fn take(&self) -> Option<PyErr> {
        locked(&self.0).take()
    }
}

/// Everything of a conversation that has a socket, a term and a listener.
struct Shell {
    term: Term,
    recorder: Arc<Recorder>,
}

impl Shell {
    /// Heard and timed.
    fn around<S: Side>(&self, machine: Machine<S>) -> Machine<S> {
        let recorder = Arc::clone(&self.recorder);
        machine.traced(recorder).within(self.term.base)
    }

    fn run<S: Side>(
        &self,
        socket: i64,
        machine: &mut Machine<S>,
        install: impl FnOnce(Established, Duration) -> Result<(), HandshakeError>,
    ) -> Result<(), HandshakeError> {
        let number = socket
            .try_into()
            .map_err(|_| HandshakeError::new(Reason::ConnectionLost, "the socket has no number"))?;
        with_lent(number, |socket| {
            let waits = socket.set_nonblocking(false);
            waits
                .map_err(|error| HandshakeError::new(Reason::ConnectionLost, error.to_string()))?;
            let passed = Passed::default();
            converse(socket, self.term.started, passed, machine, install)
        })
    }

    fn outcome(
        &self,
        py: Python<'_>,
        outcome: Result<(), HandshakeError>,
        raised: &Raised,
        established: Option<Py<PyEstablished>>,
        handshake_id: String,
        is_pooled: bool,
    ) -> PyConversation {
        let (recorded, end_ns) = self.recorder.finish();
        let Recorded {
            marks,
            sizes,
            cpu,
            counts,
            ..
        } = recorded;
        let refusal = outcome.err();
        PyConversation {
            established,
            refusal: refusal.map(|error| (format!("{:?}", error.reason), error.detail)),
            raised: raised.take().map(|error| error.into_value(py).into_any()),
            marks,
            sizes,
            cpu,
            counts,
            end_ns,
            handshake_id,
            is_pooled,
            to_answer: None,
        }
    }
}

/// Dial over a connected socket. `elapsed_ns`: since the beginning of connect; `rekey`: (session id, epoch, secret)
/// of the session to replace; `signs`: the drone is to prove itself by a signature, too; `early`: the body of the Challenge
/// that an earlier connection got before its Retry, to be answered before anything is read.
#[pyfunction]
#[pyo3(signature = (vehicle, socket, *, clock, elapsed_ns, base_s, suite, min_level, epoch, rx_index, rekey, signs, early, metered))]
#[allow(clippy::too_many_arguments)] // named in Python
pub fn dial(
    py: Python<'_>,
    vehicle: &PyVehicle,
    socket: i64,
    clock: &Bound<'_, PyAny>,
    elapsed_ns: u64,
    base_s: f64,
    suite: [u8; 3],
    min_level: u8,
    epoch: u32,
    rx_index: u32,
    rekey: Option<(SessionId, u32, PyRef<'_, PySecret>)>,
    signs: bool,
    early: Option<Vec<u8>>,
    metered: bool,
) -> PyResult<PyConversation> {
    let early = early.map(|body| Challenge::parse(&body)).transpose();
    let early = early.map_err(|error| PyValueError::new_err(error.detail))?;
    let suite = suites(&suite)?[0];
    let rekey = rekey.map(|(session_id, epoch, secret)| RekeyFrom {
        session_id,
        epoch,
        rekey_secret: Secret::copy_of(&secret.0),
    });
    let shell = Shell {
        term: Term::new(elapsed_ns, base_s)?,
        recorder: Arc::new(Recorder::new(Clock::new(clock)?, metered)),
    };
    let nonce = fresh_nonce()?;
    let (outcome, keys, to_answer) = py.detach(|| {
        let mut machine = shell.around(DroneHandshake::new(DroneSetup {
            suite,
            drone_id: vehicle.drone_id,
            psk: &vehicle.psk,
            trusted: &vehicle.trusted,
            min_level,
            epoch,
            primitives: &*vehicle.primitives,
            nonce,
            rx_index,
            rekey,
            signing_key: signs.then(|| vehicle.signing_key(suite.sig).unwrap_or_default()),
            early,
        }));
        let mut keys = None;
        let outcome = shell.run(socket, &mut machine, |established, _| {
            keys = Some(established);
            Ok(())
        });
        let to_answer = machine.to_answer();
        let to_answer = to_answer.map(|given| given.encode().split_off(HEADER_BYTES));
        (outcome, keys, to_answer)
    });
    let keys = keys.map(|keys| Py::new(py, PyEstablished::new(py, keys)?));
    let keys = keys.transpose()?;
    let id = keys.as_ref().map(|keys| keys.get().handshake_id());
    let id = id.unwrap_or_default();
    let heard = shell.outcome(py, outcome, &Raised::default(), keys, id, false);
    Ok(PyConversation { to_answer, ..heard })
}

/// Answer over an accepted socket. `elapsed_ns`: since accept; `source`: who dials, to whom alone its Challenge's nonce
/// is good on a later connection; `accepted`: wire codes. Called back, and where they
/// raise, the handshake is refused: `admit_key(drone_id)` once a Hello's MAC has verified, `rekey_basis(session_id)`
/// for (drone id, epoch, secret) or None, `drone_key(drone_id, token)` for a registered key or None (None itself: no
/// drone signs), `ready_pair(token)` for a pair or None, `install(established, rtt_ns)` before `FinishedGcs` is sent.
#[pyfunction]
#[pyo3(signature = (station, socket, *, source, clock, elapsed_ns, base_s, accepted, min_level, rx_index, admit_key, rekey_basis, drone_key, ready_pair, install, metered))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)] // named in Python, which hands over copies
pub fn answer(
    py: Python<'_>,
    station: &PyStation,
    socket: i64,
    source: IpAddr,
    clock: &Bound<'_, PyAny>,
    elapsed_ns: u64,
    base_s: f64,
    accepted: Vec<u8>,
    min_level: u8,
    rx_index: u32,
    admit_key: Py<PyAny>,
    rekey_basis: Py<PyAny>,
    drone_key: Option<Py<PyAny>>,
    ready_pair: Option<Py<PyAny>>,
    install: Py<PyAny>,
    metered: bool,
) -> PyResult<PyConversation> {
    let accepted = suites(&accepted)?;
    let shell = Shell {
        term: Term::new(elapsed_ns, base_s)?,
        recorder: Arc::new(Recorder::new(Clock::new(clock)?, metered)),
    };
    let nonce = station.given.nonce(source);
    let nonce = nonce.map_err(|error| PyOSError::new_err(error.detail))?;
    let raised = Raised::default();
    let is_pooled = AtomicBool::new(false);
    let early: Mutex<Option<Nonce>> = Mutex::default();
    let is_early = AtomicBool::new(false);
    let (outcome, keys) = py.detach(|| {
        let redeem = |answered: &Nonce| {
            station.given.check(answered, source)?;
            locked(&early).replace(*answered);
            Ok(())
        };
        let admit = |id: &DroneId| {
            Python::attach(|py| {
                let admitted = admit_key.call1(py, (PyBytes::new(py, id),));
                admitted.map(drop).map_err(|error| raised.keep(py, error))
            })?;
            // Only here has its MAC been found right: what a stranger answers spends nothing.
            let answered = *locked(&early);
            if let Some(nonce) = answered {
                station.given.spend(&nonce, source)?;
                is_early.store(true, Ordering::Relaxed);
            }
            Ok(())
        };
        let basis = |session: &SessionId| {
            Python::attach(|py| {
                let held = find_basis(py, &rekey_basis, session);
                held.unwrap_or_else(|error| {
                    raised.keep(py, error);
                    None
                })
            })
        };
        let key_of = |id: &DroneId, sig: &Sig| {
            let find = drone_key.as_ref()?;
            Python::attach(|py| {
                let found = find.call1(py, (PyBytes::new(py, id), sig.token));
                let key = found.and_then(|key| key.extract::<Option<Vec<u8>>>(py));
                key.unwrap_or_else(|error| {
                    raised.keep(py, error);
                    None
                })
            })
        };
        let ready = |kem: &'static Kem| {
            let ready = ready_pair.as_ref()?;
            let pair = Python::attach(|py| {
                take_pair(py, ready, kem).unwrap_or_else(|error| {
                    raised.keep(py, error);
                    None
                })
            });
            is_pooled.store(pair.is_some(), Ordering::Relaxed);
            pair
        };
        let machine = GcsHandshake::new(GcsSetup {
            identity: &station.identity,
            psks: &station.psks,
            accepted: &accepted,
            min_level,
            primitives: &*station.primitives,
            nonce,
            rx_index,
            note_claim: &|_| (),
            admit_key: &admit,
            rekey_basis: &basis,
            drone_keys: drone_key.is_some().then_some(&key_of),
            redeem: Some(&redeem),
        })
        .with_pairs(&ready);
        let mut machine = shell.around(machine);
        let mut keys = None;
        let outcome = shell.run(socket, &mut machine, |established, rtt| {
            Python::attach(|py| {
                let made = PyEstablished::new(py, established).and_then(|made| Py::new(py, made));
                let rtt_ns = rtt.as_nanos() as u64;
                let installed = made.and_then(|made| {
                    install.call1(py, (made.clone_ref(py), rtt_ns))?;
                    Ok(made)
                });
                keys = Some(installed.map_err(|error| raised.keep(py, error))?);
                Ok(())
            })
        });
        (outcome, keys)
    });
    let early = locked(&early).take();
    let id = pq_link::hex::shown(&early.unwrap_or(nonce)[..8]);
    let is_pooled = is_pooled.load(Ordering::Relaxed);
    let mut heard = shell.outcome(py, outcome, &raised, keys, id, is_pooled);
    if is_early.into_inner() {
        heard.counts.insert("hs_early", 1);
    }
    Ok(heard)
}

fn find_basis(
    py: Python<'_>,
    rekey_basis: &Py<PyAny>,
    session: &SessionId,
) -> PyResult<Option<RekeyBasis>> {
    let found = rekey_basis.call1(py, (PyBytes::new(py, session),))?;
    let held: Option<(DroneId, u32, PyRef<'_, PySecret>)> = found.extract(py)?;
    Ok(held.map(|(drone_id, epoch, secret)| RekeyBasis {
        drone_id,
        epoch,
        rekey_secret: Secret::copy_of(&secret.0),
    }))
}

fn take_pair(py: Python<'_>, ready: &Py<PyAny>, kem: &'static Kem) -> PyResult<Option<KemPair>> {
    let pair = ready.call1(py, (kem.token,))?;
    let pair: Option<PyRef<'_, PyKemPair>> = pair.extract(py)?;
    Ok(pair.and_then(|pair| locked(&pair.0).take()))
}
