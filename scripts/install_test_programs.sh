#!/bin/sh
# The programs beside Python that the tests start: PostgreSQL's server, Redis, Chromium, a C compiler.
# Installs Debian's packages where it is root and they are missing; otherwise says what to install.
set -eu

missing=""
command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
command -v redis-server >/dev/null 2>&1 || missing="$missing redis-server"
command -v chromium >/dev/null 2>&1 || missing="$missing chromium"
command -v cc >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing for the tests:$missing"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086  a list of package names
    apt-get install -qq -y --no-install-recommends $missing >/dev/null
    sh scripts/build_native.sh
else
    echo "dedupfs: the tests need:$missing (on Debian: sudo apt-get install$missing)" >&2
    exit 2
fi
