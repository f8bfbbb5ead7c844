#!/bin/sh
# Compiles into .venv what is there in C beside Python, where there is a compiler (CC names another one). Everything
# works without: only a first scan takes longer then. Does nothing, quickly, when that was done before.
set -eu
cd "$(dirname "$0")/.."
source=libraries/small_files.c
built=.venv/native/small_files.so
compiler=${CC:-cc}

wanted=$(cksum <"$source")
if [ -e "$built" ] && [ "$(cat "$built.source" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi
mkdir -p .venv/native
rm -f "$built" "$built.source"
if ! command -v "$compiler" >/dev/null 2>&1; then
    echo "There is no C compiler here: small files are read by Python, so a first scan takes a little longer"
elif "$compiler" -O2 -shared -fPIC -o "$built.new" "$source"; then
    mv "$built.new" "$built"
    echo "$wanted" >"$built.source"
else
    rm -f "$built.new"
    echo "dedupfs: $source could not be compiled: small files are read by Python, so a first scan takes a little longer" >&2
fi
