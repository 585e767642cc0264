#!/usr/bin/env bash
# Installs what is missing, builds everything (warnings are errors) and runs the tests through CTest.
#
#   tests/run.sh [unit|host|vm|open|soak|all]... [CTEST ARGS...]
#
#   unit   programs that need no server, the checks of the sources, and the same unit tests under ASan+UBSan and TSan
#   host   the gateway on loopback, driven by user-space clients
#   vm     the Linux NFS client and soft-RoCE in a virtual machine
#   open   what the gateway does not pass yet, or was not seen to pass: each is a fault to mend, README.md lists them
#   soak   what takes long: fuzzing, kill loops, mount cycles in full length
#   all    unit, host, vm and soak; without a name: unit, host and vm
#
# Everything after the names goes to ctest: tests/run.sh unit -R result -V
# The last line is "N passed, N failed, N skipped"; the exit status is 0 only when something ran and nothing failed.
#
# Environment:
#   FABRIC_BUILD=DIR        build folder (default build-test beside tests/); logs and JUnit files in DIR/results
#   FABRIC_NO_INSTALL=1     do not look for missing packages
#   FABRIC_SANITIZERS=0     leave the sanitizer builds out
#   FABRIC_TIME_LIMIT=SEC   stop after so long; what has not run by then counts as failed
#   FABRIC_JOBS=N           parallel compilers and tests (default: the number of processors)
#   FABRIC_TRIES=N          run a test that needs a server up to N times until it passes (default 1); each such pass is named
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=${FABRIC_BUILD:-$root/build-test}
jobs=${FABRIC_JOBS:-$(nproc)}
started=$(date +%s)
limit=${FABRIC_TIME_LIMIT:-0}

die() { echo "run.sh: $*" >&2; exit 1; }
say() { printf '\n== %s (%d s)\n' "$*" $(($(date +%s) - started)); }
# within CMD...: runs it for no longer than what is left of the time limit.
within() {
    [ "$limit" != 0 ] || { "$@"; return; }
    local left=$((started + limit - $(date +%s)))
    [ $left -gt 0 ] || die "the time limit of $limit s is over before: $*"
    timeout --kill-after=20 "$left" "$@" || {
        local status=$?
        [ $status != 124 ] || die "the time limit of $limit s ended: $*"
        return $status
    }
}

# Compiled objects are shared between checkouts, wherever they lie.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

labels=()
while [ $# -gt 0 ]; do
    case $1 in
        unit|host|vm|open|soak) labels+=("$1") ;;
        all) labels+=(unit host vm soak) ;;
        -h|--help) sed -n '2,/^set -/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
        -*) break ;;
        *) die "unknown part \"$1\"; parts are unit, host, vm, open, soak, all" ;;
    esac
    shift
done
[ ${#labels[@]} -gt 0 ] || labels=(unit host vm)
has() { [[ " ${labels[*]} " == *" $1 "* ]]; }

if [ "${FABRIC_NO_INSTALL:-0}" = 0 ]; then
    say "packages"
    lists=(build run test)
    if has vm || has open || has soak; then lists+=(vm); fi
    within "$root/packaging/deps/install.sh" "${lists[@]}"
fi

say "Ganesha"
prefix=$(within "$root/packaging/ganesha/build.sh")
echo "$prefix"

# configure DIR CMAKE-ARGS...
configure() {
    local dir=$1
    shift
    mkdir -p "$dir"
    cmake -S "$root" -B "$dir" -G Ninja -DFABRIC_WERROR=ON -DFABRIC_GANESHA_PREFIX="$prefix" "$@" > "$dir/configure.log" 2>&1 ||
        { cat "$dir/configure.log" >&2; die "cmake could not configure $dir"; }
}
results=$build/results
rm -rf "$results"

say "build"
configure "$build" -DCMAKE_BUILD_TYPE=Release
mkdir -p "$results"
within cmake --build "$build" -j "$jobs"
# Public headers are self-contained: each is compiled alone.
within cmake --build "$build" -j "$jobs" --target all_verify_interface_header_sets

# test_stage NAME BUILD-DIR LABEL PARALLEL CTEST-ARGS...: one ctest run; its counts are read from its JUnit file.
test_stage() {
    local name=$1 dir=$2 label=$3 parallel=$4
    shift 4
    local selection=(-L "^$label\$")
    [ "$label" = soak ] || selection+=(-LE '^soak$')
    say "tests: $name"
    local stop=() repeat=()
    if [ "$label" != unit ] && [ "${FABRIC_TRIES:-1}" != 1 ]; then repeat=(--repeat "until-pass:$FABRIC_TRIES"); fi
    [ "$limit" = 0 ] || stop=(--stop-time "$(date -d "@$((started + limit))" '+%H:%M:%S')")
    ctest --test-dir "$dir" "${selection[@]}" "$@" -N > "$results/$name.list" 2>&1 ||
        { cat "$results/$name.list" >&2; die "ctest cannot list the tests of $name"; }
    ctest --test-dir "$dir" "${selection[@]}" "${stop[@]}" "${repeat[@]}" -j "$parallel" --timeout 900 --no-tests=ignore --output-on-failure \
        --test-output-size-passed 65536 --test-output-size-failed 1048576 --test-output-truncation head \
        --output-junit "$results/$name.xml" --output-log "$results/$name.log" "$@" < /dev/null || true
}

for label in "${labels[@]}"; do
    parallel=$jobs
    case $label in
        host|vm) parallel=$((jobs + 1)) ;;  # they wait as much as they work
        open|soak) parallel=1 ;;
    esac
    test_stage "$label" "$build" "$label" "$parallel" "$@"
done

# sanitized NAME FLAGS COMPILER COMPILER++ CTEST-ARGS...: the unit tests once more, in a build of their own.
sanitized() {
    local name=$1 flags=$2 dir=$build/$1
    say "build with $flags"
    # Sanitized code sets off warnings of g++ that the code itself does not; the main build has seen those.
    # -O1 compiles in two thirds of the time of -O2 and keeps stacks readable.
    configure "$dir" -DCMAKE_C_COMPILER="$3" -DCMAKE_CXX_COMPILER="$4" -DCMAKE_BUILD_TYPE=None -DFABRIC_SANITIZE="$flags" \
        -DCMAKE_C_FLAGS="-O1 -g1" -DCMAKE_CXX_FLAGS="-O1 -g1" -DFABRIC_WERROR=OFF
    within cmake --build "$dir" -j "$jobs" --target fabric_unit_tests
    test_stage "$name" "$dir" unit "$jobs" "${@:5}"
}
if has unit && [ "${FABRIC_SANITIZERS:-1}" != 0 ]; then
    export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}
    export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1:suppressions=$root/tests/tsan.supp}
    # clang compiles in two thirds of g++'s time; g++'s TSan knows the frames of libraries that are not built with it.
    sanitized asan address,undefined clang clang++ "$@"
    sanitized tsan thread gcc g++ "$@"
fi

say "results in $results"
exec python3 "$root/tests/results.py" "$results"
