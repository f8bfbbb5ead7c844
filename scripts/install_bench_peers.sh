#!/bin/sh
# The duplicate finders that `make bench` races against, as far as they can be had here.
# One that can't is no error: the results name it as not installed. Only jdupes must be there, for its answer.
set -eu

missing=""
for program in jdupes rdfind rmlint fdupes duff; do
    command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
command -v hardlink >/dev/null 2>&1 || missing="$missing util-linux"
if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing to race against:$missing"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || true
    # One by one: what a release lacks must not keep the others away.
    for package in $missing; do
        apt-get install -qq -y --no-install-recommends "$package" >/dev/null || echo "dedupfs: no $package here" >&2
    done
elif [ -n "$missing" ]; then
    echo "dedupfs: not there to race against:$missing (on Debian: sudo apt-get install$missing)" >&2
fi
# libvips, to race thumbnails against.
if ! .venv/bin/python -c "import pyvips" 2>/dev/null; then
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "pyvips[binary]" ||
        echo "dedupfs: no pyvips here" >&2
fi

if ! command -v jdupes >/dev/null 2>&1; then
    echo "dedupfs: the benchmarks need jdupes: its answer is what ours is held against" >&2
    exit 2
fi

# czkawka_cli takes a quarter of an hour to build on two cores: it is measured where somebody has installed it.
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
if command -v cargo >/dev/null 2>&1 && ! command -v fclones >/dev/null 2>&1; then
    echo "Building fclones to race against"
    cargo install --quiet --locked fclones || echo "dedupfs: no fclones here" >&2
fi
