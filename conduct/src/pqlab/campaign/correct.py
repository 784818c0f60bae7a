"""Correcting a sealed bundle: a new bundle that holds all of it byte for byte, and one layer more.

The sealed one stays as it is. Tables and pages of the new one are made with the layer; its run measured
nothing, so every record is still of the run that its lineage names.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from pqbase.text import utc_basic, utc_text
from pqevidence.bundle import Bundle, bag, open_bundle, seal
from pqevidence.bundle.attribution import FILE as ATTRIBUTION
from pqevidence.bundle.corrections import (
    FOLDER,
    REASON,
    WITHDRAW,
    Correction,
    document,
    load_corrections,
    withdrawn,
)
from pqevidence.errors import UsageError
from pqevidence.pages import render
from pqevidence.plan import cells_of
from pqevidence.tables import analyse
from pqevidence.verify.checks_text import FORBIDDEN, find_forbidden
from pqlab import __version__
from pqlab.campaign.clock import Clock
from pqlab.campaign.extension import Extension, check_whole
from pqlab.campaign.finish import seal_marked
from pqlab.campaign.store import Store, disk_errors

REASON_CHARS = (10, 500)
_MIN_ID_CHARS = 4
#: said of the run that measured; a correction is none
_OF_A_RUN = (
    "sessions",
    "influx",
    "verdict_counts",
    "exit_verdict",
    "warnings",
    "loadavg_start",
    "loadavg_end",
)


def correct(
    root: Path,
    results: Path,
    *,
    action: str,
    cells: tuple[str, ...],
    reason: str,
    clock: Clock,
    token: str,
    secrets: list[Path],
) -> Path:
    """Seal the corrected bundle under `results` and return it; `latest` points to it.

    cells: ids or their beginnings. secrets: key files to search the new files for. Raises UsageError for a
    reason or cells that cannot stand, LabError for a bundle that is not as it was sealed.
    """
    check_whole(root)
    base = open_bundle(root)
    reason = checked_reason(reason)
    chosen = tuple(_resolve(base, text) for text in cells)
    if action == WITHDRAW:
        _check_results(base, chosen)
    now_ns = clock.realtime_ns()
    layers = load_corrections(base.data)
    layer = Correction(
        number=1 + len(layers),
        action=action,
        reason=reason,
        created_utc=utc_text(now_ns),
        of_run=base.run_id,
        cells=tuple(sorted(set(chosen))),
    )
    store = Store(results, f"{utc_basic(now_ns)}-{token}")
    store.lock()
    try:
        _fill(base, store, layer, now_ns, clock)
        with disk_errors(store.data / "analysis"):
            analyse(store.root)
            render(store.root)
        store.clear_scaffolding()
        return seal_marked(store, seal, secrets)
    except BaseException:
        # nothing was measured: there is no work worth keeping
        shutil.rmtree(store.root, ignore_errors=True)
        raise
    finally:
        store.unlock()


def _fill(base: Bundle, store: Store, layer: Correction, now_ns: int, clock: Clock) -> None:
    data, plan, run = base.data, base.raw.plan, base.raw.run
    extension = Extension(base.root, cells_of(plan), run)
    with disk_errors(store.data):
        store.data.mkdir(parents=True, exist_ok=True)
        for name in ("scenario.effective.yml", "providers.json", ATTRIBUTION):
            if name != ATTRIBUTION or (data / name).is_file():
                shutil.copyfile(data / name, store.data / name)
        shutil.copytree(data / "hosts", store.data / "hosts")
        extension.copy_into(store)
        (store.data / FOLDER).mkdir(exist_ok=True)
    store.write(layer.name, document(layer, bag.sha512_file(base.root / bag.MANIFEST)))
    store.write("plan.json", {**plan, "run_id": store.run_id})
    kept = {key: value for key, value in run.items() if key not in _OF_A_RUN}
    ended_ns = max(clock.realtime_ns(), now_ns + 1)
    store.write(
        "run.json",
        {
            **kept,
            "run_id": store.run_id,
            "started_ns": now_ns,
            "ended_ns": ended_ns,
            "pqlab_version": __version__,
            "command": ["pqlab", "correct"],
            "corrects": layer.of_run,
            "lineage": extension.lineage(REASON),
            "influx": None,
            "sessions": [],
        },
    )


def checked_reason(text: str) -> str:
    """The reason as it goes into the layer. Raises UsageError for one that says nothing, or too much."""
    reason = " ".join(text.split())
    low, high = REASON_CHARS
    if not low <= len(reason) <= high or not reason.isprintable():
        raise UsageError(
            "bad-reason",
            f"the reason has {len(reason)} characters",
            f"{low} to {high} are asked for: whoever reads the bundle must understand what was wrong",
            '--reason "a backup ran on the machine during these cells"',
        )
    for rule in FORBIDDEN:
        if find_forbidden(reason.encode(), rule) is not None:
            raise UsageError(
                "bad-reason",
                f"the reason holds {rule.what}",
                "a bundle is given to strangers",
                "say it without",
            )
    return reason


def _resolve(bundle: Bundle, text: str) -> str:
    ids = {str(row["cell_id"]) for row in bundle.plan_cells}
    found = sorted(cell_id for cell_id in ids if cell_id.startswith(text))
    if len(found) == 1 and len(text) >= _MIN_ID_CHARS and re.fullmatch(r"[0-9a-f]+", text):
        return found[0]
    raise UsageError(
        "no-such-cell",
        f"{text!r} names {len(found) or 'no'} cells of this bundle",
        f"an id, or at least {_MIN_ID_CHARS} hex digits that only one id begins with, is needed",
        "the report lists the ids, and so does data/plan.json",
    )


def _check_results(bundle: Bundle, cells: tuple[str, ...]) -> None:
    """Only what claims a result can be taken back, and once."""
    if not cells:
        raise UsageError(
            "no-such-cell", "no cell is named", "a result is taken back cell by cell", "--withdraw CELL_ID"
        )
    verdicts = {str(record["cell_id"]): str(record["verdict"]) for record in bundle.records()}
    gone = withdrawn(bundle.data)
    for cell_id in cells:
        if cell_id in gone or verdicts.get(cell_id) != "pass":
            state = gone.get(cell_id) or f"its verdict is {verdicts.get(cell_id)}"
            raise UsageError(
                "nothing-to-withdraw",
                f"{cell_id} has no result that could be withdrawn",
                state,
                "say something about it instead: --remark CELL_ID",
            )
