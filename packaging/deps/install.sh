#!/usr/bin/env bash
# Installs the Debian packages of the named lists (files NAME.txt beside this script), only those that are missing.
#
#   install.sh LIST...        e.g. install.sh build run
#
# Nothing is done, and neither network nor root is needed, when all are there. Who is not root needs sudo; where sudo
# cannot be used, the command to run by hand is printed and the exit status is 3.
# Daemons that come with a package of the lists "test" and "vm" are not started: tests start their own.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || { echo "usage: install.sh LIST...   (lists: $(cd "$here" && ls ./*.txt | sed 's|^\./||; s|\.txt$||' | tr '\n' ' '))" >&2; exit 2; }

wanted=()
quiet_daemons=no
for list in "$@"; do
    [ -r "$here/$list.txt" ] || { echo "install.sh: no list $here/$list.txt" >&2; exit 2; }
    mapfile -t -O "${#wanted[@]}" wanted < <(sed 's/#.*//' "$here/$list.txt" | tr -s ' \t' '\n' | sed '/^$/d')
    case $list in test|vm) quiet_daemons=yes ;; esac
done
command -v dpkg-query > /dev/null ||
    { echo "install.sh: this is not a Debian system (no dpkg-query); install the like of: ${wanted[*]}" >&2; exit 3; }

installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p')
mapfile -t missing < <(printf '%s\n' "${wanted[@]}" | sort -u | grep -vxF -f <(printf '%s\n' "$installed") || true)
[ ${#missing[@]} -gt 0 ] || exit 0
echo "installing ${#missing[@]} packages: ${missing[*]}"

root=()
if [ "$(id -u)" != 0 ]; then
    if command -v sudo > /dev/null && { sudo -n true 2> /dev/null || [ -t 0 ]; }; then
        root=(sudo)
    else
        echo "install.sh: packages are missing and this is not root; run this as root, then start again:" >&2
        echo "    apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
        exit 3
    fi
fi

log=$(mktemp)
policy=/usr/sbin/policy-rc.d
made_policy=no
cleanup() {
    rm -f "$log"
    [ $made_policy = no ] || "${root[@]}" rm -f $policy
}
trap cleanup EXIT
# Debian's way to say "install, but start nothing": this file, with status 101. One that is there already is respected.
if [ $quiet_daemons = yes ] && [ ! -e $policy ]; then
    made_policy=yes
    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee $policy > /dev/null
    "${root[@]}" chmod 755 $policy
fi

apt() {
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -q "$@" < /dev/null
}
fail() {
    tail -n 15 "$log" >&2
    echo "install.sh: $1" >&2
    exit 1
}
# The lists on a machine can be missing or too old for the mirror: fetch them when an installation without does not work.
apt install -y --no-install-recommends "${missing[@]}" > "$log" 2>&1 || {
    apt update > "$log" 2>&1 || fail "apt-get update failed (above): check the network and /etc/apt/sources.list"
    apt install -y --no-install-recommends "${missing[@]}" > "$log" 2>&1 ||
        fail "apt-get install failed (above); this project is built on Debian 12 (bookworm), main component"
}
