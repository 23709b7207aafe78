#!/bin/sh
# Builds the crate twice from a copy of its sources, a comment apart in a layer that compiles, and checks
# that the build script gives the two builds different digests, and a third build, of the first sources in
# another folder, the first one's.
#
# usage: tests/scripts/build-twice.sh        (from the crate's folder; target/ is shared, so it is quick)
set -eu

root=$(pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

digest() { # folder
    (cd "$1" && CARGO_TARGET_DIR="$root/target" cargo check --quiet --offline --lib --no-default-features \
        --message-format json 2>/dev/null) |
        sed -n 's/.*"CACHELIFT_SOURCES","\([0-9a-f]*\)".*/\1/p' | head -n 1
}

copy() { # folder
    mkdir -p "$1"
    cp -R Cargo.toml Cargo.lock build.rs src benches "$1"
}

copy "$work/a"
first=$(digest "$work/a")
echo '// A comment.' >>"$work/a/src/code/compile.rs"
second=$(digest "$work/a")
copy "$work/b"
third=$(digest "$work/b")

echo "first $first, with a comment more $second, elsewhere $third"
[ ${#first} -eq 64 ] && [ "$first" != "$second" ] && [ "$first" = "$third" ]
