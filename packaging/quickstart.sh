#!/usr/bin/env bash
# From a fresh Debian 12 to a running gateway: installs, builds, starts it on loopback, and proves it by a copy.
#
#   packaging/quickstart.sh [OPTIONS]     start; what is built and running already is used as it is
#   packaging/quickstart.sh --status      key=value lines; exit status 0 when it runs and answers, else 1
#   packaging/quickstart.sh --stop        stop the gateway and undo the mounts that the start made; files stay
#
#   --export DIR      export this directory (default: one of the quickstart's own)
#   --listen ADDRESS  serve at this address, to every host (default 127.0.0.1, to this machine only); 0.0.0.0: all
#   --nfs-port N      and --mount-port, --rdma-port, --metrics-port: TCP and RDMA ports (2049, 20048, 20049, 9587;
#                     where one of these is taken another one is used, a port that was asked for is insisted on)
#   --dir DIR         where state, logs and the exported files are (default /var/lib/fabric as root, else
#                     $XDG_STATE_HOME/fabric, ~/.local/state/fabric)
#
# The gateway needs root, for file handles and for its clients' identities; who is not root needs sudo.
# FABRIC_BUILD=DIR names the build folder (default build/ beside packaging/), FABRIC_DIR=DIR is like --dir.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=${FABRIC_BUILD:-$root/build}
# shellcheck source=packaging/quickstart/service.sh
. "$root/packaging/quickstart/service.sh"
# shellcheck source=packaging/quickstart/storage.sh
. "$root/packaging/quickstart/storage.sh"
# shellcheck source=packaging/quickstart/trial.sh
. "$root/packaging/quickstart/trial.sh"

usage() { sed -n '2,/^set -/{/^#/s/^# \{0,1\}//p}' "$root/packaging/quickstart.sh"; }

if [ "$(id -u)" = 0 ]; then dir=/var/lib/fabric; else dir=${XDG_STATE_HOME:-$HOME/.local/state}/fabric; fi
default_dir=$dir
dir=${FABRIC_DIR:-$dir}
action=start export_dir='' listen=127.0.0.1
declare -A port=([nfs]=2049 [mount]=20048 [rdma]=20049 [metrics]=9587) insisted=()
while [ $# -gt 0 ]; do
    case $1 in
        --stop) action=stop ;;
        --status) action=status ;;
        --help|-h) usage; exit 0 ;;
        --dir|--export|--listen|--nfs-port|--mount-port|--rdma-port|--metrics-port)
            [ $# -ge 2 ] || { echo "quickstart.sh: $1 needs a value" >&2; exit 2; }
            case $1 in
                --dir) dir=$(realpath -ms -- "$2") ;;
                --export) export_dir=$(realpath -ms -- "$2") ;;
                --listen) listen=$2 ;;
                *)  name=${1#--}; name=${name%-port}
                    [[ $2 =~ ^[0-9]{1,5}$ ]] && [ "$2" -ge 1 ] && [ "$2" -le 65535 ] ||
                        { echo "quickstart.sh: $1 $2: a port is a number from 1 to 65535" >&2; exit 2; }
                    port[$name]=$((10#$2)) insisted[$name]=yes ;;
            esac
            shift ;;
        *) echo "quickstart.sh: unknown option $1 (--help lists them)" >&2; exit 2 ;;
    esac
    shift
done
case $dir$export_dir in *[[:cntrl:]\"@\|\&\\]*) echo "quickstart.sh: a path with one of \" @ | & \\ or control characters does not fit into the configuration" >&2; exit 2 ;; esac

# -- progress

steps=7 step_number=0 step_started=0 step_name='' note=''
step() {
    step_done
    step_number=$((step_number + 1)) step_name=$1 step_started=$SECONDS
    printf '[%d/%d] %s ... ' "$step_number" "$steps" "$step_name"
}
step_done() {
    [ -z "$step_name" ] || printf '%s (%d s)\n' "${note:-done}" $((SECONDS - step_started))
    note='' step_name=''
}
# fail WHAT-HAPPENED WHAT-TO-DO...: ends the script.
fail() {
    [ -z "$step_name" ] || printf 'FAILED (%d s)\n' $((SECONDS - step_started))
    printf 'quickstart.sh: %s\n' "$1" >&2
    shift
    [ $# -eq 0 ] || printf 'What to do: %s\n' "$*" >&2
    exit 1
}
# logged LOG CMD...: output goes to LOG; its end is shown when the command fails.
logged() {
    local log=$1
    shift
    "$@" > "$log" 2>&1 < /dev/null || { local status=$?; printf '\n' >&2; tail -n 25 "$log" >&2; return $status; }
}

sudo=()
need_root() {
    [ "$(id -u)" != 0 ] || return 0
    command -v sudo > /dev/null && { sudo -n true 2> /dev/null || { [ -t 0 ] && sudo -v; }; } ||
        fail "the gateway needs root (file handles, its clients' identities) and sudo cannot be used here" \
            "run it as root: su -c '$root/packaging/quickstart.sh'"
    sudo=(sudo)
}
as_root() { "${sudo[@]}" "$@"; }

make_dir() {
    mkdir -p "$dir/log" 2> /dev/null || fail "the folder $dir cannot be made" "name another one with --dir"
    # It holds the exported files too, which other users of this machine may reach: everyone may pass, not list.
    chmod 711 "$dir"
    exec 9> "$dir/lock"
    flock -n 9 || fail "another quickstart.sh works in $dir" "wait for it, or name another folder with --dir"
}

# -- the steps

build_all() {
    step "packages"
    # Not logged: sudo may ask for a password.
    "$root/packaging/deps/install.sh" build run > "$dir/log/packages.log" 2>&1 || {
        printf '\n' >&2
        cat "$dir/log/packages.log" >&2
        fail "packages that are needed could not be installed" "see above"
    }
    [ ! -s "$dir/log/packages.log" ] || note="$(sed -n 's/^installing \([0-9]* packages\).*/\1 installed/p' "$dir/log/packages.log" | head -n 1)"

    step "Ganesha with RDMA"
    prefix=$("$root/packaging/ganesha/build.sh" 2> "$dir/log/ganesha-build.log" < /dev/null) || {
        printf '\n' >&2
        tail -n 25 "$dir/log/ganesha-build.log" >&2
        fail "Ganesha could not be built" "see above; GANESHA_SRC and NTIRPC_SRC name trees that you already have"
    }

    step "gateway and tools"
    local options=(-DFABRIC_GANESHA_PREFIX="$prefix")
    # A build folder that is there keeps its settings.
    [ -e "$build/CMakeCache.txt" ] || options+=(-G Ninja -DFABRIC_TESTS=OFF)
    logged "$dir/log/configure.log" cmake -S "$root" -B "$build" "${options[@]}" ||
        fail "cmake could not configure $build" "see above; where $build is of another configuration, remove it or set FABRIC_BUILD"
    logged "$dir/log/build.log" cmake --build "$build" --target fsalfabric export-check nfs-copy nfs-probe ||
        fail "the build failed" "see above; the log is $dir/log/build.log"
    fsal=$build/fsal_fabric/libfsalfabric.so
    probe=$build/packaging/probe/nfs-probe
    copy=$build/packaging/copy/nfs-copy
}

start() {
    make_dir
    need_root
    build_all
    step "directory to export"
    prepare_export
    step "start"
    start_gateway
    step "copy a dataset in and out through NFS"
    copy_through_nfs
    step "Linux NFS client"
    mount_here
    step_done
    explain_mounting
}

case $action in
    start) start ;;
    stop) stop_command ;;
    status) status_command ;;
esac
