#!/bin/sh
# Searches every model of this folder for attacks and compares the verdicts with its first line: check.sh [MODEL.vp...]
#
# Prints `skipped: reason` and ends with 0 where the prover cannot be built (no engine, no way out); 1 when a
# verdict is another one than expected, also for a mutant in which no attack is found.
set -eu
HERE=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
ROOT=$(CDPATH='' cd -- "$HERE/../.." && pwd)
IMAGE=pqlab/verifpal:dev

skip() {
    echo "skipped: $1"
    exit 0
}

command -v docker >/dev/null 2>&1 || skip "no container engine here (make engine)"
docker info >/dev/null 2>&1 || skip "the container engine does not answer (make engine)"
if ! docker image inspect "$IMAGE" >/dev/null 2>&1; then
    docker image inspect pqlab/base:dev >/dev/null 2>&1 || skip "the base image is not built (make images)"
    DOCKER_BUILDKIT=1 docker build -q -f "$ROOT/images/verifpal/Dockerfile" -t "$IMAGE" "$ROOT" >/dev/null 2>&1 ||
        skip "the prover cannot be fetched and built here"
fi

cd "$HERE"
[ $# -gt 0 ] || set -- *.vp
wrong=0
for model in "$@"; do
    expected=$(sed -n '1s,^// expect: ,,p' "$model")
    found=$(docker run --rm --cpu-shares "${PQLAB_CPU_SHARES:-0}" --network none --read-only --cap-drop ALL --user 10001:10001 -v "$HERE:/model:ro" \
        -w /model "$IMAGE" verify "$model" --result-code --quiet | tail -n 1)
    if [ -n "$expected" ] && [ "$found" = "$expected" ]; then
        echo "[x] $model: $found"
    else
        echo "[ ] $model: $found, expected ${expected:-a line \`// expect:\`}"
        wrong=1
    fi
done
exit "$wrong"
