#!/bin/sh
# Cargo.lock without index addresses: `strip` takes the source lines out after the lock was made,
# `restore` puts cargo's own back before a locked build. The checksums stay throughout, so what is
# pinned is the content, wherever it comes from. Run in the crate's folder.
set -eu

case ${1:-} in
    strip)
        sed -i '/^source = /d' Cargo.lock
        ;;
    restore)
        # A throw-away lock tells the address that this cargo uses.
        cp Cargo.lock pinned.lock
        rm Cargo.lock
        cargo generate-lockfile -q
        address=$(sed -n 's/^source = "\(.*\)"$/\1/p' Cargo.lock | head -n 1)
        awk -v address="$address" '/^checksum = / { print "source = \"" address "\"" } { print }' \
            pinned.lock >Cargo.lock
        rm pinned.lock
        ;;
    *)
        echo "usage: cargo-lock.sh strip|restore" >&2
        exit 2
        ;;
esac
