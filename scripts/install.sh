#!/bin/sh
# Makes the virtual environment .venv and puts the packages of a lock file into it.
# Does nothing, quickly, when that was done before: a stamp in .venv holds the lock's checksum.
set -eu
cd "$(dirname "$0")/.."
lock=${1:-requirements.lock}
new_enough='import sys; sys.exit(sys.version_info < (3, 11))'

refuse() {
    echo "dedupfs: $1" >&2
    exit 2
}

check_python() {
    command -v "$1" >/dev/null 2>&1 || refuse "$1 was not found: DedupFS needs Python 3.11 or newer (PYTHON=… names it)"
    "$1" -c "$new_enough" 2>/dev/null ||
        refuse "DedupFS needs Python 3.11 or newer, but $1 is $("$1" --version 2>&1): name another one with PYTHON=…"
}

# A Python that somebody names is looked at even where it is not needed any more.
[ -z "${PYTHON:-}" ] || check_python "$PYTHON"
if ! .venv/bin/python -c "$new_enough" 2>/dev/null; then
    python=${PYTHON:-python3}
    check_python "$python"
    echo "Making the virtual environment .venv"
    "$python" -m venv --clear .venv || refuse "no virtual environment could be made (on Debian: apt-get install python3-venv)"
fi

stamp=.venv/installed-$lock
wanted=$(cksum <"$lock")
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    echo "Installing the packages of $lock"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock" ||
        refuse "the packages of $lock could not be installed; the lines above say why"
    echo "$wanted" >"$stamp"
fi

sh scripts/build_native.sh
