"""What the engine asks of the rest of pqlab after a cell and after the last one, as one replaceable set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pqbase.documents import Json

if TYPE_CHECKING:
    from pqevidence.record.raw import RawRun


@dataclass(frozen=True)
class Outputs:
    """The functions by their place in a run.

    load_context(data) → context; build_record(cell folder, plan row, context) → record; analyse(bundle);
    render(bundle); seal(work folder, results, secret files) → bundle; reconcile(lines) → rows of
    run.json, or None where the inventory names no database.
    """

    load_context: Callable[[Path], RawRun]
    build_record: Callable[[Path, Json, RawRun], Json]
    analyse: Callable[[Path], object]
    render: Callable[[Path], object]
    seal: Callable[[Path, Path, list[Path]], Path]
    reconcile: Callable[[list[str]], list[Json]] | None


def production(influx_url: str | None, influx_database: str) -> Outputs:
    """The real ones. Imported here, so that `validate` and `plan` start without them."""
    from pqevidence.bundle import seal
    from pqevidence.pages import render
    from pqevidence.records import build_record, load_context
    from pqevidence.tables import analyse

    reconcile: Callable[[list[str]], list[Json]] | None = None
    if influx_url is not None:
        from pqlab.influx import InfluxView, settling

        settled = settling(InfluxView(influx_url, influx_database))

        def reconcile(lines: list[str]) -> list[Json]:
            return [row.as_dict() for row in settled(lines)]

    return Outputs(load_context, build_record, analyse, render, seal, reconcile)
