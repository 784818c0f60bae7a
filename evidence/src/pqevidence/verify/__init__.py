"""Check a bundle offline: fixity, schema, counts and plausibility, one function a check.

Reading order: result (what a check answers), view (the bundle as checks see it), registry (name → check, in
order), the checks_* modules, run (all of them over one bundle), checklist (the eight rows of suites-2026-01).
Checks recompute from raw files. What a cell claims binds it: the checks of results look at cells whose
verdict is `pass`; that a verdict is the right one is the check `record_rebuild`.
"""

from pqevidence.kernel.check import Check
from pqevidence.kernel.result import CheckResult, exit_code, format_lines
from pqevidence.verify.checklist import ChecklistRow, checklist
from pqevidence.verify.registry import CHECKS
from pqevidence.verify.run import verify_bundle

__all__ = [
    "CHECKS",
    "Check",
    "CheckResult",
    "ChecklistRow",
    "checklist",
    "exit_code",
    "format_lines",
    "verify_bundle",
]
