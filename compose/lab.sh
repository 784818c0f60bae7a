#!/bin/sh
# The lab's life: ./compose/lab.sh up|profile NAME|image NAME|status|is-up|mine|free|down
#
# `mine` exits 4 where the lab that lives is another checkout's; `free` also where a campaign runs on it (owner.sh).
# `profile NAME` adds the services of that profile to a running lab; a run that needs them does it by itself.
# `up` is repeatable (a running lab stays as it is) and ends with a status table. `down` leaves no
# container, network or volume of the lab, and checks that; engine and images stay.
#
# LAB=2 (to 4) is another lab of this machine: its own names, networks, addresses and ports. LAB=1 is the default.
set -eu

HERE=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
PQLAB_SELF=$HERE/../bootstrap.sh
PQLAB_SOURCED=1
# shellcheck source=bootstrap.sh
. "$PQLAB_SELF"
cd "$ROOT"

case ${LAB:=1} in
    1) LAB_NET='' LAB_PORT=0 ;;
    [2-4]) LAB_NET=$LAB LAB_PORT=$((LAB - 1)) ;;
    *) fail 2 "LAB=$LAB is no lab" "a machine has four at most, by number" "LAB=1 (the default), 2, 3 or 4" ;;
esac
export LAB LAB_NET LAB_PORT
PROJECT=pqlab$LAB_NET
PORTS="48${LAB_PORT}80 48${LAB_PORT}81 8${LAB_PORT}86"
OURS="label=com.docker.compose.project=$PROJECT"
# what a command of another lab than the first is called with, and how that one is called
[ "$LAB" = 1 ] && WITH='' THE_LAB='the lab' || WITH=" LAB=$LAB" THE_LAB="lab $LAB"
# shellcheck source=compose/owner.sh
. "$HERE/owner.sh"

# Containers never run as root: as the user who called (also through sudo), or as the images' own user for root.
LAB_UID=$(id -u)
LAB_GID=$(id -g)
if [ "$LAB_UID" = 0 ]; then LAB_UID=${SUDO_UID:-10001} LAB_GID=${SUDO_GID:-10001}; fi
if [ "$LAB_UID" = 0 ]; then LAB_UID=10001 LAB_GID=10001; fi
export LAB_UID LAB_GID

compose() {
    if [ -n "${SITL_BINARY:-}" ]; then set -- -f compose/sitl-binary.yml "$@"; fi
    if [ -n "${SITL_DEFAULTS:-}" ]; then set -- -f compose/sitl-defaults.yml "$@"; fi
    if is_influxdb2; then
        influxdb_token
        set -- -f compose/influxdb2.yml "$@"
    fi
    case $(docker version -f '{{.Server.APIVersion}}') in
        1.[0-9] | 1.[0-3][0-9] | 1.4[0-3]) ;;
        *) set -- -f compose/quick-health.yml "$@" ;;
    esac
    # files with other ends, separated by blanks (emulated-pi/lab, platforms/run)
    for overlay in ${LAB_OVERLAY:-}; do set -- -f "$overlay" "$@"; done
    docker compose -f compose/lab.yml "$@"
}

# running: how many containers the lab has now.
running() { docker ps -q --filter "$OURS" | wc -l | tr -d ' '; }

# is_coming_up PORT: is it a port of the lab's own, whose containers another lab-up has begun to start?
is_coming_up() {
    case " $PORTS " in *" $1 "*) ;; *) return 1 ;; esac
    [ "$(running)" != 0 ] || [ -n "$(docker ps -aq --filter "$OURS" --filter status=created)" ]
}

# The kernel's table of listening sockets, so that a taken port is named before anything starts.
check_ports() { # PORT...
    for port in "$@"; do
        hex=$(printf '%04X' "$port")
        if cat "$PROC_NET/tcp" "$PROC_NET/tcp6" 2>/dev/null | grep -Eq ":$hex [0-9A-F]+:0000 0A"; then
            ! is_coming_up "$port" || fail 4 "the lab is being brought up already" "port $port is one of its own" \
                "wait for the other lab-up; make lab-status$WITH shows how far it is"
            fail 4 "port $port on this machine is taken" \
                "the lab publishes it on 127.0.0.1 and another program listens on $port" \
                "find it with: ss -ltnp 'sport = :$port'; stop it, then: make lab-up$WITH"
        fi
    done
}

# is_influxdb2: does INFLUXDB_IMAGE name an InfluxDB of version 2? Its tag says so, wherever it is kept.
is_influxdb2() {
    case ${INFLUXDB_IMAGE:-} in
        influxdb:2* | */influxdb:2* | pqlab/influxdb2:*) return 0 ;;
    esac
    return 1
}

# influxdb_token: the one that the user gave, else the lab's own, made once beside its keys.
influxdb_token() {
    if [ -z "${INFLUXDB_TOKEN:-}" ]; then
        kept=keys/influxdb/token.secret
        if [ ! -s "$kept" ]; then
            (umask 077 && mkdir -p keys/influxdb && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$kept")
        fi
        INFLUXDB_TOKEN=$(cat "$kept")
    fi
    : "${INFLUXDB_USER:=pqlab}"
    export INFLUXDB_TOKEN INFLUXDB_USER
}

check_binary() {
    if [ -n "${SITL_BINARY:-}" ]; then
        [ -f "$SITL_BINARY" ] || fail 4 "SITL_BINARY=$SITL_BINARY is not a file" \
            "it must be an ArduPilot SITL binary for this machine" "make lab-up SITL_BINARY=/path/to/arducopter"
        SITL_BINARY=$(absolute "$SITL_BINARY")
        export SITL_BINARY
        beside=${SITL_BINARY%/*}/copter.parm
        if [ -z "${SITL_DEFAULTS:-}" ] && [ -f "$beside" ]; then SITL_DEFAULTS=$beside; fi
    fi
    [ -n "${SITL_DEFAULTS:-}" ] || return 0
    [ -f "$SITL_DEFAULTS" ] || fail 4 "SITL_DEFAULTS=$SITL_DEFAULTS is not a file" \
        "it must be a list of ArduPilot's parameters" "make lab-up SITL_BINARY=… SITL_DEFAULTS=/path/to/copter.parm"
    SITL_DEFAULTS=$(absolute "$SITL_DEFAULTS")
    export SITL_DEFAULTS
}

absolute() {
    case $1 in
        /*) echo "$1" ;;
        *) echo "$PWD/$1" ;;
    esac
}

# unlooked: running services that the engine has not looked at since they were frozen, as a campaign does on purpose. It
# calls them unhealthy, without a look that failed, from then until its next look, a minute later at most.
unlooked() {
    docker ps -q --filter "$OURS" --filter status=running --filter health=unhealthy | xargs -r docker inspect -f \
        '{{if eq .State.Health.FailingStreak 0}}{{index .Config.Labels "com.docker.compose.service"}}{{end}}' | grep . || true
}

await_looks() {
    seconds=0
    while frozen=$(unlooked) && [ -n "$frozen" ] && [ "$seconds" -lt 70 ]; do
        [ "$seconds" != 0 ] || echo "frozen a short while ago, the engine looks again within a minute: $frozen" | paste -sd ' ' -
        sleep 1
        seconds=$((seconds + 1))
    done
}

# start: on failure the log ends with what the services that are not well have said.
start() {
    await_looks
    compose up -d --wait --wait-timeout "${LAB_WAIT_S:-90}" --remove-orphans && return 0
    last_words
    return 1
}

last_words() {
    docker ps -a --filter "$OURS" --format '{{.Names}} {{.Status}}' | grep -v '(healthy)' |
        while read -r name status; do
            printf '\n%s: %s\n' "$name" "$status"
            docker logs --tail 8 "$name" 2>&1
        done
}

# rows: service|state|health|addresses of every container of the lab.
rows() {
    # shellcheck disable=SC2016  # a template of the engine's, not the shell's
    docker ps -aq --filter "$OURS" | xargs -r docker inspect -f \
        '{{index .Config.Labels "com.docker.compose.service"}}|{{.State.Status}}|{{if .State.Health}}{{.State.Health.Status}}{{else}}-{{end}}|{{range $n, $e := .NetworkSettings.Networks}}{{$e.IPAddress}} {{end}}' |
        sort
}

# unwell: what keeps the lab from being whole, as `service (why)`. A profile's service that has ended or is frozen, as
# detectors are between their cells, is no part of it.
unwell() {
    wanted=$(compose config --services)
    there=$(rows)
    for service in $wanted; do
        printf '%s\n' "$there" | grep -q "^$service|" || echo "$service (missing)"
    done
    printf '%s\n' "$there" | while IFS='|' read -r service state health _; do
        case $state/$health in
            / | running/healthy | running/-) ;;
            running/*) echo "$service ($health)" ;;
            *) ! printf '%s\n' "$wanted" | grep -qx "$service" || echo "$service ($state)" ;;
        esac
    done
}

# is_up: every service runs, none is unwell, and they are this checkout's. A service that was frozen is not unwell for
# that: a campaign asks each end itself.
is_up() {
    engine_up || return 1
    [ "$(stands_for "$(owner)")" = mine ] || return 1
    [ "$(running)" -ge "$(compose config --services | wc -l)" ] &&
        [ "$(docker ps -q --filter "$OURS" --filter health=unhealthy | wc -l)" -le "$(unlooked | wc -l)" ]
}

cmd_up() {
    need_engine
    [ -f keys/complete ] || fail 4 "no keys yet, or not all of them" "both endpoints prove who they are" "make keys"
    check_binary
    require_free
    STEPS=1
    if [ -n "$(strangers)" ]; then
        STEPS=2
        step "take away what another checkout left" stop
    fi
    # shellcheck disable=SC2086  # a list of numbers
    [ "$(running)" != 0 ] || check_ports $PORTS
    attempt "start the services of $THE_LAB and wait until all are healthy" start
    cmd_status
    ill=$(unwell | paste -sd , - | sed 's/,/, /g')
    if [ -n "$ill" ]; then
        [ "$code" -ne 0 ] || last_words
        fail 4 "$THE_LAB is not whole: $ill" "what these services said last is above" \
            "docker logs $PROJECT-SERVICE-1 says more; begin anew: make lab-down lab-up$WITH"
    fi
    [ "$code" -eq 0 ] || give_up
}

# whose: who has the lab where it is not this checkout's, and whether a campaign runs on it.
whose() {
    folder=$(owner)
    case $(stands_for "$folder") in
        theirs) printf '\n%s is that of %s\n' "$THE_LAB" "$(shown "${folder%/compose}")" ;;
        gone) printf '\n%s is that of %s, which is gone\n' "$THE_LAB" "$(shown "${folder%/compose}")" ;;
        mine) printf "\n%s is this checkout's\n" "$THE_LAB" ;;
    esac
    ! campaign_runs || echo 'a campaign runs on it'
}

cmd_status() {
    refuse_denied
    if ! engine_up || [ "$(running)" = 0 ]; then
        say "$THE_LAB is down; make lab-up$WITH brings it up"
        return 0
    fi
    printf '\n%-14s %-10s %-10s %s\n' SERVICE STATE HEALTH ADDRESSES
    rows | while IFS='|' read -r service state health addresses; do
        printf '%-14s %-10s %-10s %s\n' "$service" "$state" "$health" "$addresses"
    done
    whose
    cat <<EOT

gcs agent      https://127.0.0.1:48${LAB_PORT}80   (JSON-RPC 2.0, mutual TLS)
drone agent    https://127.0.0.1:48${LAB_PORT}81   (JSON-RPC 2.0, mutual TLS)
InfluxDB       http://127.0.0.1:8${LAB_PORT}86     (database pqlab, 1.x API)
live view      http://127.0.0.1:48${LAB_PORT}88    (while ./pqlab live runs)
next: make run SCENARIO=smoke$WITH            stop: make lab-down$WITH
EOT
}

# image_of SERVICE: the image of ours that it runs in, without tag.
image_of() {
    image=$(compose --profile "$1" config --images "$1")
    image=${image#pqlab/}
    echo "${image%:dev}"
}

# image NAME: what a profile of one service runs in, built where it is not there or has changed; its name comes last.
cmd_image() {
    case ${1:-} in
        detector-xgboost | detector-tst | detector-cascade) ;;
        *) fail 2 "there is no service '${1:-}' with an image of its own" "services: detector-xgboost detector-tst detector-cascade" \
            "./compose/lab.sh image detector-xgboost" ;;
    esac
    name=$(image_of "$1")
    ./images/build.sh base "$name"
    echo "pqlab/$name:dev"
}

# profile NAME: the services of one profile beside a running lab. Starting one that runs changes nothing.
cmd_profile() {
    case ${1:-} in
        link) services="link link-drone link-gcs" images="base link" ports=48${LAB_PORT}90 ;;
        attacker) services="attacker attacker-tap" images="base attacker" ports=48${LAB_PORT}92 ;;
        detector-xgboost | detector-tst | detector-cascade) services=$1 images="base $(image_of "$1")" ports= ;;
        *) fail 2 "there is no profile '${1:-}'" \
            "profiles: link attacker detector-xgboost detector-tst detector-cascade" "./compose/lab.sh profile link" ;;
    esac
    refuse_denied
    engine_up && [ "$(running)" != 0 ] || fail 4 "$THE_LAB is down" "a profile adds to a running lab" "make lab-up$WITH"
    require_mine
    [ -z "$ports" ] || [ -n "$(docker ps -q --filter "$OURS" --filter "label=com.docker.compose.service=$1")" ] ||
        check_ports "$ports"
    thaw "label=com.docker.compose.service=$1"
    # shellcheck disable=SC2086  # lists of names without blanks
    ./images/build.sh $images
    STEPS=1
    # shellcheck disable=SC2086
    step "start $services" compose --profile "$1" up -d --wait --wait-timeout 60 --no-deps $services
}

# thaw [FILTER]: a detector that a campaign froze and did not live to stop cannot be started again as it is.
thaw() { docker ps -q --filter "$OURS" --filter status=paused --filter "${1:-$OURS}" | xargs -r docker unpause >/dev/null; }

stop() {
    thaw
    compose --profile '*' down --volumes --remove-orphans --timeout 4
    # One-off containers of ./pqtunnel carry a label. Tests, benches and training in another terminal carry theirs,
    # have no part in the lab and end by themselves.
    [ "$LAB" != 1 ] || docker ps -aq --filter label=pqlab.tool=pqtunnel | xargs -r docker rm -f
}

cmd_down() {
    refuse_denied
    if ! engine_up; then
        say "no container engine answers, so no lab is running"
        return 0
    fi
    require_free
    STEPS=1
    SITL_BINARY='' SITL_DEFAULTS=''
    step "stop the services of $THE_LAB and remove their networks and volumes" stop
    left="$(docker ps -aq --filter "$OURS") $(docker network ls -q --filter "$OURS") $(docker volume ls -q --filter "$OURS")"
    [ -z "$(printf '%s' "$left" | tr -d ' \n')" ] || fail 4 "something of $THE_LAB is left: $left" \
        "the engine did not remove it" "docker inspect $left"
    say "$THE_LAB is down; the engine and the images stay (make purge removes them)"
}

case ${1:-} in
    up) cmd_up ;;
    image) cmd_image "${2:-}" ;;
    profile) cmd_profile "${2:-}" ;;
    status) cmd_status ;;
    is-up) is_up ;;
    mine) ! engine_up || require_mine ;;
    free) ! engine_up || require_free ;;
    down) cmd_down ;;
    *)
        echo "usage: ./compose/lab.sh up|profile NAME|image NAME|status|is-up|mine|free|down" >&2
        exit 2
        ;;
esac
