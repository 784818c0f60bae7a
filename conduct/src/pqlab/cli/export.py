"""`pqlab export`: what a bundle holds, as files that other tools open: tables, and packets of its cells."""

from __future__ import annotations

import argparse
import io
import re
from collections.abc import Callable
from pathlib import Path

from pqbase.documents import Json, rows_of
from pqevidence.bundle import locate
from pqevidence.bundle.survey import require_safe
from pqevidence.errors import EXIT_OK, LabError, UsageError
from pqevidence.paths import project_root, shown
from pqlab import __version__
from pqlab.cli.common import add_bundle, out_folder, print_json

HELP = "write a bundle's tables, MAVLink logs or datagrams for pandas, MAVExplorer, Wireshark"
#: folder names of cells; a plan may hold anything
_CELL_ID = re.compile(r"[0-9a-f]{16}")
PARQUET = "parquet"
_HOW = {
    "tlog": "telemetry logs are kept where the scenario says `traffic: {tlog: true}`, in sealed cells alone",
    "pcapng": "datagrams are known where both ends keep a ledger (`ledger: true`), and in sealed cells alone",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kind",
        choices=sorted([*_KINDS, PARQUET]),
        metavar="KIND",
        help="tlog: the MAVLink frames the ground received; pcapng: the tunnel's datagrams, without content; "
        "parquet: records, spans, ledgers and tables as typed columns with units",
    )
    add_bundle(parser)
    parser.add_argument("--cell", metavar="ID", help="only cells whose id begins so")
    parser.add_argument(
        "--out", metavar="DIR", help="folder to write into (default: export-RUN_ID beside the bundle)"
    )


def run(args: argparse.Namespace) -> int:
    """0 when at least one file was written.

    Raises LabError `nothing-recorded` (4) when the bundle holds none, `no-pyarrow` (4) where Parquet cannot
    be written, UsageError for a cell that it does not have, LabError (5) for a damaged file.
    """
    from pqevidence.record.raw import read_object

    if args.kind == PARQUET and args.cell:
        raise UsageError(
            "cell-of-tables",
            "--cell does not go with parquet",
            "a table has the rows of all cells",
            "leave --cell out, and choose rows by their cell_id",
        )
    bundle = locate(args.bundle, project_root() / "results")
    require_safe(bundle)
    folder = out_folder(args.out, bundle.parent / f"export-{bundle.name}")
    if args.kind == PARQUET:
        return _tables(bundle, folder, as_json=args.json)
    plan = read_object(bundle / "data" / "plan.json")
    cells = _chosen(plan, args.cell)
    written: list[Json] = []
    without: list[str] = []
    for cell in cells:
        content = _KINDS[args.kind](bundle / "data" / "cells" / str(cell["cell_id"]), cell, plan)
        if content is None:
            without.append(str(cell["cell_id"]))
            continue
        data, told = content
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{cell['cell_id']}.{args.kind}"
        half = target.with_name(f".{target.name}.half")
        half.write_bytes(data)
        half.replace(target)
        written.append({"cell_id": cell["cell_id"], "file": shown(target), **told})
    if not written:
        raise LabError(
            "nothing-recorded",
            f"no cell of {bundle.name} has what a {args.kind} is made of",
            _HOW[args.kind],
            "what was not recorded is not exported; set it, and run again",
        )
    if args.json:
        print_json({"kind": args.kind, "files": written, "cells_without": without})
        return EXIT_OK
    for row in written:
        print(f"{row['file']}: {row['what']}")
    if without:
        more = " …" if len(without) > 3 else ""
        print(f"{len(without)} of {len(cells)} cells hold none: {', '.join(without[:3])}{more}")
    return EXIT_OK


def _tables(bundle: Path, folder: Path, *, as_json: bool) -> int:
    from pqevidence.exchange.parquet import write_tables

    written = write_tables(bundle, folder)
    if as_json:
        files = [
            {"file": shown(one.path), "rows_count": one.rows_count, "columns_count": one.columns_count}
            for one in written
        ]
        print_json({"kind": PARQUET, "files": files, "cells_without": []})
        return EXIT_OK
    for one in written:
        print(f"{shown(one.path)}: {one.rows_count:,} rows of {one.columns_count} columns")
    return EXIT_OK


def _chosen(plan: Json, prefix: str | None) -> list[Json]:
    """Planned cells whose id is one, in plan order. Raises UsageError where the prefix fits none."""
    known = [
        dict(cell) for cell in rows_of(plan, "cells", []) if _CELL_ID.fullmatch(str(cell.get("cell_id")))
    ]
    chosen = [cell for cell in known if str(cell["cell_id"]).startswith(prefix or "")]
    if not chosen:
        raise UsageError(
            "unknown-cell",
            f"no cell of this bundle begins with {prefix}" if prefix else "the plan has no cell",
            f"it has {len(known)} cells",
            "the verdict matrix of report.html leads to each cell and its id",
        )
    return chosen


def _tlog(folder: Path, _cell: Json, _plan: Json) -> tuple[bytes, Json] | None:
    """The recorded bytes as they are, once they were read from end to end."""
    from pqevidence.exchange import flightlog
    from pqevidence.record.raw import RawDataError

    path = folder / flightlog.FILE
    if not path.is_file():
        return None
    data = path.read_bytes()
    try:
        log = flightlog.looked_at(data)
    except flightlog.TlogError as error:
        raise RawDataError(path, str(error)) from error
    kinds = len(log.by_message_id)
    told = {
        "frames_count": log.frames_count,
        "by_message_id": {str(number): count for number, count in log.by_message_id.items()},
    }
    return data, {**told, "what": f"{log.frames_count:,} frames of {kinds} message types"}


def _pcapng(folder: Path, cell: Json, plan: Json) -> tuple[bytes, Json] | None:
    """A capture of both ledgers; None where neither end kept one."""
    from pqevidence.exchange import datagrams
    from pqevidence.exchange.pcapng import Capture
    from pqevidence.record.ledger import LedgerError, read_ledger
    from pqevidence.record.raw import ROLES, RawDataError

    ledgers = {}
    for role in ROLES:
        path = folder / f"ledger.{role}.csv"
        if path.is_file():
            try:
                ledgers[role] = read_ledger(path)
            except LedgerError as error:
                raise RawDataError(path, str(error)) from error
    if not ledgers:
        return None
    out = io.BytesIO()
    about = (
        f"run {plan.get('run_id')}, cell {cell['cell_id']}: {cell.get('suite_id')} under "
        f"{cell.get('condition')}, repetition {cell.get('repetition')}. Made of the ledgers: data datagrams "
        "alone, with their length and no byte of their content, which was not recorded. One packet id is one "
        "datagram, seen at both ends."
    )
    capture = Capture(out, application=f"pqlab {__version__}", comment=about)
    count = datagrams.write_capture(capture, ledgers, datagrams.seen(ledgers))
    what = f"{count:,} packets at {' and '.join(sorted(ledgers))}"
    return out.getvalue(), {"packets_count": count, "what": what}


_Export = Callable[[Path, Json, Json], tuple[bytes, Json] | None]
_KINDS: dict[str, _Export] = {"tlog": _tlog, "pcapng": _pcapng}
