"""Seal a finished work folder: search it for keys, write metadata and tag files, rename, move `latest`.

The rename is the moment of truth: before it there is no bundle, after it there is a whole one. Whatever goes
wrong earlier leaves the work folder as it was and `latest` where it pointed.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from pqevidence.bundle.attribution import bag_info, write_citation
from pqevidence.bundle.bag import BagError, fsync_folder, payload, write_tags
from pqevidence.bundle.crate import write_crate
from pqevidence.bundle.format import write_format
from pqevidence.bundle.secrets import search
from pqevidence.errors import EXIT_CHECK, EXIT_ENVIRONMENT, LabError

LATEST = "latest"
WORK_ONLY = ("status.json",)


class SealError(LabError):
    """A work folder that was not sealed; it is still there, and `latest` has not moved."""


def seal(work_dir: Path, results_dir: Path, secrets: Sequence[Path]) -> Path:
    """Turn results/.work/<run_id> into results/<run_id> and return that path.

    secrets: key files, or folders of them, that the run held. Raises SealError with code `no-work-dir`,
    `exists`, `keys-missing`, `secret-found`, `disk-full` or `write`.
    """
    target = results_dir / work_dir.name
    _check_place(work_dir, target)
    try:
        _refuse_secrets(work_dir, secrets)
        _clear(work_dir)
        write_format(work_dir / "data")
        write_citation(work_dir / "data")
        write_crate(work_dir / "data")
        write_tags(work_dir, bag_info(work_dir))
        os.sync()  # the cells' bytes must not reach the disk after the name that vouches for them
        results_dir.mkdir(parents=True, exist_ok=True)
        work_dir.rename(target)
        fsync_folder(results_dir)
        point_latest(results_dir, target.name)
    except BagError as error:
        raise SealError(
            "write", error.what, error.why, "remove it from the work folder and seal again"
        ) from error
    except OSError as error:
        raise _write_error(error, work_dir) from error
    return target


def point_latest(results_dir: Path, run_id: str) -> None:
    """Move results/latest to a sealed bundle in one step: a reader sees the old one or the new one."""
    temporary = results_dir / f".{LATEST}.{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(run_id, target_is_directory=True)
    temporary.replace(results_dir / LATEST)
    fsync_folder(results_dir)


def _check_place(work_dir: Path, target: Path) -> None:
    if not (work_dir / "data" / "plan.json").is_file():
        raise SealError(
            "no-work-dir",
            f"{work_dir.name} holds no run",
            "data/plan.json is missing",
            "list what can be finished: ./pqlab status",
            EXIT_ENVIRONMENT,
        )
    if target.exists():
        raise SealError(
            "exists",
            f"{target.name} is sealed already",
            "sealed cells never change",
            f"check it: ./pqlab verify {target.name}",
            EXIT_ENVIRONMENT,
        )


def _clear(work_dir: Path) -> None:
    """Take away what belongs to the work: status, lock, tag files of an earlier attempt."""
    for name in WORK_ONLY:
        (work_dir / "data" / name).unlink(missing_ok=True)
    for path in work_dir.iterdir():
        if path.name == "data":
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _refuse_secrets(work_dir: Path, secrets: Sequence[Path]) -> None:
    try:
        hits = search(work_dir, payload(work_dir), secrets)
    except FileNotFoundError as error:
        raise SealError(
            "keys-missing",
            "the run's keys are not there to be searched for, so it was not sealed",
            str(error),
            "name the keys that the run used (--keys), then ./pqlab resume",
            EXIT_ENVIRONMENT,
        ) from error
    if hits:
        shown = "; ".join(f"{hit.path} holds {hit.secret} as {hit.how}" for hit in hits[:5])
        more = f" and {len(hits) - 5} more" if len(hits) > 5 else ""
        raise SealError(
            "secret-found",
            "the run's files hold key material, so it was not sealed",
            shown + more,
            "remove it from the file named, make new keys (./pqtunnel keys), then ./pqlab resume",
            EXIT_CHECK,
        )


def _write_error(error: OSError, work_dir: Path) -> SealError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SealError(
            "disk-full",
            "no space left to seal the bundle",
            f"{error.strerror}; the run is whole in .work/{work_dir.name}",
            f"free some space, then: ./pqlab resume {work_dir.name}",
            EXIT_ENVIRONMENT,
        )
    return SealError(
        "write",
        "the bundle could not be written",
        f"{error.strerror or error}; the run is whole in .work/{work_dir.name}",
        f"mend that, then: ./pqlab resume {work_dir.name}",
        EXIT_ENVIRONMENT,
    )
