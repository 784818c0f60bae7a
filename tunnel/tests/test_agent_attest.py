"""What an agent swears to: its chain, over RPC and alone."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from endpoint_kit import Lab

from pqtunnel.agent.attest import BLOCK_LINES, Attestation, Chain, NotAttestingError, pre_authentication
from pqtunnel.agent.params import ParamsError
from pqtunnel.rpc import RemoteError, fetch_all

Json = dict[str, Any]
PLAN, FILES, PEER = "ab" * 32, "cd" * 32, "ef" * 32
BEGIN: Json = {"op": "begin", "run_id": "run", "plan_sha256": PLAN, "segment": 1}
ATTEMPT: Json = {"op": "attempt", "run_id": "run", "cell_id": "cell-1", "files_sha256": FILES, "peer": PEER}
END: Json = {"op": "end", "run_id": "run", "documents_sha256": FILES, "peer": PEER}


def verified(answer: Json) -> Json:
    """The signed statement's predicate. Raises InvalidSignature."""
    envelope = answer["envelope"]
    payload = base64.b64decode(envelope["payload"])
    (given,) = envelope["signatures"]
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(answer["public_key"]))
    key.verify(base64.b64decode(given["sig"]), pre_authentication(envelope["payloadType"], payload))
    predicate: Json = json.loads(payload)["predicate"]
    return predicate


def blocks(lines: list[str]) -> list[str]:
    return [
        hashlib.sha256("".join(f"{line}\n" for line in lines[at : at + BLOCK_LINES]).encode()).hexdigest()
        for at in range(0, len(lines), BLOCK_LINES)
    ]


@pytest.mark.native
def test_a_cell_over_rpc_is_sworn_to_as_it_was_handed_out(lab_pair: Lab) -> None:
    drone = lab_pair.drone
    lines = drone.call("attest", **BEGIN)["lines"]
    lab_pair.flowing(3)
    lab_pair.shut()
    counters, _ = lab_pair.stop()
    spans = fetch_all(drone.rpc, "cell-1", "spans", limit=5)
    events = fetch_all(drone.rpc, "cell-1", "events")
    answer = drone.call("attest", since=len(lines), **ATTEMPT)
    rows = [json.loads(line) for line in [*lines, *answer["lines"]]]
    assert [row["entry"] for row in rows] == ["begin", "cell", "stop", "stream", "stream", "attempt"]
    stop, told, timed = rows[2:5]
    assert (told["stream"], told["lines"], told["sha256"]) == ("spans", len(spans), blocks(spans))
    ordered = sorted(map(json.loads, events), key=lambda row: int(row["t_ns"]))
    canonical = [json.dumps(row, sort_keys=True, separators=(",", ":")) for row in ordered]
    assert (timed["stream"], timed["sha256"]) == ("events", blocks(canonical))
    text = json.dumps(counters, sort_keys=True, separators=(",", ":"))
    assert stop["counters_sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert set(stop["windows_sha256"]) == {"traffic"}
    predicate = verified(answer)
    assert (predicate["head"], predicate["entries"]) == (answer["head"], len(rows))


@pytest.mark.native
def test_pages_of_a_running_cell_are_not_sworn_to(lab_pair: Lab) -> None:
    drone = lab_pair.drone
    drone.call("attest", **BEGIN)
    lab_pair.prepare()
    fetch_all(drone.rpc, "cell-1", "events")
    lab_pair.stop()
    rows = drone.call("attest", since=1, **ATTEMPT)["lines"]
    assert [json.loads(row)["entry"] for row in rows] == ["cell", "stop", "attempt"]


@pytest.mark.native
def test_no_chain_no_oath(lab_pair: Lab) -> None:
    with pytest.raises(RemoteError) as caught:
        lab_pair.gcs.call("attest", since=0, **ATTEMPT)
    assert caught.value.code == "not_attesting"
    lab_pair.prepare()
    lab_pair.stop()


def test_lines_are_linked_from_the_plan_on() -> None:
    agent = Attestation("gcs")
    first = agent.handle(BEGIN)
    agent.prepared("cell-1", "suite")
    second = agent.handle({**ATTEMPT, "since": 1})
    lines = [*first["lines"], *second["lines"]]
    before = PLAN
    for number, line in enumerate(lines):
        row = json.loads(line)
        assert (row["n"], row["prev"]) == (number, before)
        before = hashlib.sha256(line.encode()).hexdigest()
    assert before == second["head"]
    content = "".join(f"{line}\n" for line in lines).encode()
    statement = json.loads(base64.b64decode(second["envelope"]["payload"]))
    assert statement["subject"][0]["digest"]["sha256"] == hashlib.sha256(content).hexdigest()
    assert statement["_type"] == "https://in-toto.io/Statement/v1"


def test_a_changed_statement_is_not_signed() -> None:
    answer = Attestation("gcs").handle(BEGIN)
    verified(answer)
    payload = base64.b64decode(answer["envelope"]["payload"]).replace(b'"entries":1', b'"entries":2')
    answer["envelope"]["payload"] = base64.b64encode(payload).decode()
    with pytest.raises(InvalidSignature):
        verified(answer)


def test_pre_authentication_is_that_of_the_specification() -> None:
    """The example of the DSSE protocol, v1.0."""
    due = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert pre_authentication("http://example.com/HelloWorld", b"hello world") == due


def test_the_key_is_gone_after_the_end() -> None:
    agent = Attestation("drone")
    key = agent.handle(BEGIN)["public_key"]
    assert verified(agent.handle({**END, "since": 1}))["ended"] is True
    with pytest.raises(NotAttestingError):
        agent.handle({**ATTEMPT, "since": 2})
    agent.prepared("cell-1", "suite")  # of a run that does not attest: nothing to do
    assert agent.handle(BEGIN)["public_key"] != key


def test_a_chain_that_ended_signs_nothing_more() -> None:
    chain = Chain("gcs", "run", 1, PLAN, None)
    chain.signed(last=True)
    with pytest.raises(NotAttestingError):
        chain.signed()
    with pytest.raises(NotAttestingError):
        chain.add("attempt")


def test_taken_up_again_it_goes_on_with_its_key() -> None:
    agent = Attestation("drone")
    first = agent.handle(BEGIN)
    agent.prepared("cell-1", "suite")
    again = agent.handle({**BEGIN, "segment": 2, "since": 1, "lost": ["cell-0"]})
    assert (again["public_key"], again["segment"]) == (first["public_key"], 1)
    rows = [json.loads(line) for line in again["lines"]]
    assert [row["entry"] for row in rows] == ["cell", "resumed"]
    assert rows[1]["lost"] == ["cell-0"]


def test_a_controller_that_never_got_the_beginning_is_given_it() -> None:
    agent = Attestation("drone")
    agent.handle(BEGIN)
    again = agent.handle({**BEGIN, "since": 7})
    assert [json.loads(row)["entry"] for row in again["lines"]] == ["begin", "resumed"]


def test_another_run_has_another_key() -> None:
    agent = Attestation("drone")
    first = agent.handle(BEGIN)
    other = agent.handle({**BEGIN, "run_id": "other", "segment": 3, "earlier": PEER})
    assert other["public_key"] != first["public_key"]
    assert json.loads(other["lines"][0])["earlier"] == PEER == verified(other)["earlier"]


def test_lines_that_the_controller_has_are_dropped() -> None:
    agent = Attestation("drone")
    agent.handle(BEGIN)
    agent.handle({**ATTEMPT, "since": 1})
    assert len(agent.handle({**ATTEMPT, "since": 2})["lines"]) == 1
    with pytest.raises(ParamsError, match="'since' must be 2 to 4"):
        agent.handle({**ATTEMPT, "since": 1})


def test_a_stream_read_from_the_middle_is_not_sworn_to() -> None:
    agent = Attestation("drone")
    agent.handle(BEGIN)
    agent.prepared("cell-1", "suite")
    agent.handed_out("cell-1", "log", 0, {"lines": ["a"], "end": False})
    agent.handed_out("cell-1", "log", 2, {"lines": ["c"], "end": True})
    agent.handed_out("other", "log", 0, {"lines": ["a"], "end": True})
    rows = agent.handle({**ATTEMPT, "since": 1})["lines"]
    assert [json.loads(row)["entry"] for row in rows] == ["cell", "attempt"]


def test_streams_by_block_and_logs_by_byte() -> None:
    agent = Attestation("gcs")
    agent.handle(BEGIN)
    agent.prepared("cell-1", "suite")
    lines = [f"row {n}" for n in range(2 * BLOCK_LINES + 1)]
    agent.handed_out("cell-1", "ledger", 0, {"lines": lines[:300], "end": False})
    agent.handed_out("cell-1", "ledger", 300, {"lines": lines[300:], "end": True})
    agent.handed_out("cell-1", "log", 0, {"lines": ["one\ntwo", "three"], "end": True})
    pieces = [base64.b64encode(piece).decode() for piece in (b"ab", b"cde")]
    agent.handed_out("cell-1", "tlog", 0, {"lines": pieces, "end": True})
    ledger, log, tlog = (json.loads(row) for row in agent.handle({**ATTEMPT, "since": 2})["lines"][:3])
    assert (ledger["lines"], ledger["sha256"]) == (len(lines), blocks(lines))
    assert (log["lines"], log["sha256"]) == (3, blocks(["one", "two", "three"]))
    assert (tlog["bytes"], tlog["sha256"]) == (5, [hashlib.sha256(b"abcde").hexdigest()])


@pytest.mark.parametrize(
    "params",
    [
        {**BEGIN, "op": "other"},
        {**BEGIN, "plan_sha256": "short"},
        {**BEGIN, "plan_sha256": "g" * 64},
        {**BEGIN, "segment": 0},
        {**BEGIN, "more": 1},
        "text",
    ],
)
def test_what_is_no_request_is_refused(params: Any) -> None:
    with pytest.raises(ParamsError):
        Attestation("gcs").handle(params)
