"""Which unit tests the fast ring leaves out: those that take long, by a list that a whole run writes.

    .ci/in-image .ci/unit --durations 0 --durations-min 0.01 >OUT
    python3 tests/slow.py OUT…

The list is tests/slow.txt: seconds, file and function. `pytest --fast` reads it (conftest.py at the root);
`make test` runs everything. What a fixture takes is charged to the test that asks first, and moves to the
next one once that is left out: the output of a run with `--fast` can be given beside that of the whole one.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Final

LIST = Path(__file__).with_name("slow.txt")
#: of a function that is fast: its longest case, and all of them
CASE_S, FUNCTION_S = 0.25, 2.0
#: never left out: that an import cannot come along would show in the whole check alone
KEPT: Final = frozenset(("conduct/tests/test_verify_alone.py::test_everything_reachable_is_ours",))
_TOOK = re.compile(r"^([0-9.]+)s (?:call|setup|teardown) +(\S+?(?:\[.*\])?)$", re.MULTILINE)
_AGAIN = "== again, alone"


def function_of(nodeid: str) -> str:
    """File and function of a test, without its case."""
    return nodeid.partition("[")[0]


def listed(path: Path = LIST) -> set[str]:
    """Functions that are left out."""
    return {line.split()[1] for line in path.read_text("utf-8").splitlines() if line}


def slow(output: str) -> dict[str, float]:
    """Function → seconds of all its cases, of what pytest printed."""
    cases: dict[str, float] = defaultdict(float)
    for seconds, nodeid in _TOOK.findall(output.partition(_AGAIN)[0]):
        cases[nodeid] += float(seconds)
    longest: dict[str, float] = defaultdict(float)
    total: dict[str, float] = defaultdict(float)
    for nodeid, seconds in cases.items():
        name = function_of(nodeid)
        longest[name] = max(longest[name], seconds)
        total[name] += seconds
    due = {n: s for n, s in total.items() if longest[n] >= CASE_S or s >= FUNCTION_S}
    return {name: seconds for name, seconds in due.items() if name not in KEPT}


def main() -> int:
    """Write the list."""
    found: dict[str, float] = {}
    for path in sys.argv[1:]:
        for name, seconds in slow(Path(path).read_text("utf-8")).items():
            found[name] = max(found.get(name, 0.0), seconds)
    if not found:
        print("error: no durations in what was given\n  next: read the top of tests/slow.py", file=sys.stderr)
        return 2
    LIST.write_text("".join(f"{found[name]:.1f} {name}\n" for name in sorted(found)), encoding="utf-8")
    print(f"{len(found)} functions, {sum(found.values()):.0f} s: {LIST.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
