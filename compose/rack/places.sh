#!/bin/sh
# Makes the places that a file names, with their tags: places.sh FILE. One that is there already keeps its resources.
# Ends with 4 where nobody exports what a place is made of.
set -eu
there=$(labgrid-client places)
grep -v '^ *\(#\|$\)' "$1" | while read -r name tags; do
    if ! printf '%s\n' "$there" | grep -q "^$name *$"; then
        labgrid-client -p "$name" create
        labgrid-client -p "$name" add-match "*/$name/*"
    fi
    # shellcheck disable=SC2086  # tags, separated by blanks
    [ -z "$tags" ] || labgrid-client -p "$name" set-tags $tags
done
tries=0
until offered=$(labgrid-client resources) && grep -v '^ *\(#\|$\)' "$1" | while read -r name _; do
    printf '%s\n' "$offered" | grep -q "/$name/" || exit 1
done; do
    tries=$((tries + 1))
    [ "$tries" -lt 10 ] || {
        echo "error: no exporter offers what the places of $1 are made of" >&2
        exit 4
    }
    sleep 1
done
