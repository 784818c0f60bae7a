#!/bin/sh
# Builds the lab's images in order of need: ./images/build.sh [--force] [NAME...]
# A name brings what that image is made from; --force builds the named ones whatever their checksum says.
# NAME-arm64 is the same Dockerfile for arm64: compiled by this machine's cross compilers, run by QEMU's user mode.
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

ORDER="base liboqs ascon pqlink fleet influxdb telegraf sitl link attacker tunnel detector-xgboost detector-tst verifier labgrid test"
# Built only when named: what the lab itself does not need.
ON_REQUEST="bench bench-alone influxdb2 windows windows-station windows-test pi pihost browser host detector-train
base-arm64 liboqs-arm64 ascon-arm64 pqlink-arm64 telegraf-arm64 sitl-arm64 tunnel-arm64 detector-xgboost-arm64 detector-tst-arm64 check-arm64"

# Images that share a Dockerfile are stages of it, named by what follows the dash.
folder() {
    case $1 in detector-* | bench-* | windows-*) echo "${1%%-*}" ;; *) echo "${1%-arm64}" ;; esac
}

for_arm64() { case $1 in *-arm64) ;; *) false ;; esac; }

# The Debian image that base images of this name begin with.
debian() { if for_arm64 "$1" && ! is_arm64; then echo "$BASE_TAG-arm64"; else echo "$BASE_TAG"; fi; }

# What each image is made from, beside its own folder: files of the tree.
inputs() {
    case ${1%-arm64} in
        base) echo images/ca ;;
        ascon) echo tunnel/ascon-native tunnel/core tunnel/link tunnel/native telemetry/native requirements/build.txt ;;
        pqlink) echo images/liboqs images/ascon/arm64.toml tunnel/core tunnel/link ;;
        sitl) echo images/venv requirements/sitl.txt requirements/sitl-nodeps.txt base/src sitl/src ;;
        link) echo base/src link/src ;;
        attacker) echo base/src attacker/src ;;
        tunnel) echo images/venv requirements/tunnel.txt base/src tunnel/src telemetry/src ;;
        check) echo images/venv requirements/check.txt ;;
        labgrid) echo requirements/labgrid.txt ;;
        test) echo requirements/test.txt requirements/sitl-nodeps.txt requirements/crate.txt requirements/ansible-collections.txt requirements/unpack_collections.py ;;
        verifier) echo verifier ;;
        detector-train) echo requirements/detector-train.txt requirements/workers.txt ;;
        detector-*) echo images/venv requirements/detector.txt base/src detectors/src detectors/models ;;
        pi) echo requirements/tunnel.txt ;;
        pihost) echo requirements/tunnel.txt base/src telemetry/src/pqtelemetry emulated-pi/player.py ;;
        bench | bench-*) echo bench/src bench/load bench/peers tunnel/core tunnel/link tunnel/bench ;;
        windows | windows-*) echo station images/liboqs tunnel/core tunnel/link tunnel/native tunnel/ascon-native requirements/build.txt requirements/windows.txt requirements/tunnel.txt requirements/sitl.txt requirements/sitl-nodeps.txt base/src tunnel/src telemetry/src sitl/src ;;
    esac
}

# … and images of ours: for arm64 those of arm64, and the base on which this machine builds.
parents() {
    if ! for_arm64 "$1"; then
        made_from "$1"
    elif [ "$1" != base-arm64 ]; then
        echo base
        for p in $(made_from "${1%-arm64}"); do echo "$p-arm64"; done
    fi
}

made_from() {
    case $1 in
        base) ;;
        tunnel) echo base liboqs ascon ;;
        check) echo base liboqs ascon pqlink ;;
        fleet) echo base pqlink ;;
        test) echo base liboqs ascon pqlink verifier labgrid ;;
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
        case $1 in base | base-arm64) docker image inspect -f '{{.Id}}' "$(debian "$1")" ;; esac
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
    plain=${1%-arm64} dir=$(folder "$1") options=
    [ "$dir" = "$plain" ] || options="--target ${plain#"$dir"-}"
    if for_arm64 "$1"; then
        options="$options --platform linux/arm64"
        for parent in $(made_from "$plain"); do
            options="$options --build-arg $(printf '%s' "$parent" | tr a-z- A-Z_)=pqlab/$parent-arm64:dev"
        done
    fi
    # shellcheck disable=SC2086  # options and their values, or nothing
    DOCKER_BUILDKIT=1 docker build --progress plain -f "images/$dir/Dockerfile" -t "pqlab/$1:dev" \
        --build-arg BASE_IMAGE="$(debian "$1")" --label "pqlab.inputs=$2" $options .
}

main_build() {
    force=
    if [ "${1:-}" = --force ]; then
        force=1
        shift
    fi
    named=${*:-$ORDER}
    wanted=$(for name in $named; do with_parents "$name"; done | sort -u | tr '\n' ' ')
    refuse_denied
    engine_up || fail 4 "no container engine answers" "images are built by one" "./bootstrap.sh engine"
    cmd_base
    case " $wanted" in *-arm64*) cmd_base arm64 ;; esac
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
