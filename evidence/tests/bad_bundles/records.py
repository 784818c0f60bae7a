"""Records that say something else than their raw files."""

from __future__ import annotations

from pathlib import Path

from bad_bundles.forge import Registry, cell_of, edit, edit_field, finish, load, registering

BAD: Registry = {}
SUITE = "mlkem768"


@registering(BAD, "record_medians")
def twice_as_fast(root: Path) -> None:
    """The record's handshake median is half of what its spans give."""
    cell = cell_of(root, SUITE)
    value = load(cell / "record.json")["categories"]["D"]["handshake_total_duration_ms"]["value"]
    edit_field(cell, "D", "handshake_total_duration_ms", value=round(value / 2, 6))
    finish(root)


@registering(BAD, "record_rebuild")
def cooler_processor(root: Path) -> None:
    """The record's CPU share is not that of its telemetry."""
    edit_field(cell_of(root, SUITE), "N", "cpu_usage_mean_pct", value=1.5)
    finish(root)


@registering(BAD, "record_rebuild")
def another_version_for_an_excuse(root: Path) -> None:
    """A record's CPU share is not that of its telemetry, and the bundle says another version made it so."""
    edit(root / "data" / "run.json", lambda run: run.update(pqlab_version="0.1.0"))
    edit_field(cell_of(root, SUITE), "N", "cpu_usage_mean_pct", value=1.5)
    finish(root)


@registering(BAD, "record_schema")
def seconds_for_milliseconds(root: Path) -> None:
    """A field in another unit than its catalogue's."""
    edit_field(cell_of(root, SUITE), "D", "handshake_p95_ms", unit="s")
    finish(root)


@registering(BAD, "plausible_values")
def negative_jitter(root: Path) -> None:
    """A jitter below zero."""
    edit_field(cell_of(root, SUITE), "H", "jitter_mean_ms", value=-0.2)
    finish(root)


@registering(BAD, "attempts_kept")
def attempt_not_kept(root: Path) -> None:
    """Two attempts are claimed, the first is not there."""
    edit(cell_of(root, SUITE) / "record.json", lambda record: record.update(attempts=2))
    finish(root)


@registering(BAD, "raw_files")
def ledger_withheld(root: Path) -> None:
    """A result without the ground's ledger."""
    (cell_of(root, SUITE) / "ledger.gcs.csv").unlink()
    finish(root)
