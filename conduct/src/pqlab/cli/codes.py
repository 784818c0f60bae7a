"""What each verb's exit codes say: `pqlab VERB --help` prints it, docs/EXIT-CODES.md is made of it.

`python -m pqlab.cli.codes` writes the page again. A test runs every verb into every code listed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pqevidence.errors import (
    EXIT_CHECK,
    EXIT_ENVIRONMENT,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_PIPE,
    EXIT_USAGE,
    EXIT_WARNING,
)

#: the one meaning that a code has in every verb
MEANINGS: Final = {
    EXIT_OK: "done as asked, nothing against it",
    EXIT_FAILED: "done, and what was measured speaks against it",
    EXIT_USAGE: "a command line or a scenario that cannot be carried out as written",
    EXIT_WARNING: "done, with something to look at",
    EXIT_ENVIRONMENT: "what it needs is not here: lab, host, bundle, run, file, right to write",
    EXIT_CHECK: "a check failed, or what is there cannot be read",
    EXIT_INTERRUPTED: "interrupted by Ctrl-C",
    EXIT_PIPE: "whoever read its output went away, as `| head` does",
}
#: every verb ends so where it must
EVERYWHERE: Final = (EXIT_USAGE, EXIT_ENVIRONMENT, EXIT_INTERRUPTED, EXIT_PIPE)
_DAMAGED: Final = "a damaged file in the bundle"
_NO_BUNDLE: Final = "no such bundle"
_CELLS: Final = {
    EXIT_OK: "all cells passed",
    EXIT_FAILED: "failed or invalid cells; with `--strict` warnings and unsupported cells too",
    EXIT_WARNING: "warnings or unsupported cells, nothing worse",
}
_LOOKED: Final = {
    EXIT_OK: "all is there",
    EXIT_WARNING: "something wanted is missing",
    EXIT_ENVIRONMENT: "something needed is missing",
}

#: verb → code → what it says there; a code of EVERYWHERE stands here where the verb has more to say of it
CODES: Final[dict[str, dict[int, str]]] = {
    "setup": {**_LOOKED, EXIT_USAGE: "an answer that will not do; an inventory with other values"},
    "doctor": _LOOKED,
    "tune": {EXIT_OK: "all is as wished", EXIT_WARNING: "the kernel refused", EXIT_ENVIRONMENT: "not root"},
    "untune": {EXIT_OK: "all is given back", EXIT_WARNING: "something was set by others since: left"},
    "list": {EXIT_OK: "listed; what cannot be read is listed with its reason"},
    "validate": {EXIT_OK: "valid", EXIT_USAGE: "not valid: file, line, nearest key"},
    "show": {EXIT_OK: "shown", EXIT_USAGE: "no such scenario, or not valid"},
    "plan": {EXIT_OK: "planned", EXIT_ENVIRONMENT: "`--dry-run`: a run could not begin; no such bundle"},
    "run": {
        **_CELLS,
        EXIT_ENVIRONMENT: "no lab, another checkout's lab, a busy machine, a place that is held or was lost, "
        "a dead pair, no right to write",
    },
    "live": {EXIT_OK: "`--once`: printed", EXIT_ENVIRONMENT: "the port is taken"},
    "fly": {
        EXIT_OK: "ended by `quit`, by the end of its input or after `--for-s`",
        EXIT_USAGE: "no such suite, link or attack",
        EXIT_ENVIRONMENT: "no lab, an end that holds a cell or went away, a port that is taken",
    },
    "status": {EXIT_OK: "shown", EXIT_ENVIRONMENT: "no such run in work"},
    "resume": {**_CELLS, EXIT_USAGE: "the run is sealed", EXIT_ENVIRONMENT: "no such run in work; as `run`"},
    "discard": {
        EXIT_OK: "gone",
        EXIT_USAGE: "the run is sealed",
        EXIT_ENVIRONMENT: "no such run in work, or it is at work",
    },
    "heal": {EXIT_OK: "both ends are idle", EXIT_ENVIRONMENT: "an end is not, or cannot be reached"},
    "verify": {
        EXIT_OK: "all checks hold",
        EXIT_WARNING: "warnings; with `--strict` they are 5",
        EXIT_ENVIRONMENT: _NO_BUNDLE,
        EXIT_CHECK: "a check failed, or the bundle cannot be read",
    },
    "report": {
        EXIT_OK: "written",
        EXIT_USAGE: "into a sealed bundle",
        EXIT_ENVIRONMENT: _NO_BUNDLE,
        EXIT_CHECK: _DAMAGED,
    },
    "compare": {
        EXIT_OK: "compared; no `--fail-on` is met",
        EXIT_FAILED: "a `--fail-on` is met, or nothing could be judged",
        EXIT_USAGE: "the two say nothing about each other",
        EXIT_ENVIRONMENT: _NO_BUNDLE,
        EXIT_CHECK: "a bundle that does not verify",
    },
    "advise": {
        EXIT_OK: "advice given; `--validate`: nothing speaks against it",
        EXIT_USAGE: "a question that is none",
        EXIT_WARNING: '"no evidence", "no suite fits"; `--validate`: a cell speaks against advice',
        EXIT_ENVIRONMENT: "no such bundle, or no cell over a radio in it",
        EXIT_CHECK: _DAMAGED,
    },
    "merge": {
        EXIT_OK: "sealed, with every block of the campaign",
        EXIT_USAGE: "parts that do not belong into one bundle",
        EXIT_WARNING: "sealed; blocks are missing, or a part verifies with warnings",
        EXIT_ENVIRONMENT: "no such bundle, or this very merge is there already",
        EXIT_CHECK: "a part that was flown, does not verify, or holds what its share does not own",
    },
    "index": {
        EXIT_OK: "all bundles are in the index",
        EXIT_USAGE: "no such rule or day",
        EXIT_WARNING: "all are in it, one with a warning",
        EXIT_ENVIRONMENT: "no folder, or no bundle in it",
        EXIT_CHECK: "a submission was refused; the index is made of the others",
    },
    "export": {
        EXIT_OK: "written",
        EXIT_USAGE: "no such cell",
        EXIT_ENVIRONMENT: "no such bundle, or nothing of that kind was recorded",
        EXIT_CHECK: _DAMAGED,
    },
    "audit": {
        EXIT_OK: "every claim follows; `--published`: always",
        EXIT_ENVIRONMENT: _NO_BUNDLE,
        EXIT_CHECK: "a claim does not follow, or one was left out",
    },
    "correct": {
        EXIT_OK: "the new bundle is sealed",
        EXIT_ENVIRONMENT: _NO_BUNDLE,
        EXIT_CHECK: "the bundle is not as it was sealed",
    },
    "archive": {EXIT_OK: "written", EXIT_ENVIRONMENT: _NO_BUNDLE, EXIT_CHECK: "the bundle is not whole"},
    "unpack": {
        EXIT_OK: "unpacked, as it was sealed",
        EXIT_ENVIRONMENT: "no such file",
        EXIT_CHECK: "no archive, a hostile one, or not as it was sealed or signed",
    },
    "recording": {
        EXIT_OK: "written",
        EXIT_ENVIRONMENT: "no such bundle, or no cell holds what its drone saw",
        EXIT_CHECK: _DAMAGED,
    },
    "bench-report": {
        EXIT_OK: "all checks hold",
        EXIT_ENVIRONMENT: "no such result",
        EXIT_CHECK: "a check failed, or the result is not whole",
    },
    "import-ladder": {
        EXIT_OK: "all steps read",
        EXIT_WARNING: "steps are missing, or lines were left out",
        EXIT_ENVIRONMENT: "no such log",
        EXIT_CHECK: "no line of it is a result",
    },
    "link": {EXIT_OK: "done", EXIT_USAGE: "options that do not fit together, or what gives no trace"},
    "completion": {EXIT_OK: "printed"},
}  # fmt: skip


def of(verb: str) -> dict[int, str]:
    """Every code that the verb can end with and what it says there, least first."""
    own = CODES[verb]
    return {code: own.get(code, MEANINGS[code]) for code in sorted({*own, *EVERYWHERE})}


def epilog(verb: str) -> str:
    """For the verb's help: what it says beside what every verb says."""
    told = (f"{code} {words}" for code, words in sorted(CODES[verb].items()))
    return f"exit codes: {'; '.join(told)}. Of every verb: ./pqlab --help".replace("%", "%%")


def page() -> Iterator[str]:
    """docs/EXIT-CODES.md, line by line."""
    yield "# Exit codes"
    yield ""
    yield "Made by `python -m pqlab.cli.codes`. `./pqlab VERB --help` says the same of one verb."
    yield "`make` itself ends with 2 whatever failed: scripts that need the code call `./pqlab`."
    yield ""
    yield "| code | means in every verb |"
    yield "|---|---|"
    yield from (f"| {code} | {words} |" for code, words in sorted(MEANINGS.items()))
    yield ""
    every = ", ".join(map(str, EVERYWHERE))
    yield f"Every verb can end with {every}. They stand below where a verb has more to say about them."
    yield ""
    shown = [EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_WARNING, EXIT_ENVIRONMENT, EXIT_CHECK]
    yield f"| verb | {' | '.join(map(str, shown))} |"
    yield "|---" * (len(shown) + 1) + "|"
    for verb, own in CODES.items():
        cells = (own.get(code, "" if code in EVERYWHERE else "–") for code in shown)
        yield f"| `{verb}` | {' | '.join(cells)} |"


if __name__ == "__main__":
    from pqevidence.paths import project_root

    text = "\n".join(page()) + "\n"
    (project_root() / "docs" / "EXIT-CODES.md").write_text(text, encoding="utf-8", newline="\n")
