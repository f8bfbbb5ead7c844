#!/bin/sh
# Compiles into .venv what is there in C beside Python, where there is a compiler (CC names another one). Everything
# works without: it only takes longer. Does nothing, quickly, when that was done before.
set -eu
cd "$(dirname "$0")/.."
compiler=${CC:-cc}

# What Python does instead of the C of $1.
without() {
    case $1 in
    */blake3_many.c) echo "small files are hashed one by one, so scanning them takes a little longer" ;;
    */unit_pages.c) echo "SQLite itself writes what a scan hands over, so scanning takes a little longer" ;;
    *) echo "small files are read by Python, so scanning and acting take a little longer" ;;
    esac
}

# Two builds may run at once, and a program may load what is there: so each writes files of its own, and moves them.
own=.venv/native/new-$$
trap 'rm -f "$own".*' EXIT
has_none=
mkdir -p .venv/native
for source in libraries/blake3_many.c libraries/small_files.c libraries/unit_pages.c trash/small_pairs.c; do
    built=.venv/native/$(basename "$source" .c).so
    wanted=$(cksum <"$source")
    if [ -e "$built" ] && [ "$(cat "$built.source" 2>/dev/null)" = "$wanted" ]; then
        continue
    fi
    # CC may hold arguments, as in "ccache gcc".
    if ! command -v "${compiler%% *}" >/dev/null 2>&1; then
        has_none=yes
    elif $compiler -O3 -Wno-psabi -shared -fPIC -o "$own.so" "$source"; then
        mv "$own.so" "$built"
        echo "$wanted" >"$own.source"
        mv "$own.source" "$built.source"
        continue
    else
        echo "dedupfs: $source could not be compiled: $(without "$source")" >&2
    fi
    # What was compiled from an older source.
    rm -f "$built" "$built.source"
done
if [ -n "$has_none" ]; then
    echo "There is no C compiler here: $(without small_files.c)"
fi
