"""Claims of where, on what and with what it was measured."""

from __future__ import annotations

import hashlib
import uuid

from adversary.catalogue import forgery
from adversary.raw import ROLES, Bundle, Json, load, save

PI: Json = {
    "machine": "aarch64", "cpu_model": "Cortex-A76", "cpu_count": 4, "kernel": "6.12.25+rpt-rpi-2712",
    "cpu_features": ["aes", "pmull", "sha2"], "board_model": "Raspberry Pi 5 Model B Rev 1.0",
    "board_revision": "c04170", "in_container": False,
}  # fmt: skip
LAB: Json = {
    "machine": "x86_64", "cpu_model": "AMD EPYC", "cpu_count": 1, "cpu_features": ["aes", "avx2"],
    "kernel": "6.1.0-18-amd64", "board_revision": None, "in_container": True,
}  # fmt: skip


def _ring(bundle: Bundle, ring: str) -> None:
    bundle.scenario(lambda s: s.update(ring=ring))
    for role in ROLES:
        bundle.edit(f"hosts/{role}.json", lambda facts: facts.update(ring=ring))
    for cell in bundle.cells:
        for role in ROLES:
            path = cell.folder / f"telemetry.{role}.lp"
            text = path.read_text()
            for old in ("sim", "lab", "hardware"):
                text = text.replace(f"ring={old}", f"ring={ring}")
            path.write_text(text)
    run = load(bundle.data / "run.json")
    if run.get("influx"):
        for cell in run["influx"]["cells"]:
            for entry in cell["series"]:
                for old in ("sim", "lab", "hardware"):
                    entry["series"] = entry["series"].replace(f"ring={old}", f"ring={ring}")
    save(bundle.data / "run.json", run)


def _hosts(bundle: Bundle, facts: dict[str, Json], *, boots: int) -> None:
    ids = [str(uuid.UUID(int=hash_of(f"boot {n % boots}"))) for n in range(3)]
    for number, role in enumerate((*ROLES, "controller")):
        known = facts.get(role, facts.get("gcs", {}))

        def told(file: Json, known: Json = known, boot: str = ids[number]) -> None:
            file["host"].update(known, boot_id=boot, hostname=f"host-{boot[:4]}")
            if "timestamp_source" in file:
                file["timestamp_source"] = "kernel"

        bundle.edit(f"hosts/{role}.json", told)
    bundle.edit("run.json", lambda run: run["controller"].update(controller_on_dut=boots == 1))


def hash_of(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")


def _real_builds(bundle: Bundle) -> None:
    """Versions and digests as a real run has them."""

    def built(both: Json) -> None:
        for role in ROLES:
            both[role].update(
                python="3.13.5",
                openssl="OpenSSL 3.5.1",
                cryptography="45.0.0",
                liboqs={"version": "0.13.0", "sha256": "9a" * 32},
                ascon_native={"version": "0.2.0", "sha256": "8b" * 32},
            )

    bundle.edit("providers.json", built)
    bundle.rename()


@forgery("ring relabelled", "sim")
def simulation_called_lab(bundle: Bundle) -> None:
    """A simulation was measured in a lab; only the field `ring` says so."""
    _ring(bundle, "lab")


@forgery("ring relabelled", "sim")
def simulation_called_hardware(bundle: Bundle) -> None:
    """A simulation was measured on two machines with a Raspberry Pi; only the field `ring` says so."""
    _ring(bundle, "hardware")


@forgery("ring relabelled", "sim")
def simulation_on_a_lab_machine(bundle: Bundle) -> None:
    """A simulation was measured in a lab: hosts, builds and database say so, too."""
    _ring(bundle, "lab")
    _hosts(bundle, {"gcs": LAB}, boots=1)
    _real_builds(bundle)
    for role in ROLES:
        bundle.edit(f"hosts/{role}.json", lambda facts: facts.update(dataplane_asked="python"))
    _database(bundle)


@forgery("ring relabelled", "sim")
def simulation_on_a_board(bundle: Bundle) -> None:
    """A simulation was measured between a Raspberry Pi and a station: hosts, builds and database say so,
    too."""
    _ring(bundle, "hardware")
    _hosts(bundle, {"drone": PI, "gcs": LAB}, boots=3)
    _real_builds(bundle)
    _database(bundle)


def _database(bundle: Bundle) -> None:
    cells = []
    for cell in bundle.cells:
        counted: dict[str, int] = {}
        for role in ROLES:
            for line in (cell.folder / f"telemetry.{role}.lp").read_text().splitlines():
                name = line.split(" ", 1)[0]
                counted[name] = counted.get(name, 0) + 1
        series = [
            {"series": k, "file_count": n, "influx_count": n, "ok": True} for k, n in sorted(counted.items())
        ]
        cells.append({"cell_id": cell.row["cell_id"], "series": series})
    bundle.edit("run.json", lambda run: run.update(influx={"available": True, "cells": cells}))


@forgery("ring relabelled", "lab")
def lab_called_hardware(bundle: Bundle) -> None:
    """Containers on one machine were two machines; only the field `ring` says so."""
    _ring(bundle, "hardware")


@forgery("ring relabelled", "lab")
def lab_with_a_board_revision(bundle: Bundle) -> None:
    """The same, and the drone names a board revision."""
    _ring(bundle, "hardware")
    bundle.edit("hosts/drone.json", lambda facts: facts["host"].update(board_revision="c04170"))


@forgery("ring relabelled", "lab")
def lab_sold_as_a_board(bundle: Bundle) -> None:
    """Containers on one machine were a Raspberry Pi 5 and a station: names, processors and boots say so."""
    _ring(bundle, "hardware")
    _hosts(bundle, {"drone": PI, "gcs": LAB}, boots=3)


@forgery("ring relabelled", "lab")
def lab_sold_as_two_machines(bundle: Bundle) -> None:
    """Both ends ran on machines of their own, each with its own boot and clock."""
    _ring(bundle, "hardware")
    _hosts(bundle, {"drone": PI, "gcs": PI}, boots=2)


@forgery("ring relabelled", "lab")
def wine_not_named(bundle: Bundle) -> None:
    """A ground station under wine was a lab host like any other, and hardware at that."""
    _ring(bundle, "hardware")
    bundle.edit("hosts/drone.json", lambda facts: facts["host"].update(board_revision="c04170"))
    bundle.edit("hosts/gcs.json", lambda facts: facts["host"].update(os="windows", wine="10.0"))
    bundle.edit("hosts/gcs.json", lambda facts: facts["host"].pop("wine"))


@forgery("versions unknown", "sim", "lab", pages=False)
def page_by_hand_of_a_version_to_come(bundle: Bundle) -> None:
    """The page shows half the times; the version that made it is none that there is, so nobody renders it."""
    bundle.edit("run.json", lambda run: run.update(pqlab_version="9.9.9"))
    _halve_page(bundle)


@forgery("versions unknown", "sim", "lab", pages=False)
def page_by_hand_of_an_old_version(bundle: Bundle) -> None:
    """The page shows half the times; it claims to be of the version before, whose pages are not rendered."""
    bundle.edit("run.json", lambda run: run.update(pqlab_version="0.1.0"))
    _halve_page(bundle)


@forgery("versions unknown", "sim", "lab", pages=False)
def no_version_at_all(bundle: Bundle) -> None:
    """The page shows half the times, and nobody can say what made it."""
    bundle.edit("run.json", lambda run: run.pop("pqlab_version"))
    _halve_page(bundle)


@forgery("versions unknown", "sim", "lab", pages=False)
def version_of_a_patch(bundle: Bundle) -> None:
    """The same with a version that sounds like the next patch."""
    bundle.edit("run.json", lambda run: run.update(pqlab_version="1.0.1"))
    _halve_page(bundle)


def _halve_page(bundle: Bundle) -> None:
    """Every `1.` of the page reads `0.`; digests of the numbers and of the files are made to fit."""
    import re

    data = bundle.data
    names = [
        "plan.json",
        *sorted(f"cells/{p.parent.name}/record.json" for p in data.glob("cells/*/record.json")),
    ]
    names += [f"analysis/{p.name}" for p in data.glob("analysis/*.csv")]
    _fingerprints(bundle)
    digest = hashlib.sha256()
    for name in sorted(names):
        for part in (name.encode(), (data / name).read_bytes()):
            digest.update(len(part).to_bytes(8, "big") + part)
    for page in ("report.html", "report.md"):
        text = (data / page).read_text()
        old = re.search(r'numbers-sha256" content="(\w{64})|numbers sha256: `?(\w{64})', text)
        assert old is not None
        text = re.sub(r"\b1\.(\d+ ms)", r"0.\1", text).replace(
            old.group(1) or old.group(2), digest.hexdigest()
        )
        (data / page).write_text(text)


def _fingerprints(bundle: Bundle) -> None:
    path = bundle.data / "analysis" / "fingerprints.csv"
    rows = [line.split(",") for line in path.read_text().splitlines()]
    files = [
        bundle.data / name for name in ("scenario.effective.yml", "plan.json", "providers.json", "run.json")
    ]
    files += (bundle.data / "hosts").iterdir()
    lines = [
        f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.relative_to(bundle.data).as_posix()}\n"
        for p in sorted(files, key=lambda p: p.relative_to(bundle.data).as_posix())
    ]
    for row in rows:
        if row[0] == "run":
            row[2:] = [
                str(len(files)),
                str(sum(p.stat().st_size for p in files)),
                hashlib.sha256("".join(lines).encode()).hexdigest(),
            ]
    path.write_text("".join(",".join(row) + "\n" for row in rows))


@forgery("versions unknown", "sim", "lab")
def plan_of_a_format_to_come(bundle: Bundle) -> None:
    """The plan is of a format that this version knows."""
    bundle.edit("plan.json", lambda plan: plan.update(schema_version="pqlab/plan/v7"))


@forgery("versions unknown", "lab", "sim")
def agents_of_another_protocol(bundle: Bundle) -> None:
    """Both ends spoke the protocol of this version; they say that they spoke another."""
    for role in ROLES:
        bundle.edit(f"hosts/{role}.json", lambda facts: facts.update(protocol_version=9))


@forgery("builds renamed", "sim", "lab", witnessed=False)
def newer_library(bundle: Bundle) -> None:
    """It was measured with a library that came out later."""

    def newer(both: Json) -> None:
        for role in ROLES:
            both[role]["liboqs"]["version"] = "0.15.0"

    bundle.edit("providers.json", newer)
    bundle.rename()


@forgery("builds renamed", "lab")
def newer_library_with_known_bytes(bundle: Bundle) -> None:
    """The same; its digest is that of the library which the images of this version have."""
    digest = "fbee8badf85344cfb2d6aaecabe1e7b7bdcf18f31843600f0ffd54217afa8f86"

    def newer(both: Json) -> None:
        for role in ROLES:
            both[role]["liboqs"].update(version="0.15.0", sha256=digest)

    bundle.edit("providers.json", newer)
    bundle.rename()


@forgery("builds renamed", "lab")
def library_of_another_machine(bundle: Bundle) -> None:
    """The native core was that of a Raspberry Pi; the hosts are x86."""
    digest = "b040a74007fa6a088eb9b7a277669b11debc1901ea224dde0b6a0590a529531b"

    def other(both: Json) -> None:
        for role in ROLES:
            both[role]["core"] = {"version": "0.1.0", "sha256": digest}

    bundle.edit("providers.json", other)
    bundle.rename()


@forgery("builds renamed", "lab", witnessed=False)
def another_processor(bundle: Bundle) -> None:
    """It was measured on a slower processor than it was."""
    for role in (*ROLES, "controller"):
        bundle.edit(f"hosts/{role}.json", lambda facts: facts["host"].update(cpu_model="Intel Celeron J1900"))


@forgery("builds renamed", "lab", witnessed=False)
def quieter_start(bundle: Bundle) -> None:
    """The machine had nothing to do when the run began."""
    bundle.edit(
        "run.json", lambda run: run.update(loadavg_start=[0.0, 0.0, 0.0], loadavg_end=[0.0, 0.0, 0.0])
    )


@forgery("every witness rewritten", "sim", witnessed=False)
def all_times_of_the_model_changed(bundle: Bundle) -> None:
    """Keys, signatures and all that rests on them cost a tenth less; spans, windows and clocks agree."""
    for cell in bundle.cells:
        rows = cell.lines("spans.ndjson")
        zero = min(row["start_ns"] for row in rows)
        moved = 0
        done: dict[str, int] = {}
        for key in dict.fromkeys(row["handshake_id"] for row in rows):
            done[key] = moved
            mine = [row for row in rows if row["handshake_id"] == key]
            first = min(row["start_ns"] for row in mine)
            moved += round((max(row["end_ns"] for row in mine) - first) * 0.1)
        for key, less in done.items():
            mine = [row for row in rows if row["handshake_id"] == key]
            first = min(row["start_ns"] for row in mine)
            for row in mine:
                for name in ("start_ns", "end_ns"):
                    row[name] = first - less + round((row[name] - first) * 0.9)
        assert zero == min(row["start_ns"] for row in rows)
        cell.put_lines("spans.ndjson", rows)

        def earlier(row: Json, moved: int = moved) -> None:
            if row["event"] == "window_end" and row["window"] == "handshake_cold":
                row["t_ns"] -= moved

        cell.change_lines("events.ndjson", earlier)
        cell.log_from_events()


@forgery("every witness rewritten", "sim", "lab", witnessed=False)
def only_the_best_of_many_runs(bundle: Bundle) -> None:
    """This run was the only one. (Ten were made, and nine thrown away: nothing in this bundle knows.)"""
    assert bundle.cells


@forgery("another day", "sim", "lab")
def another_day(bundle: Bundle) -> None:
    """It was measured two days later than it was, after the library was mended."""
    by_ns = 172_800 * 10**9
    for cell in bundle.cells:
        cell.shift(by_ns, mono_by_ns=0 if cell.folder.parent.parent.parent.name[:4] != "2000" else by_ns)

    def later(run: Json) -> None:
        for part in (run, *(run.get("sessions") or [])):
            for name in ("started_ns", "ended_ns"):
                part[name] += by_ns

    bundle.edit("run.json", later)
