#!/bin/sh
# Makes this machine able to run the lab: container engine, Python environment, base image.
# One file, and longer than others, because it is what runs before anything else is there.
#
# In scope: what has to be there before the first image is built, and taking it away again (purge).
# Not in scope: building the other images (images/build.sh), starting the lab (Makefile).
#
# Every package put on the machine is written to $STATE/packages, so that `purge` removes
# exactly those and nothing that was here before. The host's own apt configuration is never edited:
# packages from the next Debian release come through a private apt directory that is deleted again.
set -eu

ROOT=$(CDPATH='' cd -- "$(dirname -- "${PQLAB_SELF:-$0}")" && pwd)
STATE=${PQLAB_STATE:-/var/lib/pqlab}
APT_ETC=${PQLAB_APT_ETC:-/etc/apt}
LOGS=$ROOT/.state/logs
BASE_TAG=pqlab/debian-base:trixie
BINFMT=${PQLAB_BINFMT:-/proc/sys/fs/binfmt_misc}
# The registry's image, by content: a moved tag cannot change what we build on.
BASE_REGISTRY=debian:trixie-slim@sha256:a29215f6a35e51e22adffa17f89e9d2ef06214e64a2bad10d765c46aea49f11f
SUITE=trixie
# Empty: this machine's own.
BASE_ARCH=
STEP=0
STEPS=0

usage() {
    cat <<'EOT'
usage: ./bootstrap.sh COMMAND
  engine   make sure a container engine, compose v2 and buildx work (installs them as root on Debian)
  venv     make .venv from requirements/host.txt
  ansible-venv  make .venv-ansible from requirements/ansible.txt, with the collections the playbooks use
  labgrid-venv  make .venv-labgrid from requirements/labgrid.txt, for places of a shared rack
  base     provide the Debian base image (pulled, or made from Debian packages); `base arm64`: that of arm64
  binfmt   make this machine run arm64 programs by QEMU's user mode (installs it as root on Debian)
  purge    remove what `engine` and `venv` installed, and every image of the lab
environment: PQLAB_YES=1 (never ask), BASE_IMAGE=name (use this base image)
EOT
}

# --- telling the user ------------------------------------------------------------------------

say() { printf '%s\n' "$*"; }

# fail CODE WHAT WHY NEXT: every error says what happened, why, and which command comes next.
fail() {
    printf 'error: %s\n  why:  %s\n  next: %s\n' "$2" "$3" "$4" >&2
    exit "$1"
}

# attempt TITLE COMMAND...: runs a command with its output in a log, shows elapsed time, and the end of the log only
# if it fails; what it ended with is left in $code. Not to be asked with || or if: a shell then forgets set -e in it.
attempt() {
    title=$1
    shift
    STEP=$((STEP + 1))
    mkdir -p "$LOGS"
    log=$LOGS/$(printf '%s' "$title" | tr -c 'A-Za-z0-9' '-' | cut -c1-40).log
    begin=$(date +%s)
    label="[$STEP/$STEPS] $title"
    [ -t 1 ] || say "$label …"
    "$@" >"$log" 2>&1 &
    child=$!
    beat=0
    while kill -0 "$child" 2>/dev/null; do
        sleep 0.2
        beat=$((beat + 1))
        if [ -t 1 ]; then
            printf '\r%s … %d s ' "$label" $(($(date +%s) - begin))
        elif [ $((beat % 150)) -eq 0 ]; then
            say "    … $(($(date +%s) - begin)) s"
        fi
    done
    code=0
    wait "$child" || code=$?
    took=$(($(date +%s) - begin))
    if [ "$code" -ne 0 ]; then
        [ -t 1 ] && printf '\n'
        say "--- last lines of $log"
        tail -n 25 "$log"
        say "---"
        return 0
    fi
    [ -t 1 ] && printf '\r'
    say "$label: done in $took s"
}

# give_up: tells of the attempt that failed last.
give_up() {
    fail 4 "$title failed after $took s" "the command ended with $code; its whole output is in $log" \
        "put right what the last lines say and run the same command again (finished steps are kept)"
}

# step TITLE COMMAND...: an attempt that nothing goes on without.
step() {
    attempt "$@"
    [ "$code" -eq 0 ] || give_up
}

# --- what there is ---------------------------------------------------------------------------

have() { command -v "$1" >/dev/null 2>&1; }
is_root() { [ "$(id -u)" = 0 ]; }
os_value() { sed -n "s/^$1=\"\{0,1\}\([^\"]*\)\"\{0,1\}$/\1/p" /etc/os-release 2>/dev/null | head -n 1; }
is_debian() { [ "$(os_value ID)" = debian ] && have apt-get && have dpkg; }
engine_up() { have docker && docker info >/dev/null 2>&1; }
compose_up() { docker compose version >/dev/null 2>&1; }
buildx_up() { docker buildx version >/dev/null 2>&1; }

# refuse_denied: of an engine that runs, but not for this user, nobody is told that it is missing.
refuse_denied() {
    have docker && ! engine_up || return 0
    docker info 2>&1 >/dev/null | grep -qi 'permission denied' || return 0
    fail 4 "the container engine runs, but not for you" "$(id -un) is not in group docker, whose members may use it" \
        "sudo usermod -aG docker $(id -un), log in again, then the same command; or now, with sudo before it"
}

need_engine() {
    engine_up && return 0
    refuse_denied
    fail 4 "no container engine answers" "the lab runs in containers" "make lab-up (starts one)"
}

# A daemon that is running but not answering is waited for, never doubled: a second one in the same
# network namespace removes the first one's bridge. One in another namespace is somebody else's.
daemon_running() {
    for p in /proc/[0-9]*; do
        [ "$(cat "$p/comm" 2>/dev/null)" = dockerd ] || continue
        [ "$(readlink "$p/ns/net")" != "$(readlink /proc/self/ns/net)" ] || return 0
    done
    return 1
}

# may_install WHAT...: root on Debian only; asks on a terminal.
may_install() {
    if ! { is_root && is_debian; }; then
        fail 4 "missing on this machine: $*" \
            "bootstrap installs packages only as root on Debian, and this is $(id -un) on $(os_value PRETTY_NAME)" \
            "install them by hand (engine, compose v2, buildx, python3-venv), or run: sudo make lab-up"
    fi
    if [ -t 0 ] && [ -t 1 ] && [ "${PQLAB_YES:-}" != 1 ]; then
        printf 'This installs on this machine: %s. Go on? [y/N] ' "$*"
        read -r answer
        case $answer in
            y | Y | yes) ;;
            *) fail 4 "nothing was installed" "you did not agree" "make lab-up PQLAB_YES=1, or install them by hand" ;;
        esac
    fi
}

# --- apt through a private directory ---------------------------------------------------------

# host_source SUITE: "URI|keyring" of the host's own first apt source that offers SUITE's main.
host_source() {
    for f in "$APT_ETC"/sources.list.d/*.sources; do
        [ -f "$f" ] || continue
        awk -v want="$1" '
            function flush(  i, n, s) {
                n = split(suites, s, " ")
                for (i = 1; i <= n && !found; i++)
                    if (s[i] == want && enabled != "no") { print uri "|" key; found = 1 }
                uri = key = suites = enabled = ""
            }
            /^[[:space:]]*$/ { flush(); next }
            /^#/ { next }
            /^URIs:/ { uri = $2 }
            /^Suites:/ { $1 = ""; suites = $0 }
            /^Signed-By:/ { key = $2 }
            /^Enabled:/ { enabled = $2 }
            END { flush() }' "$f"
    done
    for f in "$APT_ETC"/sources.list "$APT_ETC"/sources.list.d/*.list; do
        [ -f "$f" ] || continue
        awk -v want="$1" '
            $1 == "deb" {
                key = ""; line = $0
                if (match(line, /\[[^]]*\]/)) {
                    opts = substr(line, RSTART + 1, RLENGTH - 2)
                    line = substr(line, 1, RSTART - 1) substr(line, RSTART + RLENGTH)
                    if (match(opts, /signed-by=[^ ]*/)) key = substr(opts, RSTART + 10, RLENGTH - 10)
                }
                split(line, part, " ")
                if (part[3] == want) print part[2] "|" key
            }' "$f"
    done
}

# mirror SUITE: the first of those, or nothing.
mirror() { host_source "$1" | head -n 1; }

apt_stanza() { # URI KEYRING SUITES
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n' "$1" "$3"
    [ -z "$2" ] || printf 'Signed-By: %s\n' "$2"
    printf '\n'
}

# Fills $STATE/apt with the host's mirror plus the next release, of which only the named packages
# may ever be chosen.
apt_prepare() {
    codename=$(os_value VERSION_CODENAME)
    found=$(mirror "$codename")
    [ -n "$found" ] || fail 4 "no apt source for $codename/main found" \
        "the mirror is taken from this machine's own /etc/apt/sources.list and sources.list.d" \
        "add a Debian source there, then run: make lab-up"
    uri=${found%%|*} key=${found#*|}
    mkdir -p "$STATE/apt/sources.list.d" "$STATE/apt/preferences.d" "$STATE/apt/lists/partial"
    suites="$codename"
    [ -z "$(mirror "$codename-updates")" ] || suites="$suites $codename-updates"
    [ "$codename" != bookworm ] || suites="$suites $SUITE"
    {
        apt_stanza "$uri" "$key" "$suites"
        sec=$(mirror "$codename-security")
        [ -z "$sec" ] || apt_stanza "${sec%%|*}" "${sec#*|}" "$codename-security"
    } >"$STATE/apt/sources.list.d/lab.sources"
    cat >"$STATE/apt/preferences.d/lab" <<EOT
Package: *
Pin: release n=$SUITE
Pin-Priority: $([ "$codename" = bookworm ] && echo -1 || echo 500)

Package: docker-compose docker-buildx docker.io docker-cli containerd qemu-user
Pin: release n=$SUITE
Pin-Priority: 990
EOT
}

apt_private() {
    DEBIAN_FRONTEND=noninteractive apt-get -q \
        -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$STATE/apt/sources.list.d" \
        -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts="$STATE/apt/preferences.d" \
        -o Dir::State::lists="$STATE/apt/lists" -o Dir::Cache::pkgcache='' -o Dir::Cache::srcpkgcache='' \
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o Acquire::Retries=3 "$@"
}

apt_update() { apt_private update; }

installed() { dpkg-query -W -f '${Package} ${db:Status-Abbrev}\n' | awk '$2 ~ /^ii/ { print $1 }' | sort; }

# apt_install PACKAGE...: notes what is new on the machine, before and after compared.
apt_install() {
    before=$(installed)
    apt_private install -y --no-install-recommends "$@"
    after=$(installed)
    printf '%s\n' "$after" | while read -r name; do
        printf '%s\n' "$before" | grep -qx "$name" || printf '%s\n' "$name"
    done >>"$STATE/packages"
    rm -rf "$STATE/apt"
}

# install_packages PACKAGE...: consent, then the private apt directory, then the install.
install_packages() {
    may_install "$@"
    mkdir -p "$STATE"
    apt_prepare
    step "read the package lists" apt_update
    step "install $*" apt_install "$@"
}

# --- engine ----------------------------------------------------------------------------------

wait_for_engine() {
    tries=0
    until engine_up; do
        tries=$((tries + 1))
        [ "$tries" -le 150 ] || return 1
        sleep 0.2
    done
}

start_engine() {
    if daemon_running; then
        say "a docker daemon is running but not answering yet; waiting for it"
    elif [ -d /run/systemd/system ]; then
        systemctl start docker
    else
        # setsid: the daemon outlives this shell and its terminal.
        setsid dockerd >>/var/log/pqlab-dockerd.log 2>&1 </dev/null &
    fi
    wait_for_engine
}

cmd_engine() {
    refuse_denied
    missing=
    have dockerd || engine_up || missing="$missing docker.io iptables"
    if ! have docker; then missing="$missing docker-cli"; fi
    compose_up || missing="$missing docker-compose"
    buildx_up || missing="$missing docker-buildx"
    if [ -z "$missing" ] && engine_up; then
        say "engine: $(docker version -f '{{.Server.Version}}'), compose $(docker compose version --short): already here"
        return 0
    fi
    STEPS=$((STEPS + 1))
    [ -z "$missing" ] || STEPS=$((STEPS + 2))
    # A registry-less machine makes its base image from packages, so the tool for that comes along.
    have mmdebstrap || missing="$missing${missing:+ mmdebstrap}"
    if [ -n "$missing" ]; then
        find_python >/dev/null || missing="$missing python3-venv"
        [ -d /var/lib/docker ] || { is_root && mkdir -p "$STATE" && : >"$STATE/owns-var-lib-docker"; }
        # shellcheck disable=SC2086  # a list of package names
        install_packages $missing
        hash -r 2>/dev/null || true
    fi
    if engine_up; then STEP=$((STEP + 1)); else
        is_root || fail 4 "the container engine is installed but not running" "starting it needs root" \
            "sudo systemctl start docker, then: make lab-up"
        step "start the container engine" start_engine
    fi
    say "engine: $(docker version -f '{{.Server.Version}}'), compose $(docker compose version --short)"
}

# --- base image ------------------------------------------------------------------------------

# Timestamps of the imported tree: fixed, so that the same packages give the same bytes.
EPOCH=1735689600

try_pull() { timeout 120 docker pull -q ${BASE_ARCH:+--platform "linux/$BASE_ARCH"} "$1"; }

# make_base: Debian's packages unpacked into an image, without manuals, caches and logs.
make_base() {
    codename=$(os_value VERSION_CODENAME)
    found=$(mirror "$codename")
    uri=${found%%|*} key=${found#*|}
    [ -n "$found" ] || { echo "no apt source for $codename/main on this machine"; return 1; }
    sec=$(mirror "$codename-security")
    sec=${sec%%|*}
    [ -n "$key" ] && [ -e "$key" ] || key=/usr/share/keyrings/debian-archive-keyring.gpg
    tar=$(mktemp "${TMPDIR:-/tmp}/pqlab-base.XXXXXX")
    # shellcheck disable=SC2064  # the path of this moment
    trap "rm -f '$tar'" EXIT
    # shellcheck disable=SC2016  # the hooks' $1 is mmdebstrap's: the root it has unpacked
    SOURCE_DATE_EPOCH=$EPOCH mmdebstrap --mode=root --variant=minbase --format=tar --keyring="$key" \
        ${BASE_ARCH:+--architectures="$BASE_ARCH"} \
        --include=ca-certificates \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
        --customize-hook='rm -rf "$1"/var/cache/* "$1"/var/log/* "$1"/var/lib/apt/lists/*' \
        --customize-hook='rm -f "$1"/etc/machine-id "$1"/etc/resolv.conf "$1"/etc/hostname' \
        "$SUITE" "$tar" "deb $uri $SUITE main" ${sec:+"deb $sec $SUITE-security main"}
    docker import -c 'CMD ["bash"]' ${BASE_ARCH:+--platform "linux/$BASE_ARCH"} "$tar" "$BASE_TAG"
}

# --- arm64 programs --------------------------------------------------------------------------

is_arm64() { case $(uname -m) in aarch64 | arm64) ;; *) false ;; esac; }

# runs_arm64: the kernel hands arm64 programs to an emulator that it has opened itself (flag F), so
# that they run in containers too, where the emulator's file is not.
runs_arm64() {
    is_arm64 && return 0
    for entry in "$BINFMT"/qemu-aarch64*; do
        if grep -qx enabled "$entry" 2>/dev/null && grep -q '^flags:.*F' "$entry"; then
            emulator_fits "$(sed -n 's/^interpreter //p' "$entry")" && return 0
        fi
    done
    return 1
}

# Programs of the lab hang in QEMU 7.2 (Debian 12's): ONNX Runtime never ends its start there. 10 runs them.
EMULATOR_LEAST=10
emulator_fits() {
    found=$("$1" --version 2>/dev/null | sed -n 's/^qemu-aarch64 version \([0-9]*\).*/\1/p')
    [ "${found:-0}" -ge "$EMULATOR_LEAST" ]
}

# The magic and mask of an ELF file for AArch64, as the kernel's Documentation/admin-guide/binfmt-misc.rst
# wants them: the kernel resolves the \x itself.
register_arm64() {
    if [ ! -e "$BINFMT/register" ]; then
        mount -t binfmt_misc binfmt_misc "$BINFMT" || return 1
        : >"$STATE/mounted-binfmt"
    fi
    magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    # An emulator that is too old was opened when it was named: the kernel would go on with it.
    [ ! -e "$BINFMT/qemu-aarch64" ] || echo -1 >"$BINFMT/qemu-aarch64"
    # One write, or the kernel takes each for a registration; the name is QEMU's own.
    printf '%s' ":qemu-aarch64:M::$magic:$mask:$(command -v qemu-aarch64):F" >"$BINFMT/register" || return 1
    : >"$STATE/registered-binfmt"
}

cmd_binfmt() {
    if runs_arm64; then
        is_arm64 || say "binfmt: arm64 programs run here by QEMU's user mode: already here"
        return 0
    fi
    is_root || fail 4 "arm64 programs do not run on this machine" \
        "the kernel knows no emulator for them, and naming one (binfmt_misc, flag F) needs root" "sudo ./bootstrap.sh binfmt"
    STEPS=$((STEPS + 1))
    if ! emulator_fits qemu-aarch64; then
        STEPS=$((STEPS + 2))
        install_packages qemu-user
    fi
    mkdir -p "$STATE"
    # The package registers its emulators itself where systemd runs.
    runs_arm64 || step "register QEMU's user mode for arm64" register_arm64
    runs_arm64 || fail 4 "arm64 programs do not run on this machine" "the kernel did not keep the emulator's registration" \
        "read $BINFMT/qemu-aarch64, put it right, then: ./bootstrap.sh binfmt"
}

unregister_arm64() {
    [ ! -f "$STATE/registered-binfmt" ] || [ ! -e "$BINFMT/qemu-aarch64" ] || echo -1 >"$BINFMT/qemu-aarch64"
    [ ! -f "$STATE/mounted-binfmt" ] || umount "$BINFMT" || echo "$BINFMT stays mounted: something uses it"
    rm -f "$STATE/registered-binfmt" "$STATE/mounted-binfmt"
}

# cmd_base [arm64]: that of this machine, or that of the other platform.
cmd_base() {
    if [ "${1:-}" != arm64 ] || is_arm64; then
        provide_base
        return
    fi
    cmd_binfmt
    own=$BASE_TAG
    # What a user names as BASE_IMAGE is of this machine's own platform.
    BASE_TAG=$own-arm64 BASE_ARCH=arm64 BASE_IMAGE='' provide_base
    BASE_TAG=$own BASE_ARCH=''
}

provide_base() {
    if [ -n "${BASE_IMAGE:-}" ]; then
        docker image inspect "$BASE_IMAGE" >/dev/null 2>&1 || {
            STEPS=$((STEPS + 1))
            step "pull $BASE_IMAGE" try_pull "$BASE_IMAGE"
        }
        docker tag "$BASE_IMAGE" "$BASE_TAG"
        say "base: $BASE_IMAGE (from BASE_IMAGE)"
        return 0
    fi
    if docker image inspect "$BASE_TAG" >/dev/null 2>&1; then
        say "base: $BASE_TAG: already here"
        return 0
    fi
    if try_pull "$BASE_REGISTRY" >/dev/null 2>&1; then
        docker tag "$BASE_REGISTRY" "$BASE_TAG"
        say "base: pulled $BASE_REGISTRY"
        return 0
    fi
    say "base: no registry answers with $BASE_REGISTRY; making the same from Debian packages"
    STEPS=$((STEPS + 1))
    missing=
    have mmdebstrap || missing=mmdebstrap
    # mmdebstrap asks it whether foreign programs run.
    [ -z "$BASE_ARCH" ] || have arch-test || missing="$missing arch-test"
    if [ -n "$missing" ]; then
        STEPS=$((STEPS + 2))
        # shellcheck disable=SC2086  # a list of package names
        install_packages $missing
    fi
    is_root || fail 4 "the base image cannot be made here" \
        "no registry is reachable and unpacking Debian packages needs root" \
        "set BASE_IMAGE to an image you have, or run: sudo ./bootstrap.sh base"
    step "make the Debian $SUITE base image${BASE_ARCH:+ of $BASE_ARCH}" make_base
}

# --- Python environment ----------------------------------------------------------------------

python_fits() { "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# The distribution's own first: it is built with its profile, which one built by hand often is not (0.82 of the
# time to verify a bundle).
find_python() {
    for p in /usr/bin/python3 python3; do
        if have "$p" && python_fits "$p"; then
            command -v "$p"
            return 0
        fi
    done
    return 1
}

# The tree's distributions that the host side imports.
PACKAGES="base evidence conduct tunnel spec telemetry sitl link detectors attacker"

venv_key() { # changes when the lock, the interpreter or the place of the tree does
    { cat "$ROOT/requirements/host.txt" && "$1" -V && printf '%s\n' "$ROOT" "$PACKAGES"; } | cksum
}

make_venv() {
    rm -rf "$ROOT/.venv"
    "$1" -m venv "$ROOT/.venv"
    "$ROOT/.venv/bin/python" -m pip install -q --disable-pip-version-check --require-hashes \
        -r "$ROOT/requirements/host.txt"
    # The tree's own packages are found in place: an edit counts at once.
    site=$("$ROOT/.venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    for package in $PACKAGES; do
        printf '%s\n' "$ROOT/$package/src"
    done >"$site/pqlab-tree.pth"
    venv_key "$1" >"$ROOT/.venv/key"
    # Made under sudo, used without it afterwards.
    [ -z "${SUDO_UID:-}" ] || chown -R "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$ROOT/.venv" "$ROOT/.state"
}

cmd_venv() {
    python=$(find_python) || {
        STEPS=$((STEPS + 2))
        install_packages python3 python3-venv
        python=$(find_python) || fail 4 "no usable Python" \
            "pqlab needs Python 3.11 or newer with venv, this machine has $(python3 -V 2>&1)" \
            "install Python 3.11 or newer, then: make venv"
    }
    if [ -f "$ROOT/.venv/key" ] && [ "$(cat "$ROOT/.venv/key")" = "$(venv_key "$python")" ]; then
        return 0
    fi
    STEPS=$((STEPS + 1))
    step "make .venv from requirements/host.txt" make_venv "$python"
}

make_ansible_venv() {
    rm -rf "$ROOT/.venv-ansible"
    "$1" -m venv "$ROOT/.venv-ansible"
    "$ROOT/.venv-ansible/bin/python" -m pip install -q --disable-pip-version-check --require-hashes -r "$ROOT/requirements/ansible.txt"
    wheels=$(mktemp -d "${TMPDIR:-/tmp}/pqlab-ansible.XXXXXX")
    # shellcheck disable=SC2064  # the path of this moment
    trap "rm -rf '$wheels'" EXIT
    "$ROOT/.venv-ansible/bin/python" -m pip download -q --disable-pip-version-check --no-deps --require-hashes \
        -d "$wheels" -r "$ROOT/requirements/ansible-collections.txt"
    site=$("$ROOT/.venv-ansible/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    "$1" "$ROOT/requirements/unpack_collections.py" "$wheels"/ansible-*.whl "$site"
    rm -rf "$wheels"
    ansible_key "$1" >"$ROOT/.venv-ansible/key"
    [ -z "${SUDO_UID:-}" ] || chown -R "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$ROOT/.venv-ansible" "$ROOT/.state"
}

ansible_key() {
    {
        cat "$ROOT/requirements/ansible.txt" "$ROOT/requirements/ansible-collections.txt" "$ROOT/requirements/unpack_collections.py"
        "$1" -V
        printf '%s\n' "$ROOT"
    } | cksum
}

cmd_ansible_venv() {
    python=$(find_python) || fail 4 "no usable Python" "Ansible needs Python 3.11 or newer with venv" "make venv"
    if [ -f "$ROOT/.venv-ansible/key" ] && [ "$(cat "$ROOT/.venv-ansible/key")" = "$(ansible_key "$python")" ]; then
        return 0
    fi
    STEPS=$((STEPS + 1))
    step "make .venv-ansible from requirements/ansible.txt" make_ansible_venv "$python"
}

make_labgrid_venv() {
    rm -rf "$ROOT/.venv-labgrid"
    "$1" -m venv "$ROOT/.venv-labgrid"
    "$ROOT/.venv-labgrid/bin/python" -m pip install -q --disable-pip-version-check --require-hashes -r "$ROOT/requirements/labgrid.txt"
    labgrid_key "$1" >"$ROOT/.venv-labgrid/key"
    [ -z "${SUDO_UID:-}" ] || chown -R "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$ROOT/.venv-labgrid"
}

labgrid_key() {
    {
        cat "$ROOT/requirements/labgrid.txt"
        "$1" -V
        printf '%s\n' "$ROOT"
    } | cksum
}

cmd_labgrid_venv() {
    python=$(find_python) || fail 4 "no usable Python" "labgrid needs Python 3.11 or newer with venv" "make venv"
    if [ -f "$ROOT/.venv-labgrid/key" ] && [ "$(cat "$ROOT/.venv-labgrid/key")" = "$(labgrid_key "$python")" ]; then
        return 0
    fi
    STEPS=$((STEPS + 1))
    step "make .venv-labgrid from requirements/labgrid.txt" make_labgrid_venv "$python"
}

# --- taking it away again --------------------------------------------------------------------

# Images of ours only: by their name, never `prune`.
remove_images() {
    docker image ls -q --filter reference='pqlab/*' | sort -u | while read -r id; do
        docker image rm -f "$id"
    done
}

stop_own_daemon() {
    if [ -d /run/systemd/system ]; then systemctl stop docker.socket docker; fi
    [ -f /var/run/docker.pid ] || return 0
    pid=$(cat /var/run/docker.pid)
    kill "$pid"
    while kill -0 "$pid" 2>/dev/null; do sleep 0.2; done
}

# takes_along PACKAGE...: what apt would remove with them that bootstrap did not install.
takes_along() {
    apt-get -s -qq purge "$@" | awk '$1 == "Purg" || $1 == "Remv" { print $2 }' | grep -vxFf "$STATE/packages" || true
}

remove_packages() {
    # A package that something else has come to need since then stays.
    gone=$(installed | grep -xFf "$STATE/packages" | tr '\n' ' ' || true)
    # shellcheck disable=SC2086  # a list of package names
    if [ -n "$gone" ] && [ -n "$(takes_along $gone)" ]; then
        gone=
        while read -r name; do
            if [ -n "$(takes_along "$name")" ]; then echo "kept, in use: $name"; else gone="$gone $name"; fi
        done <"$STATE/packages"
    fi
    # shellcheck disable=SC2086
    [ -z "$gone" ] || DEBIAN_FRONTEND=noninteractive apt-get -qy purge $gone
    if [ -f "$STATE/owns-var-lib-docker" ]; then
        # The daemon leaves its folder mounted on itself.
        umount /var/lib/docker 2>/dev/null || true
        rm -rf /var/lib/docker /var/lib/containerd
    fi
    if have ip && ip link show docker0 >/dev/null 2>&1; then ip link delete docker0; fi
    [ ! -d /sys/class/net/docker0 ] || echo "the empty interface docker0 goes with the next boot"
    rm -rf "$STATE" /var/log/pqlab-dockerd.log
}

cmd_purge() {
    if engine_up; then
        # Images and engine are every checkout's: not from under a lab that is another's or measures.
        "$ROOT/compose/lab.sh" free
        STEPS=$((STEPS + 1))
        step "remove the lab's images" remove_images
    fi
    if [ -s "$STATE/packages" ]; then
        is_root || fail 4 "packages were not removed" "that needs root" "sudo make purge"
        say "removing what bootstrap installed: $(tr '\n' ' ' <"$STATE/packages")"
        STEPS=$((STEPS + 2))
        if grep -qx docker.io "$STATE/packages"; then
            # Its containers would be killed with it: whoever else uses this engine must stop first.
            [ -z "$(docker ps -q 2>/dev/null)" ] || fail 4 "the engine still runs containers" \
                "bootstrap installed this engine, but other containers use it now" \
                "stop them (docker ps), then: make purge"
            step "stop the container engine" stop_own_daemon
        fi
        step "remove the packages" remove_packages
    else
        say "no package was installed by bootstrap; the engine stays"
    fi
    rm -rf "$ROOT/.venv" "$ROOT/.venv-ansible" "$ROOT/.venv-labgrid" "$ROOT/.state"
    say "kept: keys/ and results/ (yours); remove them by hand if you want"
}

main() {
    case ${1:-} in
        engine) cmd_engine ;;
        venv) cmd_venv ;;
        ansible-venv) cmd_ansible_venv ;;
        labgrid-venv) cmd_labgrid_venv ;;
        base) cmd_base "${2:-}" ;;
        binfmt) cmd_binfmt ;;
        purge) cmd_purge ;;
        help | -h | --help) usage ;;
        *) usage >&2; exit 2 ;;
    esac
}

[ "${PQLAB_SOURCED:-}" = 1 ] || main "$@"
