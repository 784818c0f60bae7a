"""The one exception tree of pqevidence and pqlab. Every error says what happened, why, and what to run next.

Exit codes are the published ones: 1 failed or invalid cells, 2 usage or validation, 3 warnings,
4 environment (no such bundle too), 5 a check failed or the bundle is unreadable, 130 interrupted, 141 nobody
reads the output any more. `pqlab.cli.codes` has them by verb.
"""

from __future__ import annotations

from pqbase.errors import PqError

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_WARNING = 3
EXIT_ENVIRONMENT = 4
EXIT_CHECK = 5
EXIT_INTERRUPTED = 130
#: 128 + SIGPIPE, as a shell tells of other programs
EXIT_PIPE = 141


class LabError(PqError):
    """An error a user can act on. exit_code: what the process ends with."""

    def __init__(self, code: str, what: str, why: str, hint: str, exit_code: int = EXIT_ENVIRONMENT) -> None:
        super().__init__(what, hint, code, why=why)
        self.exit_code = exit_code


class UsageError(LabError):
    """A command or a scenario that cannot be carried out as written (exit 2)."""

    def __init__(self, code: str, what: str, why: str, hint: str) -> None:
        super().__init__(code, what, why, hint, EXIT_USAGE)


class ScenarioError(UsageError):
    """A scenario file that does not say something the lab can do; names file, line and nearest key."""
