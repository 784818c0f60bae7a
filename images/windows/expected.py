"""Write expected.h: the known answers of the Python self-test, as a C table."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pqtunnel.suites import KEMS, SIGS


def main() -> None:
    """`expected.py ANSWERS_JSON`, header on standard output."""
    answers = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    print("typedef struct { const char *token, *name, *sha256; } Answer;")
    for kind, registry in (("kem", KEMS), ("sig", SIGS)):
        print(f"static const Answer {kind.upper()}_ANSWERS[] = {{")
        for token, digest in answers[kind].items():
            print(f'\t{{"{token}", "{registry[token].oqs_name}", "{digest}"}},')
        print("};")


if __name__ == "__main__":
    main()
