"""Run the checks over one bundle, reading each cell's raw files once."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pqevidence.analysis.load import Known
from pqevidence.analysis.merged import is_merged
from pqevidence.bundle.digest import Hashed
from pqevidence.bundle.survey import unsafe
from pqevidence.errors import LabError
from pqevidence.kernel.check import Check
from pqevidence.kernel.result import CheckResult, Tally
from pqevidence.kernel.view import BundleView, CellView
from pqevidence.verify.registry import CHECKS
from pqtelemetry.errors import TelemetryError

CARRIED_OUT = ("pass", "fail", "invalid")
# What damaged or forged data can raise in a check that reads it as what it should be, infinite numbers, JSON
# nested too deep and values too large for the memory included. It becomes that check's failure, with the
# text; anything else is a fault of ours and is not caught.
_DAMAGE = (
    LabError,
    TelemetryError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)
_BAG = "a BagIt 1.0 bag of sha-512"
#: objects made between two looks for cycles among them, where what is made is rows without any (Python: 700)
COLLECT_AFTER = 50_000
#: checks that look at a bundle whatever its scenario and plan are; the others walk what those two ask for
_RESTS_ON_NOTHING = frozenset({
    "bagit_structure", "tagmanifest_fixity", "manifest_fixity", "ro_crate", "attributed", "files_known",
    "scenario_schema", "plan_schema", "no_secrets", "report_present", "report_numbers",
})  # fmt: skip
#: checks of a merge that analyse its parts; the numbers of a part that does not verify know no bounds
_RESTS_ON_PARTS = frozenset({"merge_allowed", "blocks_told", "lineage_told", "merge_rebuild"})


def verify_bundle(
    path: Path,
    skip: Iterable[str] = (),
    seen_times: dict[bytes, str] | None = None,
    *,
    known: dict[str, Known] | None = None,
    hashed: Mapping[str, Hashed] | None = None,
    contents: Mapping[str, bytes] | None = None,
) -> list[CheckResult]:
    """All checks in registry order. `skip` leaves checks out by name (used to test the checks themselves).

    seen_times: times of bundles that stand beside this one in a merge; those of this one are added. Not of
    virtual time, which gives the same for the same seed.

    known: what was read of each cell is left there, for whoever goes on with the bundle. hashed,
    contents: of files by their path below `path`, where somebody has hashed or read them already.

    A run that is not sealed (it lies under .work) is checked without fixity and report; a warning says so.
    A folder that is no bundle, or that holds what must not be opened (links, pipes, devices, files beyond
    1 GiB), or that may not be read, gives one failed line.
    """
    try:
        root = path.resolve()
        observed = None if (root / "data").is_dir() else f"{path} has no data/"
        if observed is None and (barred := unsafe(root)):
            observed = f"{barred[0]}; nothing was read"
    except OSError as error:
        observed = f"{error.filename or path} cannot be read: {error.strerror or error}"
    if observed is not None:
        return [CheckResult("bagit_structure", "fail", observed, _BAG)]
    if is_merged(root):
        return _verify_merged(root, skip)
    sealed = root.parent.name != ".work"
    left_out = set(skip)
    checks = [check for check in CHECKS if check.name not in left_out and (sealed or not check.needs_seal)]
    bundle = BundleView(root)
    if seen_times is not None and not _virtual(bundle):
        bundle.seen_times = seen_times
    if known is not None:
        bundle.known = known
    bundle.hashed = hashed or {}
    bundle.contents = contents or {}
    with _rare_collection():
        results = run_checks(bundle, checks)
    if not sealed:
        expected = "a sealed bundle"
        results.insert(
            0, CheckResult("sealed", "warn", "a run in progress; fixity and report not checked", expected)
        )
    return results


@contextlib.contextmanager
def _rare_collection() -> Iterator[None]:
    """What checks read is rows without cycles: to look for cycles at Python's own rate takes a tenth of all
    processor time, and finds none."""
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _virtual(bundle: BundleView) -> bool:
    """Is it of ring sim? One that cannot be read is not: its own checks say what is wrong."""
    try:
        return bundle.raw.scenario.get("ring") == "sim"
    except (LabError, OSError, ValueError, LookupError, TypeError, AttributeError):
        return False


def _verify_merged(root: Path, skip: Iterable[str]) -> list[CheckResult]:
    # Here, because what is merged is analysed, and the analysis reads the checklist, which runs checks.
    from pqevidence.verify.merged import MERGED_CHECKS

    left_out = set(skip)
    results = []
    sound = True
    seen_times: dict[bytes, str] = {}

    def verify_part(path: Path) -> list[CheckResult]:
        if is_merged(path):  # that would be a folder without a bottom
            return [CheckResult("part", "fail", f"{path.name} is a merge itself", "a bundle of one run")]
        return verify_bundle(path, seen_times=seen_times)

    for name, (function, expected, unit) in MERGED_CHECKS.items():
        if name not in left_out:
            tally = Tally(unit=unit)
            if name in _RESTS_ON_PARTS and not sound:
                tally.fail("not looked at: a part does not verify")
            else:
                _call(lambda f=function, t=tally: f(root, t, verify_part), tally, "")
            if name == "parts_verified":
                sound = not tally.problems
            results.append(tally.result(name, expected))
    return results


def run_checks(bundle: BundleView, checks: list[Check]) -> list[CheckResult]:
    """The given checks over one bundle, in their order."""
    tallies = {check.name: Tally(unit=check.unit) for check in checks}
    if why := _misshapen(bundle):
        for check in checks:
            if check.name not in _RESTS_ON_NOTHING:
                tallies[check.name].fail(f"not looked at: {why}")
    looking = [check for check in checks if not tallies[check.name].problems]
    last = [check for check in looking if check.last]
    for check in looking:
        if check.bundle is not None and not check.last:
            _call(lambda check=check: check.bundle(bundle, tallies[check.name]), tallies[check.name], "")
    by_cell = [check for check in looking if check.cell is not None]
    try:
        cells = bundle.cells if by_cell else []
    except _DAMAGE as error:
        for check in by_cell:
            tallies[check.name].fail(f"the plan cannot be read: {_text(error)}")
        cells = []
    for cell in cells:
        _check_cell(cell, by_cell, tallies)
        if last:
            _keep(cell)
        cell.release()
    for check in last:
        bundle.told = {each.name: _result(each, tallies) for each in checks if not each.last}
        if check.bundle is not None:
            _call(lambda check=check: check.bundle(bundle, tallies[check.name]), tallies[check.name], "")
    return [_result(check, tallies) for check in checks]


def _result(check: Check, tallies: dict[str, Tally]) -> CheckResult:
    return tallies[check.name].result(check.name, check.expected, check.value_unit)


def _keep(cell: CellView) -> None:
    """Whoever is last reads a damaged cell again, and says what is wrong with it."""
    try:
        cell.keep()
    except _DAMAGE:
        cell.bundle.known.pop(cell.cell_id, None)


def _misshapen(bundle: BundleView) -> str | None:
    try:
        return bundle.misshapen
    except _DAMAGE as error:
        return _text(error)


def _check_cell(cell: CellView, checks: list[Check], tallies: dict[str, Tally]) -> None:
    verdict = ""
    try:
        verdict = cell.verdict
    except _DAMAGE as error:
        for check in checks:
            if check.scope == "all":
                tallies[check.name].fail(f"{cell.label}: {_text(error)}")
        return
    torn = verdict == "pass" and _torn(cell)
    for check in checks:
        applies = (
            check.scope == "all"
            or (check.scope == "run" and verdict in CARRIED_OUT)
            or (check.scope == "pass" and verdict == "pass" and not torn)
        )
        if applies and check.cell is not None:
            _call(lambda check=check: check.cell(cell, tallies[check.name]), tallies[check.name], cell.label)


def _torn(cell: CellView) -> bool:
    """Does the cell lack on purpose what checks of a result compare? Damage shows in the checks."""
    try:
        return cell.torn
    except _DAMAGE:
        return False


def _call(function: object, tally: Tally, label: str) -> None:
    assert callable(function)
    try:
        function()
    except _DAMAGE as error:
        tally.fail(f"{label}: {_text(error)}".removeprefix(": "))


def _text(error: BaseException) -> str:
    if isinstance(error, LabError):
        return f"{error.what}: {error.why}"
    if isinstance(error, OSError):
        return f"{Path(error.filename).name if error.filename else 'a file'}: {error.strerror}"
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return f"{type(error).__name__}: {error}"
