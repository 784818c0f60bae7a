"""Files that people and hosts write: scenarios, inventories, identities, telemetry, ledgers."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from pqevidence.errors import LabError
from pqevidence.record.ledger import LedgerError, join, read_ledger
from pqevidence.scenario.load import load_effective, load_scenario
from pqlab.inventory import load_inventory
from pqsitl.errors import TlogError
from pqsitl.tlog import load_replay, read_frames, write_frames
from pqtelemetry.errors import EncodeError, ParseError
from pqtelemetry.line import Sample, encode
from pqtelemetry.parse import _parse_escaped, parse_line
from pqtunnel.errors import KeyMaterialError
from pqtunnel.handshake.identity import GcsPublicIdentity
from targets import ROOT, Target

# In memory where there is such a place: a file a run would otherwise wait for the disk.
_PLACE = tempfile.TemporaryDirectory(prefix="pqfuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
_FOLDER = Path(_PLACE.name)


def _file(name: str, data: bytes) -> Path:
    path = _FOLDER / name
    path.write_bytes(data)
    return path


def scenario(data: bytes) -> None:
    """A scenario is refused by file and line, or complete: written down and read again it is the same."""
    path = _file("scenario.yml", data)
    try:
        loaded = load_scenario(str(path))
    except LabError as error:
        assert error.exit_code == 2 and error.what and error.hint
        return
    text = loaded.effective_yaml()
    again = load_effective(_file("effective.yml", text.encode()))
    assert again.effective_yaml() == text, "the effective scenario is not what it says"
    assert {path for path, _, _ in loaded.leaves()} == set(loaded.origins), "a value without an origin"


def inventory(data: bytes) -> None:
    """An inventory names one drone and one gcs, or is refused by name."""
    try:
        found = load_inventory(str(_file("inventory.ini", data)))
    except LabError as error:
        assert error.exit_code == 2 and error.hint
        return
    assert set(found.agents) == {"drone", "gcs"}
    assert all(0 < agent.port < 65_536 and agent.host for agent in found.agents.values())


def identity(data: bytes) -> None:
    """A GCS's public identity: what is taken has the key id it states and encodes to the same document."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return  # the loader's own refusal; identity_files turns it into KeyMaterialError
    try:
        found = GcsPublicIdentity.from_json(document)
    except KeyMaterialError:
        return
    assert GcsPublicIdentity.from_json(found.to_json()) == found


def tlog(data: bytes) -> None:
    """Frames as they were logged: written again they are the same bytes; a replay never goes back in time."""
    try:
        frames = list(read_frames(data))
    except TlogError:
        frames = None
    path = _file("log.tlog", data)
    if frames is not None:
        for item in frames:
            assert 0 <= item.system_id <= 255 and item.message_id >= 0 and len(item.payload) <= 255
        write_frames(_file("again.tlog", b""), frames)
        assert (_FOLDER / "again.tlog").read_bytes() == data, "written again it is another log"
    try:
        replay = load_replay(path)
    except TlogError:
        return
    assert frames is not None and len(replay.frames) + replay.skipped_count == len(frames)
    times = [offset for offset, _ in replay.frames]
    assert times == sorted(times) and times[0] == 0 and replay.duration_s >= 0


def line(data: bytes) -> None:
    """Line protocol: what is taken is what the encoder writes, and both readers of the grammar agree."""
    text = data.decode("utf-8", "replace")
    try:
        point = parse_line(text)
    except ParseError:
        point = None
    if "\\" not in text:
        try:
            slow = _parse_escaped(text.removesuffix("\n"))
        except ParseError:
            slow = None
        assert slow == point, f"the quick reader says {point!r}, the whole grammar {slow!r}"
    if point is None:
        return
    try:
        written = encode(Sample(point.measurement, point.fields, point.tags), point.time_ns)
    except EncodeError:
        raise AssertionError(f"taken, and nothing the encoder writes: {point!r}") from None
    assert parse_line(written) == point, "encoded and read again it is another point"


def ledger(data: bytes) -> None:
    """A ledger is refused by line, or each row is in one column and the join accounts for all of them."""
    try:
        found = read_ledger(_file("ledger.csv", data))
    except LedgerError:
        return
    joined = join(found.tx, found.rx)
    sent = joined.total("sent")
    arrived = sum(len(window.latency_ns) for window in joined.windows.values())
    assert sent == len(found.tx)
    repeats = len(found.rx) - len(set(found.rx.key)) + len(found.tx) - len(set(found.tx.key))
    assert joined.duplicates == repeats and joined.ghosts + arrived == len(set(found.rx.key))


def _scenario_seeds() -> dict[str, bytes]:
    odd = {
        "seed-cycle": b"name: &a [*a]\n",
        "seed-value": b"name: =\nseed: 2024-99-99\n",
        "seed-tag": b"name: !!float x\n",
        "seed-bomb": b"a: &a [x,x,x,x,x,x,x,x,x]\n"
        + b"".join(
            b"%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c]\n" % (n + 1, n + 1, *(n,) * 6) for n in range(97, 110)
        ),
    }
    shipped = sorted((ROOT / "scenarios").glob("*.yml"))
    return {f"seed-{path.stem}": path.read_bytes() for path in shipped} | odd


def _inventory_seeds() -> dict[str, bytes]:
    return {
        "seed-lab": (ROOT / "ansible/inventories/lab.ini").read_bytes(),
        "seed-own": b"[drone]\npi ansible_host=198.18.0.2 pqlab_agent_port=48080\n[gcs]\nwin pqlab_ring=lab\n"
        b"[lab:children]\ndrone\ngcs\n[lab:vars]\npqlab_keys = 'keys'\n",
    }


def _identity_seeds() -> dict[str, bytes]:
    one = GcsPublicIdentity({"sphincs128s": bytes(32)})
    return {
        "seed-one": json.dumps(one.to_json()).encode(),
        "seed-odd": b'{"schema":[],"keys":{"a":1},"key_id":2}',
    }


def _tlog_seeds() -> dict[str, bytes]:
    beat = b"\xfd\x09\0\0\0\x01\x01\0\0\0" + b"\0\0\0\0\x02\x03\x51\x03\x03" + b"\xaa\xbb"
    old = b"\xfe\x09\0\x01\x01\0" + b"\0\0\0\0\x02\x03\x51\x03\x03" + b"\xaa\xbb"
    signed = b"\xfd\x01\x01\0\0\xff\x01\x6f\0\0" + b"\x07" + b"\xaa\xbb" + bytes(13)
    return {
        "seed-two": bytes(8) + beat + b"\0\0\0\0\0\0\x10\0" + old,
        "seed-signed": bytes(8) + beat + bytes(8) + signed,
        "seed-back": b"\0\0\0\0\0\0\x10\0" + beat + bytes(8) + beat,
        "seed-cut": bytes(8) + beat[:-3],
    }


def _line_seeds() -> dict[str, bytes]:
    return {
        "seed-plain": b"pq_cpu,host=drone,core=0 user_pct=1.5,count=3i,ok=true 1700000000000000000\n",
        "seed-string": b'pq_sensor,host=gcs reason="no \\"such\\" file",age_s=-1e-05 1\n',
        "seed-escaped": b"a\\ b,k\\,1=v\\=2 f\\ x=1i 0",
        "seed-quoted": b'm a="x y,z=1",b=false 9',
    }


def _ledger_seeds() -> dict[str, bytes]:
    head = b"direction,epoch,sequence,size_bytes,t_in_ns,t_out_ns,window\n"
    return {
        "seed-rows": head
        + b"tx,0,1,60,100,110,traffic\nrx,0,1,60,150,160,traffic\nrx,0,1,60,151,161,traffic\n",
        "seed-big": head + b"tx,4294967295,18446744073709551615,60,9223372036854775807,0,w\n",
        "seed-quoted": head + b'tx,0,2,60,1,2,"a,b"\n',
        "seed-head": head[:-1],
    }


TARGETS = {
    "scenario": Target(
        "scenario YAML",
        scenario,
        _scenario_seeds,
        (
            "evidence/src/pqevidence/scenario/*.py",
            "evidence/src/pqevidence/scenario/*.json",
            "attacker/src/pqattack/settings.py",
            "tunnel/src/pqtunnel/inflight.py",
        ),
        words=[
            b"suites:",
            b"traffic:",
            b"conditions:",
            b"- name: ",
            b"&a ",
            b"*a",
            b"!!int ",
            b"<<: ",
            b".inf",
            b"0x10",
            b"1_0",
            b"null",
            b"{}",
            b"[]",
            b"? ",
            b"|\n",
        ],
    ),
    "inventory": Target(
        "Ansible INI inventory",
        inventory,
        _inventory_seeds,
        ("conduct/src/pqlab/inventory.py",),
        words=[b"[drone]", b"[gcs]", b":vars]", b":children]", b"pqlab_agent_port=", b"#", b"'"],
    ),
    "identity": Target(
        "a GCS's public identity (JSON)",
        identity,
        _identity_seeds,
        ("tunnel/src/pqtunnel/handshake/identity.py",),
        words=[b'"schema"', b'"keys"', b'"key_id"', b'"sphincs128s"', b"null", b"{}"],
    ),
    "tlog": Target(
        "telemetry logs and MAVLink frames",
        tlog,
        _tlog_seeds,
        ("sitl/src/pqsitl/tlog.py", "sitl/src/pqsitl/frames.py"),
        words=[b"\xfd\x09", b"\xfe\x09"],
    ),
    "line": Target(
        "telemetry lines",
        line,
        _line_seeds,
        ("telemetry/src/pqtelemetry/parse.py", "telemetry/src/pqtelemetry/line.py"),
        words=[b"\\ ", b"\\,", b"\\=", b'"', b"i,", b"true", b"1e5", b"-9223372036854775808i", b" 0"],
    ),
    "ledger": Target(
        "ledgers (CSV)",
        ledger,
        _ledger_seeds,
        ("evidence/src/pqevidence/record/ledger.py",),
        words=[b"tx,", b"rx,", b",traffic\n", b'"', b"\r\n", b"9223372036854775808", b"-1", b"_"],
    ),
}
