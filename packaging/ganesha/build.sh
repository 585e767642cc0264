#!/usr/bin/env bash
# Builds Ganesha with RDMA and our patches into a private prefix, and prints the prefix.
#
#   build.sh [--force]
#
# The prefix is keyed by what goes in (archives, patches, build options, compiler), so a second call is instant and an
# edited patch is never mistaken for the old build: $FABRIC_CACHE/ganesha/KEY. Under it: bin/, lib/, include/ (the headers an
# FSAL is compiled against) and src/ (the patched sources). See fetch.sh for GANESHA_SRC, NTIRPC_SRC and FABRIC_SKIP_PATCH.
# FABRIC_SANITIZE=address,undefined builds with those sanitizers; the FSAL must be built with them too.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${FABRIC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fabric}
die() { echo "build.sh: $*" >&2; exit 1; }

tree_key() { [ -z "$1" ] || (cd "$1" && find . -type f -not -path './.git/*' -print0 | sort -z | xargs -0 sha256sum); }
key=$({ cat "$here/sources.lock" "$here/build.sh" "$here"/patches/*.patch 2>/dev/null || true
        echo "${FABRIC_NO_PATCHES:-0} ${FABRIC_SKIP_PATCH:-} ${FABRIC_SANITIZE:-}"; cc -dumpfullversion; uname -m
        tree_key "${GANESHA_SRC:-}"; tree_key "${NTIRPC_SRC:-}"; } | sha256sum | cut -c1-16)
prefix=$cache/ganesha/$key

[ "${1:-}" != --force ] || rm -rf "$prefix"
if [ -e "$prefix/.complete" ]; then echo "$prefix"; exit 0; fi

mkdir -p "$cache/ganesha"
exec 9> "$cache/ganesha/$key.lock"
flock 9                                             # two test runs may start at once
if [ -e "$prefix/.complete" ]; then echo "$prefix"; exit 0; fi
rm -rf "$prefix"
mkdir -p "$prefix"
log=$prefix/build.log
trap 'echo "build.sh: the build failed; the log is $log; its end:" >&2; tail -n 30 "$log" >&2' ERR

"$here/fetch.sh" "$prefix/src" > "$log"
flags="-O2 -g -fno-omit-frame-pointer"
[ -z "${FABRIC_SANITIZE:-}" ] || flags="-O1 -g -fno-omit-frame-pointer -fsanitize=$FABRIC_SANITIZE"
allocator=()
if [[ ${FABRIC_SANITIZE:-} == *address* ]]; then    # its malloc, and one copy of each symbol: no RTLD_DEEPBIND
    flags+=" -DSANITIZE_ADDRESS"
    allocator=(-DALLOCATOR=libc)
fi
{
    launcher=; ! command -v ccache > /dev/null || launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache
    export CCACHE_BASEDIR=$prefix CCACHE_NOHASHDIR=1
    cmake $launcher -S "$prefix/src/ganesha/src" -B "$prefix/build" -G Ninja -DCMAKE_BUILD_TYPE=None \
        -DCMAKE_C_FLAGS="$flags -DNDEBUG" -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
        -DCMAKE_INSTALL_RPATH='$ORIGIN/../lib;$ORIGIN;$ORIGIN/..' -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON \
        -DUSE_NFS_RDMA=ON -DUSE_SYSTEM_NTIRPC=OFF -DUSE_MONITORING=OFF -DUSE_9P=OFF -DUSE_DBUS=OFF -DUSE_GSS=OFF \
        -DUSE_FSAL_VFS=ON -DUSE_FSAL_MEM=ON -DUSE_FSAL_CEPH=OFF -DUSE_FSAL_RGW=OFF -DUSE_FSAL_GLUSTER=OFF \
        -DUSE_FSAL_GPFS=OFF -DUSE_FSAL_PROXY_V3=OFF -DUSE_FSAL_PROXY_V4=OFF -DUSE_FSAL_XFS=OFF -DUSE_FSAL_LUSTRE=OFF \
        -DUSE_FSAL_KVSFS=OFF -DUSE_FSAL_LIZARDFS=OFF -DUSE_FSAL_SAUNAFS=OFF -DUSE_ADMIN_TOOLS=OFF -DUSE_GUI_ADMIN_TOOLS=OFF \
        -DUSE_MAN_PAGE=OFF -D_MSPAC_SUPPORT=OFF "${allocator[@]}"
    cmake --build "$prefix/build"
    cmake --install "$prefix/build"
} >> "$log" 2>&1
touch "$prefix/.complete"
echo "$prefix"
