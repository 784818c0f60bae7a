"""What `pqlab verify` and the checker that stands alone have in common: run the checks, print, exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pqevidence import commitment
from pqevidence.errors import EXIT_CHECK, EXIT_WARNING
from pqevidence.exchange.junit import write_junit
from pqevidence.kernel.result import exit_code, format_lines
from pqevidence.verify.cases import of_checks
from pqevidence.verify.checks_attest import as_promised
from pqevidence.verify.run import verify_bundle
from pqevidence.verify.timestamps import Stamps, stamped


def carry_out(
    path: Path,
    named: str,
    *,
    as_json: bool,
    strict: bool,
    junit: str | None = None,
    sealed: Sequence[str] = (),
    stamps: Stamps | None = None,
) -> int:
    """Verify one folder and print the lines, or one JSON document.

    named: the path as its user would type it; junit: file for the same as JUnit XML; sealed: files that
    were published before the run; stamps: time stamps of outside authorities. Raises UsageError for a
    sealed file that is none. Returns 0 all checks · 3 warnings (5 when `strict`) · 5 any check failed or
    what is there cannot be read.
    """
    promised = [commitment.read(name) for name in sealed]
    results = verify_bundle(path)
    if promised and len(results) > 1:  # one line alone: nothing there may be opened
        results.append(as_promised(path, promised))
    if stamps is not None and len(results) > 1:
        results.append(stamped(path, sealed, stamps))
    code = exit_code(results)
    if strict and code == EXIT_WARNING:
        code = EXIT_CHECK
    if junit is not None:
        write_junit(junit, f"verify {path.name}", of_checks(results, strict=strict), {"exit_code": str(code)})
    if as_json:
        document = {"bundle": named, "exit_code": code, "checks": [asdict(result) for result in results]}
        print(json.dumps(document, separators=(",", ":")))
        return code
    for line in format_lines(results):
        print(line)
    return code
