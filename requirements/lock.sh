#!/bin/sh
# Writes requirements/*.txt from the *.in files: exact versions with hashes, no index address.
set -eu
HERE=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cd "$HERE"
tool=$HERE/../.state/lock
[ -x "$tool/bin/uv" ] || {
    "$HERE/../.venv/bin/python" -m venv "$tool"
    "$tool/bin/python" -m pip install -q --disable-pip-version-check uv
}

lock() { # NAME PYTHON [OPTION...]
    name=$1 python=$2
    shift 2
    echo "lock $name.txt (Python $python and newer)"
    "$tool/bin/uv" pip compile -q --generate-hashes --universal --no-header --no-annotate \
        --no-emit-index-url --no-emit-find-links --python-version "$python" "$@" "$name.in" -o "$name.txt"
}

lock host 3.11
lock parquet 3.11
lock labgrid 3.11
lock workers 3.11
lock e2e 3.11
lock ansible 3.11
lock ansible-collections 3.11 --no-deps
lock fuzz 3.12
for name in tunnel sitl build test crate; do lock "$name" 3.13; done
lock windows 3.13
lock check 3.13 --constraints test.txt
for name in sitl-nodeps detector detector-train; do lock "$name" 3.13 --no-deps; done
