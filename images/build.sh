#!/bin/sh
# Builds the lab's images in order of need: ./images/build.sh [--force] [NAME...]
# A name brings what that image is made from; --force builds the named ones whatever their checksum says.
#
# Each image carries a label with the checksum of everything it is made from, so an unchanged one is
# recognised without asking the builder; a changed one is built from the layers that still fit.
set -eu

HERE=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
PQLAB_SELF=$HERE/../bootstrap.sh
PQLAB_SOURCED=1
# shellcheck source=bootstrap.sh
. "$PQLAB_SELF"
cd "$ROOT"

ORDER="base liboqs ascon influxdb telegraf sitl link attacker tunnel detector-xgboost detector-tst test"
# Built only when named: what the lab itself does not need.
ON_REQUEST="bench bench-alone windows windows-station windows-test pi pihost browser host detector-train"

# Images that share a Dockerfile are stages of it, named by what follows the dash.
folder() {
    case $1 in detector-* | bench-* | windows-*) echo "${1%%-*}" ;; *) echo "$1" ;; esac
}

# What each image is made from, beside its own folder: files of the tree.
inputs() {
    case $1 in
        base) echo images/ca ;;
        ascon) echo tunnel/ascon-native tunnel/core telemetry/native requirements/build.txt ;;
        sitl) echo requirements/sitl.txt requirements/sitl-nodeps.txt sitl/src ;;
        link) echo link/src ;;
        attacker) echo attacker/src ;;
        tunnel) echo requirements/tunnel.txt tunnel/src telemetry/src ;;
        test) echo requirements/test.txt requirements/sitl-nodeps.txt requirements/crate.txt requirements/ansible-collections.txt requirements/unpack_collections.py ;;
        detector-train) echo requirements/detector-train.txt ;;
        detector-*) echo requirements/detector.txt detectors/src detectors/models ;;
        pi) echo requirements/tunnel.txt ;;
        pihost) echo requirements/tunnel.txt telemetry/src/pqtelemetry emulated-pi/player.py ;;
        bench | bench-*) echo bench/src bench/load bench/peers tunnel/core tunnel/bench ;;
        windows | windows-*) echo station images/liboqs tunnel/core tunnel/ascon-native requirements/build.txt requirements/windows.txt requirements/tunnel.txt requirements/sitl.txt requirements/sitl-nodeps.txt tunnel/src telemetry/src sitl/src ;;
    esac
}

# … and images of ours.
parents() {
    case $1 in
        base) ;;
        tunnel | test) echo base liboqs ascon ;;
        bench | bench-*) echo base tunnel ;;
        pi) echo base ascon ;;
        pihost) echo base pi ;;
        browser) echo test ;;
        *) echo base ;;
    esac
}

# An image and all that it is made from: one built upon a stale parent would carry the checksum of a fresh one.
with_parents() {
    for p in $(parents "$1"); do with_parents "$p"; done
    echo "$1"
}

# An image named by the user is used as it is.
replaced() {
    case $1 in
        influxdb) [ -n "${INFLUXDB_IMAGE:-}" ] ;;
        telegraf) [ -n "${TELEGRAF_IMAGE:-}" ] ;;
        *) false ;;
    esac
}

# content NAME: checksum of its files, names and parents.
content() {
    {
        echo "$1"
        # shellcheck disable=SC2046  # lists of paths without blanks
        find images/"$(folder "$1")" $(inputs "$1") -type f ! -name '*.pyc' ! -path '*/target/*' ! -path '*.egg-info*' -print0 |
            sort -z | xargs -0 sha256sum
        [ "$1" != base ] || docker image inspect -f '{{.Id}}' "$BASE_TAG"
        for p in $(parents "$1"); do content "$p"; done
    } | sha256sum | cut -c1-32
}

# The private roots of this machine's network, without which a build stage cannot fetch anything.
copy_roots() {
    for f in images/ca/*.crt; do
        [ ! -e "$f" ] || [ -e "/usr/local/share/ca-certificates/${f##*/}" ] || rm "$f"
    done
    for f in /usr/local/share/ca-certificates/*.crt; do
        [ ! -e "$f" ] || cmp -s "$f" "images/ca/${f##*/}" || cp "$f" images/ca/
    done
}

build() {
    dir=$(folder "$1") stage=
    [ "$dir" = "$1" ] || stage="--target ${1#"$dir"-}"
    # shellcheck disable=SC2086  # an option and its value, or nothing
    DOCKER_BUILDKIT=1 docker build --progress plain -f "images/$dir/Dockerfile" -t "pqlab/$1:dev" \
        --build-arg BASE_IMAGE="$BASE_TAG" --label "pqlab.inputs=$2" $stage .
}

main_build() {
    force=
    if [ "${1:-}" = --force ]; then
        force=1
        shift
    fi
    named=${*:-$ORDER}
    wanted=$(for name in $named; do with_parents "$name"; done | sort -u | tr '\n' ' ')
    engine_up || fail 4 "no container engine answers" "images are built by one" "./bootstrap.sh engine"
    cmd_base
    copy_roots
    stale=
    for name in $ORDER $ON_REQUEST; do
        case " $wanted " in *" $name "*) ;; *) continue ;; esac
        if replaced "$name"; then
            say "image $name: yours is used"
            continue
        fi
        key=$(content "$name")
        has=$(docker image inspect -f '{{index .Config.Labels "pqlab.inputs"}}' "pqlab/$name:dev" 2>/dev/null || true)
        case " $named " in *" $name "*) [ -z "$force" ] || has= ;; esac
        [ "$key" = "$has" ] || stale="$stale $name:$key"
    done
    if [ -z "$stale" ]; then
        say "images: all up to date"
        return 0
    fi
    for item in $stale; do STEPS=$((STEPS + 1)); done
    for item in $stale; do
        step "build image ${item%%:*}" build "${item%%:*}" "${item#*:}"
    done
}

main_build "$@"
