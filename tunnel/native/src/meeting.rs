//! What needs no socket: a whole handshake between two machines in memory, for benchmarks, and the key schedule of given
//! secrets, for known answers.

use crate::conversation::{fresh_nonce, suites};
use crate::keys::{PyStation, PyVehicle};
use pq_core::python::error;
use pq_link::drone::{DroneHandshake, DroneSetup};
use pq_link::error::{HandshakeError, Reason};
use pq_link::gcs::{GcsHandshake, GcsSetup};
use pq_link::machine::{Machine, Side};
use pq_link::schedule::{self, Inputs, PskKeys, PSK_BYTES};
use pq_link::suite::Suite;
use pq_link::wire::{HEADER_BYTES, NONCE_BYTES};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

fn hear<S: Side>(machine: &mut Machine<S>, frame: &[u8]) -> Result<Vec<u8>, HandshakeError> {
    let Some((header, body)) = frame.split_first_chunk::<HEADER_BYTES>() else {
        return Err(HandshakeError::new(Reason::BadLength, "no whole header"));
    };
    machine.on_header(*header)?;
    machine.on_body(body)
}

fn converse(
    vehicle: &PyVehicle,
    station: &PyStation,
    suite: Suite,
    nonces: [[u8; NONCE_BYTES]; 2],
) -> Result<bool, HandshakeError> {
    let mut drone = DroneHandshake::new(DroneSetup {
        suite,
        drone_id: vehicle.drone_id,
        psk: &vehicle.psk,
        trusted: &vehicle.trusted,
        min_level: suite.level(),
        epoch: 0,
        primitives: &*vehicle.primitives,
        nonce: nonces[0],
        rx_index: 2,
        rekey: None,
        signing_key: None,
        early: None,
    });
    let accepted = [suite];
    let mut gcs = GcsHandshake::new(GcsSetup {
        identity: &station.identity,
        psks: &station.psks,
        accepted: &accepted,
        min_level: suite.level(),
        primitives: &*station.primitives,
        nonce: nonces[1],
        rx_index: 1,
        note_claim: &|_| (),
        admit_key: &|_| Ok(()),
        rekey_basis: &|_| None,
        drone_keys: None,
        redeem: None,
    });
    drone.start()?;
    let (mut waiting, mut is_for_drone) = (gcs.start()?, true);
    while !waiting.is_empty() {
        waiting = if is_for_drone {
            hear(&mut drone, &waiting)?
        } else {
            hear(&mut gcs, &waiting)?
        };
        is_for_drone = !is_for_drone;
    }
    let made = drone.take_established().zip(gcs.take_established());
    Ok(made.is_some_and(|(drone, gcs)| drone.session_id == gcs.session_id))
}

/// A cold handshake of both ends in this thread. Raises `PrimitiveFailed` where they do not agree on a session.
#[pyfunction]
pub fn meet(
    py: Python<'_>,
    vehicle: &PyVehicle,
    station: &PyStation,
    suite: [u8; 3],
) -> PyResult<()> {
    let suite = suites(&suite)?[0];
    let nonces = [fresh_nonce()?, fresh_nonce()?];
    let text = match py.detach(|| converse(vehicle, station, suite, nonces)) {
        Ok(true) => return Ok(()),
        Ok(false) => "the two ends did not agree on a session".to_owned(),
        Err(refusal) => refusal.detail,
    };
    let text = format!("{}: {text}", suite.id());
    Err(error(py, "PrimitiveFailed", text, &[]))
}

/// The secrets of one epoch by name, from secrets that are known anyway: never from a handshake's.
#[pyfunction]
pub fn derive_epoch<'py>(
    py: Python<'py>,
    psk: [u8; PSK_BYTES],
    kem_secret: &[u8],
    th2: &[u8],
    key_bytes: usize,
    iv_bytes: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let inputs = Inputs {
        kem_secret,
        x25519_secret: &[],
        old_rekey_secret: &[],
    };
    let made = schedule::derive_epoch(&PskKeys::derive(&psk), &inputs, th2, key_bytes, iv_bytes);
    let named = PyDict::new(py);
    for (name, value) in [
        ("gcs_finished", &made.gcs_finished[..]),
        ("drone_key", &made.drone.key[..]),
        ("drone_iv", &made.drone.iv[..]),
        ("gcs_key", &made.gcs.key[..]),
        ("gcs_iv", &made.gcs.iv[..]),
        ("rekey_secret", &made.rekey_secret[..]),
        ("exporter", &made.exporter[..]),
        ("session_id", &made.session_id[..]),
    ] {
        named.set_item(name, PyBytes::new(py, value))?;
    }
    Ok(named)
}
