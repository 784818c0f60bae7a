"""The agents' native handshake against the specification's: same steps, same counts, same refusals; and its
keys where nobody finds them."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pq_core
import pytest
from endpoint_kit import SUITE, Side, lab, spans_of
from memory_search import hits, secrets_of

from pqspec.shell.handshakes import SpecifiedGcs
from pqtunnel import errors, suites
from pqtunnel.bench.handshake import InMemoryHandshake
from pqtunnel.endpoint import native_handshakes
from pqtunnel.endpoint.handshakes import Answer, Dial, GcsHandshakes
from pqtunnel.endpoint.identity_files import load_drone, load_gcs
from pqtunnel.endpoint.native_handshakes import REFUSALS, NativeDrone, NativeGcs
from pqtunnel.epochs import EpochBook
from pqtunnel.handshake.established import Epoch, Established
from pqtunnel.handshake.rekey import RekeyFrom
from pqtunnel.primitives import load
from pqtunnel.rpc import RpcClient, TlsFiles
from pqtunnel.trace import Tracer
from waiting import LIMIT_S, free_port, wait_until

pytestmark = pytest.mark.native
ERRORS = Path(__file__).parents[2] / "link/src/error.rs"
COUNTED = ("started", "completed", "keygens", "signatures", "decaps", "encaps", "verifies")


def handshakes_of(
    keys: Path, state: Path, plane: str, suite: str, drone_auth: str
) -> tuple[list[list[tuple[Any, ...]]], list[dict[str, int]]]:
    """Of two handshakes and a rekey: each host's rows as (host, mode, keygen, step, kind, size); counts."""
    with lab(keys, state, plane=plane) as made:
        made.prepare(suite, drone_auth=drone_auth)
        made.handshakes(2)
        made.event("rekey")
        # Each end counts a handshake once it is over there, and the drone may be first.
        assert wait_until(lambda: made.gcs.counters()["hs_completed"] == 3)
        counted = [{name: one[f"hs_{name}"] for name in COUNTED} for one in made.stop()]
        rows = []
        for side in (made.drone, made.gcs):
            for spans in spans_of(side, "cell-1").values():
                shown = [
                    tuple(row.get(name) for name in ("host", "mode", "keygen", "step", "kind", "size_bytes"))
                    for row in spans
                ]
                rows.append(shown)
                ends = [(row["start_ns"], row["end_ns"]) for row in spans[:-1]]
                assert all(one[1] == two[0] for one, two in pairwise(ends)), "no gap"
                assert all(start <= end for start, end in ends)
        return rows, counted


@pytest.mark.parametrize("drone_auth", ["psk", "signature"])
def test_both_handshakes_take_the_same_steps_and_count_the_same(
    key_folder: Path, tmp_path: Path, drone_auth: str
) -> None:
    native = handshakes_of(key_folder, tmp_path / "native", "native", SUITE, drone_auth)
    specified = handshakes_of(key_folder, tmp_path / "python", "python", SUITE, drone_auth)
    assert len(native[0]) == 6
    assert native == specified


def test_every_reason_has_its_class_and_its_counter() -> None:
    found = dict(re.findall(r'^    (\w+) = "(hs_\w+)":', ERRORS.read_text("utf-8"), re.MULTILINE))
    classes = {**REFUSALS, "Retry": errors.RetryAsked}
    assert found == {name: kind.counter for name, kind in classes.items()}


class Pair:
    """A native drone and a native gcs over one connection, each in a thread's place."""

    def __init__(self, keys: Path) -> None:
        self.drone = NativeDrone(load_drone(keys / "drone"))
        self.gcs: GcsHandshakes = NativeGcs(load_gcs(keys / "gcs"))
        self.installed: list[Epoch] = []
        self.counters: dict[str, int] = {}

    def install(self, established: Epoch, rtt_ns: int) -> None:
        assert rtt_ns > 0
        self.installed.append(established)

    def answer(self, sock: socket.socket, **changed: Any) -> None:
        given: dict[str, Any] = {
            "source": "127.0.0.1",
            "accepted": (SUITE,),
            "min_level": 1,
            "rx_index": 7,
            "admit_key": lambda _drone: None,
            "rekey_basis": lambda _session: None,
            "install": self.install,
        }
        with sock:
            tracer = Tracer(host="gcs")
            self.gcs.answer(sock, time.monotonic_ns(), Answer(**{**given, **changed}), tracer, self.counters)

    def dial(self, sock: socket.socket, dial: Dial) -> Epoch:
        with sock:
            return self.drone.dial(sock, time.monotonic_ns(), dial, Tracer(host="drone"), {})


@contextmanager
def dialled(keys: Path, rekey: RekeyFrom | None = None, **changed: Any) -> Iterator[tuple[Pair, Any, Any]]:
    """(pair, what the drone ended with, what the gcs ended with)."""
    pair = Pair(keys)
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
        answering = threads.submit(pair.answer, far, **changed)
        ended: list[Any] = []
        work: tuple[Callable[[], Any], ...] = (
            lambda: pair.dial(near, Dial(suites.get(SUITE), 1, 3, 9, rekey)),
            lambda: answering.result(LIMIT_S),
        )
        for end in work:
            try:
                ended.append(end())
            except (errors.TunnelError, ZeroDivisionError) as error:  # which, the test says
                ended.append(error)
        yield pair, ended[0], ended[1]


def test_what_python_holds_of_an_epoch_shows_no_key(key_folder: Path) -> None:
    with dialled(key_folder) as (pair, drone, gcs):
        assert gcs is None
        [held] = pair.installed
        shown = {name: getattr(drone, name) for name in dir(drone) if not name.startswith("_")}
        secrets = [name for name, value in shown.items() if isinstance(value, bytes | bytearray)]
        assert sorted(secrets) == ["peer_key_id", "session_id"], "neither is secret"
        assert (drone.session_id, drone.handshake_id) == (held.session_id, held.handshake_id)
        secret = drone.rekey_secret
        assert len(secret) == 32 and isinstance(secret, pq_core.Secret)
        for read in (bytes, memoryview, list):
            with pytest.raises(TypeError):
                read(secret)
        assert "object at" in repr(secret)


def test_a_session_of_the_specification_is_not_rekeyed_natively(key_folder: Path) -> None:
    with dialled(key_folder, RekeyFrom(b"s" * 16, 1, bytes(32))) as (_, drone, _gcs):
        assert isinstance(drone, errors.KeyMaterialError)


@pytest.mark.parametrize("told", [False, True])
def test_what_a_callback_raises_ends_the_handshake(key_folder: Path, told: bool) -> None:
    """The peer hears an alert, or nothing, as the exception says; the caller gets the exception itself."""
    error = errors.PolicyRefused("no") if told else errors.RateLimited("slowly")

    def refuse(_drone: bytes) -> None:
        raise error

    with dialled(key_folder, admit_key=refuse) as (pair, drone, gcs):
        assert gcs is error
        assert isinstance(drone, errors.PeerAlert if told else native_handshakes.ConnectionLostError)
        assert pair.counters == {"hs_started": 1, error.counter: 1} and not pair.installed


def test_a_fault_of_the_caller_is_not_taken_for_a_refusal(key_folder: Path) -> None:
    def broken(_drone: bytes) -> None:
        raise ZeroDivisionError

    with dialled(key_folder, admit_key=broken) as (_, drone, gcs):
        assert isinstance(gcs, ZeroDivisionError)
        assert isinstance(drone, errors.PeerAlert)


def test_keys_that_are_not_taken_in_are_not_confirmed(key_folder: Path) -> None:
    def ended(_established: Epoch, _rtt_ns: int) -> None:
        raise errors.CellEnded("stopped")

    with dialled(key_folder, install=ended) as (pair, drone, gcs):
        assert isinstance(gcs, errors.CellEnded) and gcs.code == "cell_ended"
        assert isinstance(drone, errors.PeerAlert), "no last word, and so no session"
        assert pair.counters.get("hs_completed", 0) == 0


@pytest.mark.parametrize(("plane", "counter"), [("native", "hs_policy"), ("python", "hs_unknown_suite")])
def test_a_suite_of_pqlink_alone_is_refused(key_folder: Path, plane: str, counter: str) -> None:
    """The registry of the native ends has it, and no cell is prepared for it; the specification's has not."""
    keys = load_gcs(key_folder / "gcs")
    pair, older = Pair(key_folder), suites.get("cs-hqc128-aesgcm-mldsa44")
    newer = replace(older, kem=replace(older.kem, code=0x61))  # on the wire: xs-hqc128v5-aesgcm-mldsa44
    if plane == "python":
        pair.gcs = SpecifiedGcs(keys, load())
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
        answering = threads.submit(pair.answer, far)
        with pytest.raises(errors.PeerAlert):
            pair.dial(near, Dial(newer, 1, 3, 9))
        with pytest.raises(errors.HandshakeError) as refused:
            answering.result(LIMIT_S)
    assert refused.value.counter == counter and pair.counters[counter] == 1


class Child:
    """The native agent of a role in a process of its own."""

    def __init__(self, role: str, keys: Path, state: Path, **settings: str) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable, str(Path(__file__).with_name("agent_process.py")), role, str(keys),
                str(state),
                json.dumps(settings),
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )  # fmt: skip
        assert self.process.stdout is not None
        self.ports: dict[str, int] = json.loads(self.process.stdout.readline())
        controller = TlsFiles.in_folder(keys / "controller")
        self.rpc = RpcClient("127.0.0.1", self.ports["control"], controller, server_name=role)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.rpc.call(method, params)

    def close(self) -> None:
        self.rpc.close()
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(LIMIT_S)
        self.process.stdout.close()


def gone(child: Child, other: Side, secrets: dict[str, bytes]) -> bool:
    """Are they nowhere in the child's memory, soon? A search takes seconds on a busy machine: in between both
    agents hear of their controller, who would be given up otherwise."""
    left: dict[str, int] = {}

    def look() -> bool:
        nonlocal left
        for end in (child, other):
            end.call("counters")
        left = {name: count for name, count in hits(child.process.pid, secrets).items() if count}
        return not left

    assert wait_until(look, LIMIT_S), left
    return True


SIGNING = ("falcon512", "falcon1024", "mldsa44", "mldsa65", "mldsa87")
"""Schemes whose secret keys have no half that is public."""


def long_term(folder: Path) -> dict[str, bytes]:
    """An end's secrets by name: its signing keys, and every PSK."""
    signing = {token: (folder / "sig" / f"{token}.secret").read_bytes() for token in SIGNING}
    psks = [*(folder / "psk").glob("*.secret"), *folder.glob("psk.secret")]
    return signing | {f"PSK {path.stem}": path.read_bytes() for path in psks}


AEADS = ("aesgcm", "chacha20poly1305", "ascon128a")
REKEYS = 4


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/PID/mem is Linux's")
@pytest.mark.parametrize("aead", AEADS)
@pytest.mark.parametrize("role", ["drone", "gcs"])
def test_keys_of_ended_epochs_are_nowhere_in_an_agents_memory(
    role: str, aead: str, key_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other end is the specification's, in this process: it tells which keys to look for."""
    made: list[Established] = []
    add = EpochBook.add

    def kept(book: EpochBook, established: Epoch, sent_on: int | None) -> None:
        assert isinstance(established, Established)
        made.append(established)
        add(book, established, sent_on)

    monkeypatch.setattr(EpochBook, "add", kept)
    sealed = str(free_port("127.0.0.2"))
    child: Child | None = None
    other: Side | None = None
    cell = {"cell_id": "cell-1"}
    try:
        if role == "gcs":
            child = Child("gcs", key_folder, tmp_path, PQ_PEER_SEALED_PORT=sealed)
            other = Side("drone", key_folder, tmp_path, plane="python", **drone_of(child.ports, sealed))
        else:
            other = Side("gcs", key_folder, tmp_path, plane="python", PQ_PEER_SEALED_PORT=sealed)
            handshake = other.door
            ports = {"handshake": handshake[1], "sealed": other.agent.endpoint.dataplane.sealed_address[1]}
            child = Child("drone", key_folder, tmp_path, **drone_of(ports, sealed))
        drone, gcs = (child, other) if role == "drone" else (other, child)
        for end in (gcs, drone):
            end.call("prepare", suite_id=f"cs-mlkem768-{aead}-mldsa65", **cell)
            end.call("start", **cell)
        drone.call("event", kind="handshake_block", count=1, min_count=1, max_s=LIMIT_S, **cell)
        for _ in range(REKEYS):
            drone.call("event", kind="rekey", **cell)
        assert len(made) == 1 + REKEYS
        time.sleep(2.5)  # the epoch before receives for 2 s more
        assert gone(child, other, secrets_of(made[:-1]))
        lasting = long_term(key_folder / role)
        living = hits(child.process.pid, {**secrets_of(made[-1:]), **lasting})
        # A PSK is used up where it is read; of a signing key there is what signs, and no copy of Python's.
        assert {name: living.pop(name) for name in lasting} == {name: name in SIGNING for name in lasting}
        epoch = made[-1].epoch
        for name in ("send key", "receive key", "rekey secret"):
            assert living[f"epoch {epoch} {name}"] >= 1, "the search finds what is there"
        assert sum(living.values()) == 3, f"each in one place: {living}"
        drone.call("stop", **cell)
        gcs.call("stop", **cell)
        assert gone(child, other, secrets_of(made))
    finally:
        for end in (other, child):
            if end is not None:
                end.close()


def drone_of(ports: dict[str, int], sealed: str) -> dict[str, str]:
    """A drone's settings for the gcs that has these ports."""
    return {
        "PQ_PEER": "127.0.0.1",
        "PQ_SEALED_PORT": sealed,
        "PQ_HANDSHAKE_PORT": str(ports["handshake"]),
        "PQ_PEER_SEALED_PORT": str(ports["sealed"]),
    }


@pytest.mark.parametrize("suite", ["cs-mlkem512-chacha20poly1305-falcon512", "cs-hqc128-ascon128a-mldsa44"])
def test_a_handshake_in_memory_agrees_or_says_why(suite: str) -> None:
    made = InMemoryHandshake(suites.get(suite), load())
    for _ in range(3):
        made.fresh()()
    other = InMemoryHandshake(suites.get(suite), load())
    crossed = partial(pq_core.meet, made.vehicle, other.station, suites.get(suite).wire_code)
    with pytest.raises(errors.PrimitiveFailed, match=f"{suite}: .*not pinned"):
        crossed()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "has .* bytes, not"),
        (lambda path: path.unlink(), "cannot be read"),
    ],
)
def test_a_secret_that_went_wrong_after_it_was_looked_at_is_named(
    key_folder: Path, tmp_path: Path, damage: Callable[[Path], object], words: str
) -> None:
    """The core reads it when the first cell is prepared."""
    folder = shutil.copytree(key_folder / "drone", tmp_path / "drone")
    drone = NativeDrone(load_drone(folder))
    damage(folder / "psk.secret")
    with pytest.raises(errors.KeyMaterialError, match=words) as caught:
        drone.load()
    assert "psk.secret" in str(caught.value)
