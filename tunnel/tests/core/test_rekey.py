"""Rekey handshakes: what they agree on, whom they serve, and what a thief, a forger or a replay gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from core_kit import FALCON, MLKEM, CountingRng, Lab, basis_of, converse, deliver, from_session

from pqtunnel import errors, wire
from pqtunnel.handshake.established import Established
from pqtunnel.handshake.identity import DronePsk
from pqtunnel.handshake.rekey import RekeyBasis, RekeyFrom
from pqtunnel.suites import Suite
from pqtunnel.trace import Tracer


def rekeyed(
    lab: Lab, old: tuple[Established, Established], suite: Suite = MLKEM, epoch: int = 1
) -> tuple[Established, Established]:
    """Both ends' results of a rekey of `old`."""
    drone = lab.drone(suite, epoch=epoch, rekey=from_session(old[0]))
    gcs = lab.gcs(rekey_basis=basis_of(old[1]), rng=CountingRng(b"gcs, epoch %d" % epoch))
    converse(drone, gcs)
    assert drone.established is not None and gcs.established is not None
    return drone.established, gcs.established


def to_hello(drone: object, gcs: object) -> bytes:
    """The drone's answer to the Challenge."""
    drone.start()  # type: ignore[attr-defined]
    return b"".join(deliver(drone, b"".join(gcs.start())))  # type: ignore[arg-type, attr-defined]


def test_chain_of_rekeys_agrees_and_each_epoch_has_its_own_keys(lab: Lab) -> None:
    pair, seen = lab.handshake(), set()
    for epoch in range(1, 20):
        pair = rekeyed(lab, pair, epoch=epoch)
        drone, gcs = pair
        assert drone.keys.send_key == gcs.keys.receive_key and drone.session_id == gcs.session_id
        assert drone.rekey_secret == gcs.rekey_secret and drone.epoch == gcs.epoch == epoch
        seen.update((drone.keys.send_key, drone.keys.receive_key, drone.session_id, drone.rekey_secret))
    assert len(seen) == 19 * 4
    assert lab.gcs_counters["hs_completed"] == lab.drone_counters["hs_completed"] == 20


def test_a_rekey_may_change_the_suite(lab: Lab) -> None:
    drone, gcs = rekeyed(lab, lab.handshake(), FALCON)
    assert drone.suite is gcs.suite is FALCON and drone.keys.send_key == gcs.keys.receive_key


def test_accepted_set_decides_on_a_suite_switch(lab: Lab) -> None:
    old = lab.handshake()
    with pytest.raises(errors.PolicyRefused, match="prepared"):
        converse(
            lab.drone(FALCON, epoch=1, rekey=from_session(old[0])),
            lab.gcs(rekey_basis=basis_of(old[1]), accepted={MLKEM.id}),
        )


def test_spans_of_a_rekey_say_so(lab: Lab) -> None:
    old, tracers = lab.handshake(), (Tracer(host="drone"), Tracer(host="gcs"))
    converse(
        lab.drone(epoch=1, rekey=from_session(old[0]), tracer=tracers[0]),
        lab.gcs(rekey_basis=basis_of(old[1]), tracer=tracers[1]),
    )
    for tracer in tracers:
        tracer.finish()
        assert {row["purpose"] for row in tracer.rows()} == {"rekey"}


def test_old_rekey_secret_is_mixed_in(lab: Lab) -> None:
    # The GCS remembers another secret for this session: all else equal, nothing may fit.
    old = lab.handshake()
    forgotten = RekeyBasis(old[1].peer_key_id, old[1].epoch, bytes(32))
    drone = lab.drone(epoch=1, rekey=from_session(old[0]))
    with pytest.raises(errors.BadFinished):
        converse(drone, lab.gcs(rekey_basis=lambda session_id: forgotten))
    assert drone.established is None and lab.drone_counters["hs_bad_finished"] == 1


def test_psk_thief_without_the_session_gets_no_working_keys(lab: Lab) -> None:
    # PSK and the session id (it travels in the clear) are known, the old rekey secret is not.
    old = lab.handshake()
    thief = lab.drone(
        epoch=1,
        rekey=RekeyFrom(old[0].session_id, old[0].epoch, b"guess" + bytes(27)),
        rng=CountingRng(b"thief"),
    )
    gcs = lab.gcs(rekey_basis=basis_of(old[1]))
    with pytest.raises(errors.BadFinished):
        converse(thief, gcs)
    assert thief.established is None


@pytest.mark.parametrize("epoch", [0, 3, 7])
def test_epoch_must_grow_at_both_ends(lab: Lab, epoch: int) -> None:
    drone_machine, gcs_machine = lab.drone(epoch=7), lab.gcs()
    converse(drone_machine, gcs_machine)
    old_drone, old_gcs = drone_machine.established, gcs_machine.established
    assert old_drone is not None and old_gcs is not None
    careful = lab.drone(epoch=epoch, rekey=from_session(old_drone))
    with pytest.raises(errors.PolicyRefused, match="epochs only grow"):
        careful.start()
    reckless = lab.drone(epoch=epoch, rekey=replace(from_session(old_drone), epoch=-1))
    with pytest.raises(errors.PolicyRefused, match="epochs only grow"):
        converse(reckless, lab.gcs(rekey_basis=basis_of(old_gcs)))
    assert lab.gcs_counters["hs_policy"] == 1 and lab.gcs_counters["hs_keygens"] == 1


def test_another_drones_session_is_refused_before_any_key_is_made(lab: Lab) -> None:
    old = lab.handshake()
    neighbour = DronePsk(b"drone-02", bytes(reversed(range(32))))
    with pytest.raises(errors.PolicyRefused, match="session of drone"):
        converse(
            lab.drone(psk=neighbour, epoch=1, rekey=from_session(old[0])),
            lab.gcs(rekey_basis=basis_of(old[1])),
        )
    assert lab.gcs_counters["hs_policy"] == 1 and lab.gcs_counters["hs_keygens"] == 1


def test_replayed_rekey_hello_buys_one_mac_and_no_lookup(lab: Lab) -> None:
    old, asked = lab.handshake(), []
    hello = to_hello(lab.drone(epoch=1, rekey=from_session(old[0])), lab.gcs())

    def ask(session_id: bytes) -> RekeyBasis | None:
        asked.append(session_id)
        return basis_of(old[1])(session_id)

    rng = CountingRng(b"fresh challenges")
    for _ in range(100):
        gcs = lab.gcs(rng=rng, rekey_basis=ask)
        gcs.start()
        with pytest.raises(errors.BadMac):
            deliver(gcs, hello)
    assert lab.gcs_counters["hs_bad_mac"] == 100 and asked == [] and lab.gcs_counters["hs_keygens"] == 1


@pytest.mark.parametrize(
    ("purpose", "old_session"),
    [(wire.PURPOSE_NEW, b"s" * 16), (wire.PURPOSE_REKEY, bytes(16)), (77, bytes(16)), (0, b"s" * 16)],
)
def test_undefined_purposes_are_refused(lab: Lab, purpose: int, old_session: bytes) -> None:
    original = wire.Hello.encode_unauthenticated

    def odd(hello: wire.Hello) -> bytes:
        return original(replace(hello, purpose=purpose, old_session=old_session))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire.Hello, "encode_unauthenticated", odd)
        with pytest.raises(errors.PolicyRefused, match="not defined"):
            converse(lab.drone(), lab.gcs(rekey_basis=lambda session_id: None))
    assert lab.gcs_counters["hs_policy"] == 1 and "hs_keygens" not in lab.gcs_counters


def refused_rekey(lab: Lab, rng: bytes = b"gcs again") -> tuple[object, bytes]:
    """A drone whose rekey a restarted GCS does not know, and the GCS's answer."""
    old = lab.handshake()
    drone, gcs = lab.drone(epoch=1, rekey=from_session(old[0])), lab.gcs(rng=CountingRng(rng))
    hello = to_hello(drone, gcs)
    with pytest.raises(errors.SessionUnknown) as caught:
        deliver(gcs, hello)
    assert caught.value.send_alert and gcs.established is None
    return drone, caught.value.answer


def test_restarted_gcs_answers_session_unknown_and_both_count_it(lab: Lab) -> None:
    drone, answer = refused_rekey(lab)
    with pytest.raises(errors.SessionUnknown) as caught:
        deliver(drone, answer)  # type: ignore[arg-type]
    assert caught.value.code == "session_unknown" and not caught.value.send_alert
    assert lab.gcs_counters["hs_session_unknown"] == lab.drone_counters["hs_session_unknown"] == 1
    assert lab.gcs_counters["hs_keygens"] == 1  # only the first handshake's
    converse(lab.drone(epoch=2, rng=CountingRng(b"anew")), lab.gcs())


@pytest.mark.parametrize("position", [4, 20, 35])
def test_forged_session_unknown_is_not_believed(lab: Lab, position: int) -> None:
    drone, answer = refused_rekey(lab)
    forged = answer[:position] + bytes((answer[position] ^ 1,)) + answer[position + 1 :]
    with pytest.raises(errors.BadMac):
        deliver(drone, forged)  # type: ignore[arg-type]
    assert "hs_session_unknown" not in lab.drone_counters and lab.drone_counters["hs_bad_mac"] == 1


def test_session_unknown_of_another_handshake_is_not_believed(lab: Lab) -> None:
    _, recorded = refused_rekey(lab)
    old = lab.handshake()
    drone = lab.drone(epoch=1, rekey=from_session(old[0]), rng=CountingRng(b"second rekey"))
    to_hello(drone, lab.gcs(rekey_basis=basis_of(old[1]), rng=CountingRng(b"second challenge")))
    with pytest.raises(errors.BadMac):
        deliver(drone, recorded)
    assert "hs_session_unknown" not in lab.drone_counters


def test_session_unknown_answers_a_rekey_only(lab: Lab) -> None:
    _, recorded = refused_rekey(lab)
    drone = lab.drone()
    to_hello(drone, lab.gcs())
    with pytest.raises(errors.BadLength, match="SessionUnknown came"):
        drone.on_header(recorded[:4])
    rekeying = lab.drone(epoch=1, rekey=RekeyFrom(b"s" * 16, 0, bytes(32)))
    rekeying.start()
    with pytest.raises(errors.BadLength, match="Challenge was awaited"):
        rekeying.on_header(recorded[:4])


def test_session_unknown_comes_too_late_after_server_hello(lab: Lab) -> None:
    old = lab.handshake()
    drone = lab.drone(epoch=1, rekey=from_session(old[0]))
    gcs = lab.gcs(rekey_basis=basis_of(old[1]), rng=CountingRng(b"late"))
    deliver(drone, b"".join(deliver(gcs, to_hello(drone, gcs))))
    with pytest.raises(errors.BadLength, match="FinishedGcs was awaited"):
        drone.on_header(wire.encode_session_unknown(bytes(32))[:4])


def test_policy_is_asked_before_the_session(lab: Lab) -> None:
    # A suite that is not served is refused alike whether the session is known or not.
    old = lab.handshake()
    lookups: list[Callable[[bytes], RekeyBasis | None]] = [basis_of(old[1]), basis_of()]
    for lookup in lookups:
        with pytest.raises(errors.PolicyRefused):
            converse(
                lab.drone(FALCON, epoch=1, rekey=from_session(old[0])),
                lab.gcs(accepted={MLKEM.id}, rekey_basis=lookup),
            )


def test_rekey_material_has_its_lengths_and_does_not_print() -> None:
    secret = b"rekey secret of 32 bytes, indeed"
    for make in (
        lambda: RekeyFrom(b"s" * 16, 0, b""),
        lambda: RekeyFrom(bytes(16), 0, secret),
        lambda: RekeyFrom(b"s" * 15, 0, secret),
        lambda: RekeyBasis(b"short", 0, secret),
        lambda: RekeyBasis(b"drone-01", 0, secret + b"x"),
    ):
        with pytest.raises(errors.KeyMaterialError):
            make()
    for value in (RekeyFrom(b"s" * 16, 0, secret), RekeyBasis(b"drone-01", 0, secret)):
        assert "rekey secret" not in repr(value)
