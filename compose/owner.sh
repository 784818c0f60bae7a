# shellcheck shell=sh
# Whose lab it is, and whether a campaign runs on it. Sourced by compose/lab.sh, which has ROOT, OURS, THE_LAB, WITH,
# LAB_PORT, fail and say.
#
# compose itself labels every container with the folder of its file, which is compose/ of a checkout. So nothing is
# written down that could be stale, and nothing but that label, on this machine, ever holds the path.

LABEL=com.docker.compose.project.working_dir
PROC_NET=${PQLAB_PROC_NET:-/proc/net}
# a lab beside this one
OTHER=$((LAB % 4 + 1))

# living WHAT: that of every container that runs or is about to. What only lies there stopped is nobody's lab.
living() {
    docker ps -a --filter "$OURS" --filter status=created --filter status=running --filter status=paused \
        --filter status=restarting --format "$1"
}

# owner: compose/ of the checkout that most of the lab is of; nothing where no lab lives.
owner() { living "{{.Label \"$LABEL\"}}" | sort | uniq -c | sort -rn | sed -n '1s/^ *[0-9]* //p'; }

# place FOLDER: its path without links, or as it is written where it cannot be entered.
place() { (CDPATH='' cd -P -- "$1" 2>/dev/null && pwd -P) || printf '%s\n' "$1"; }

# gone PATH: it is not there. One in a folder that is not ours to look into may be there.
gone() {
    [ ! -e "$1" ] || return 1
    above=$(dirname -- "$1")
    while [ ! -e "$above" ]; do above=$(dirname -- "$above"); done
    [ -x "$above" ]
}

# shown PATH: as a shell takes it.
shown() {
    case $1 in
        *[!A-Za-z0-9/._-]*) printf "'%s'\n" "$1" ;;
        *) printf '%s\n' "$1" ;;
    esac
}

# stands_for FOLDER: mine | gone | theirs, of what `owner` says.
stands_for() {
    if [ -z "$1" ] || [ "$(place "$1")" = "$(place "$ROOT/compose")" ]; then
        echo mine
    elif gone "$1/lab.sh"; then
        echo gone
    else
        echo theirs
    fi
}

# campaign_runs: a controller holds the name of an agent of this lab (conduct/src/pqlab/cli/run.py). The kernel forgets the
# name with the process, so a campaign that was killed holds nothing.
campaign_runs() { grep -Eq "@pqlab-controller/(127\.[0-9.]+|localhost):48${LAB_PORT}8[01]$" "$PROC_NET/unix" 2>/dev/null; }

# refuse_theirs FOLDER: what every command says that would take somebody's lab away.
refuse_theirs() {
    checkout=$(shown "${1%/compose}")
    if campaign_runs; then
        fail 4 "$THE_LAB on this machine is another checkout's, and a campaign runs on it" \
            "$checkout brought it up; a lab has one owner" \
            "$checkout/pqlab status tells how far it is; afterwards: make -C $checkout lab-down$WITH; or another lab: LAB=$OTHER"
    fi
    fail 4 "$THE_LAB on this machine is another checkout's; no campaign runs on it" \
        "$checkout brought it up; a lab has one owner" \
        "make -C $checkout lab-down$WITH (as its user, or with sudo), then the same command here; or another lab: LAB=$OTHER"
}

# require_mine: the lab that lives, if any, is this checkout's.
require_mine() {
    folder=$(owner)
    case $(stands_for "$folder") in
        theirs) refuse_theirs "$folder" ;;
        gone) fail 4 "$THE_LAB on this machine was brought up by a checkout that is gone" \
            "$(shown "${folder%/compose}") brought it up, and is not there any more" \
            "make lab-up$WITH (takes it down and brings up this checkout's), or make lab-down$WITH" ;;
    esac
}

# require_free: nobody would miss the lab as it is now: it is this checkout's or of one that is gone, and no campaign runs.
require_free() {
    folder=$(owner)
    [ -n "$folder" ] || return 0
    case $(stands_for "$folder") in
        theirs) refuse_theirs "$folder" ;;
        gone) say "the checkout of $THE_LAB, $(shown "${folder%/compose}"), is gone, so anybody may take it down" ;;
    esac
    ! campaign_runs || fail 4 "a campaign runs on $THE_LAB" "its cells would be lost, or measured beside a lab that starts" \
        "./pqlab status tells how far it is; wait for its end, or stop it with Ctrl-C where it runs"
}

# strangers: containers, stopped ones too, that another checkout left. compose would start them as they are.
strangers() {
    here=$(place "$ROOT/compose")
    docker ps -a --filter "$OURS" --format "{{.Label \"$LABEL\"}}" | sort -u | while read -r folder; do
        [ "$(place "$folder")" = "$here" ] || printf '%s\n' "$folder"
    done
}
