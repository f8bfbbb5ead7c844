#!/bin/sh
# Compiles into .venv what is there in C beside Python, where there is a compiler (CC names another one). Everything
# works without: it only takes longer. Does nothing, quickly, when that was done before.
set -eu
cd "$(dirname "$0")/.."
compiler=${CC:-cc}
without="small files are read by Python, so scanning and acting take a little longer"

has_none=
mkdir -p .venv/native
for source in libraries/blake3_many.c libraries/small_files.c libraries/unit_pages.c trash/small_pairs.c; do
    built=.venv/native/$(basename "$source" .c).so
    wanted=$(cksum <"$source")
    if [ -e "$built" ] && [ "$(cat "$built.source" 2>/dev/null)" = "$wanted" ]; then
        continue
    fi
    rm -f "$built" "$built.source"
    if ! command -v "$compiler" >/dev/null 2>&1; then
        has_none=yes
    elif "$compiler" -O3 -Wno-psabi -shared -fPIC -o "$built.new" "$source"; then
        mv "$built.new" "$built"
        echo "$wanted" >"$built.source"
    else
        rm -f "$built.new"
        echo "dedupfs: $source could not be compiled: $without" >&2
    fi
done
if [ -n "$has_none" ]; then
    echo "There is no C compiler here: $without"
fi
