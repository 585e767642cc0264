#!/usr/bin/env bash
# Puts the pinned Ganesha and ntirpc sources, with our patch series applied, into a folder.
#
#   fetch.sh DEST
#
# The archives come from the distribution's source suite through apt, are checked against sources.lock and kept
# in the cache folder ($FABRIC_CACHE, default ~/.cache/fabric). A user's own trees are taken instead when
# GANESHA_SRC (the tree that holds src/) and NTIRPC_SRC name them; patches are applied to copies of those too.
# FABRIC_NO_PATCHES=1 leaves the sources pristine (to see a test fail without its patch);
# FABRIC_SKIP_PATCH=NAME[,NAME] leaves single patches out, by the start of their file names.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${FABRIC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fabric}
suite=trixie

die() { echo "fetch.sh: $*" >&2; exit 1; }
[ $# -eq 1 ] || die "usage: fetch.sh DEST"
dest=$1
[ ! -e "$dest/ganesha" ] || die "$dest/ganesha is already there; remove it first"

# apt with a configuration of its own: the machine's own sources and lists stay as they are.
apt_dir=$cache/apt
own_apt() {
    apt-get -o "Dir::Etc::SourceList=$apt_dir/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o "Dir::State::Lists=$apt_dir/lists" -o "Dir::Cache=$apt_dir/cache" -o Acquire::Retries=3 -o APT::Sandbox::User=root "$@"
}

prepare_apt() {
    local uri
    uri=$(cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null |
        awk '/^URIs:/ {print $2; exit} $1 == "deb" {print ($2 ~ /^\[/) ? $3 : $2; exit}')
    [ -n "$uri" ] || die "no package source found in /etc/apt; set GANESHA_SRC and NTIRPC_SRC to trees of your own"
    mkdir -p "$apt_dir/lists/partial" "$apt_dir/cache/archives/partial"
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main" > "$apt_dir/sources.list"
    own_apt update -qq || die "apt-get update for suite $suite failed; check the network, or set GANESHA_SRC and NTIRPC_SRC"
}

apt_ready=no
# archive PACKAGE VERSION FILE SHA256: the file in the cache, its sum checked.
archive() {
    local package=$1 version=$2 file=$3 sum=$4 path=$cache/src/$3 uri
    mkdir -p "$cache/src"
    if ! echo "$sum  $path" | sha256sum --check --status 2>/dev/null; then
        [ $apt_ready = yes ] || { prepare_apt; apt_ready=yes; }
        # The .dsc of a package can be missing from a mirror while the archive is there: take the archive alone.
        uri=$(own_apt source --print-uris "$package=$version" | awk -F"'" -v f="/$file" 'index($2, f) {print $2}')
        [ -n "$uri" ] || die "apt knows no $file of $package $version in suite $suite"
        (cd "$cache/src" && rm -f "$file" && /usr/lib/apt/apt-helper -o Acquire::Retries=3 -o APT::Sandbox::User=root download-file "$uri" "$file" "SHA256:$sum" >&2) ||
            die "$file could not be downloaded with the pinned SHA-256 $sum"
        echo "$sum  $path" | sha256sum --check --status || die "$path does not have the pinned SHA-256 $sum"
    fi
    echo "$path"
}

mkdir -p "$dest"
while read -r package version file sum tree; do
    case $package in ''|'#'*) continue ;; esac
    mkdir -p "$dest/$tree"
    case $package in nfs-ganesha) own=${GANESHA_SRC:-} ;; ntirpc) own=${NTIRPC_SRC:-} ;; *) own= ;; esac
    if [ -n "$own" ]; then
        [ -d "$own" ] || die "$own (named by GANESHA_SRC or NTIRPC_SRC) is not a folder"
        cp -a "$own/." "$dest/$tree/"
    else
        path=$(archive "$package" "$version" "$file" "$sum")
        tar -xf "$path" -C "$dest/$tree" --strip-components=1
    fi
done < "$here/sources.lock"

[ "${FABRIC_NO_PATCHES:-0}" = 0 ] || exit 0
left_out=${FABRIC_SKIP_PATCH:-}
for patch in "$here"/patches/*.patch; do
    [ -e "$patch" ] || continue
    name=$(basename "$patch")
    skip=no
    for prefix in ${left_out//,/ }; do [[ $name != "$prefix"* ]] || skip=yes; done
    if [ $skip = yes ]; then echo "fetch.sh: left out: $name" >&2; continue; fi
    patch -d "$dest/ganesha" -p1 --forward --silent --no-backup-if-mismatch < "$patch" || die "patch $name does not apply"
done
