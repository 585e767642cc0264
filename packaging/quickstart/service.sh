# shellcheck shell=bash disable=SC2034,SC2154 # variables of quickstart.sh
# Sourced by quickstart.sh: the server process - its state file, start, stop and status.

# $dir/state holds what the last start made, as key=value lines; values are one line each.
read_state() {
    declare -gA state=()
    local key value
    [ -r "$dir/state" ] || return 1
    while IFS='=' read -r key value; do state[$key]=$value; done < "$dir/state"
}
write_state() {
    local key
    for key in "${!state[@]}"; do printf '%s=%s\n' "$key" "${state[$key]}"; done | sort > "$dir/state.new"
    mv "$dir/state.new" "$dir/state"
}

# A process number alone may be another process by now: its start time (ticks since boot) and the boot make it unique.
start_time_of() { sed 's/.*) //' "/proc/$1/stat" 2> /dev/null | cut -d ' ' -f 20; }
boot_id() { cat /proc/sys/kernel/random/boot_id; }
is_running() {
    [ -n "${state[pid]:-}" ] && [ "${state[boot_id]:-}" = "$(boot_id)" ] &&
        [ -n "${state[start_time]:-}" ] && [ "$(start_time_of "${state[pid]}")" = "${state[start_time]}" ] &&
        [ "$(sed 's/.*) //' "/proc/${state[pid]}/stat" | cut -c 1)" != Z ]
}

# -- ports

# Whether a TCP socket listens on the port, at any address.
is_taken() {
    local hex
    hex=$(printf '%04X' "$1")
    cat /proc/net/tcp /proc/net/tcp6 2> /dev/null | awk -v port=":$hex" '$4 == "0A" && $2 ~ port "$" {found = 1} END {exit !found}'
}
free_port() {
    local candidate
    for _ in {1..200}; do
        candidate=$((10000 + RANDOM % 20000))
        if ! is_taken $candidate && [[ " ${port[*]} " != *" $candidate "* ]]; then
            echo $candidate
            return
        fi
    done
    return 1
}
choose_ports() {
    local name free
    for name in nfs mount metrics; do
        is_taken "${port[$name]}" || continue
        [ -z "${insisted[$name]:-}" ] ||
            fail "port ${port[$name]} (--$name-port) is taken by another program" "stop that program, or name another port"
        free=$(free_port) || fail "no free port was found between 10000 and 30000"
        [ "$name" = metrics ] || note="${note:+$note; }${name^^} port ${port[$name]} is taken: using $free"
        port[$name]=$free
    done
    port[nlm]=$(free_port) || fail "no free port was found between 10000 and 30000"
}

# Registered with rpcbind only as the machine's NFS server, on the port where clients look: registration takes the place of
# any other server's. It goes through rpcbind's socket, which a container on the host's network does not see.
choose_rpcbind() {
    if [ "${port[nfs]}" = 2049 ] && [ -S /run/rpcbind.sock ] && "$probe" --only rpcbind --timeout 2 --count 1 > /dev/null 2>&1; then
        rpcbind=true
    else
        rpcbind=false
    fi
}

# -- configuration

rdma_devices() { ls /sys/class/infiniband 2> /dev/null || true; }
local_addresses() { { hostname -I 2> /dev/null || true; } | tr ' ' '\n' | sed '/^$/d'; }

render_config() {
    local protocols="3, 4" clients="*" graceless=true
    # Each client that holds state has a folder of its own below recovery/v4recov/NODE.
    [ -z "$(as_root find "$dir/recovery" -mindepth 3 -print -quit 2> /dev/null)" ] || graceless=false
    [ -z "$(rdma_devices)" ] || protocols="$protocols, NFSRDMA"
    # RDMA listens at every address, so "this machine only" is kept by the export's list of clients.
    case $listen in
        127.*) clients=$(printf '%s\n' 127.0.0.0/8 ::1 "$(local_addresses)" | sed '/^$/d' | paste -sd ,) ;;
    esac
    sed -e "s|@ORIGIN@|Made by packaging/quickstart.sh from conf/gateway.conf.in; written anew at each start.|" \
        -e "s|@PROTOCOLS@|$protocols|; s|@LISTEN@|$listen|; s|@NFS_PORT@|${port[nfs]}|; s|@MOUNT_PORT@|${port[mount]}|" \
        -e "s|@NLM_PORT@|${port[nlm]}|; s|@RDMA_PORT@|${port[rdma]}|; s|@METRICS@|127.0.0.1:${port[metrics]}|" \
        -e "s|@RPCBIND@|$rpcbind|; s|@GRACELESS@|$graceless|; s|@PLUGINS@|$dir/plugins|; s|@DIR@|$dir|; s|@EXPORT@|$export_dir|; s|@CLIENTS@|$clients|" \
        "$root/conf/gateway.conf.in"
}

# What is asked for and what would run: when it is the same as what runs, nothing is restarted.
wanted_key() {
    { echo "$listen $export_dir $prefix $(rdma_devices)"
      cat "$root/conf/gateway.conf.in" "$fsal"; } | sha256sum | cut -c 1-16
}

# The running server is what was asked for.
is_as_wanted() {
    local name
    [ "${state[key]:-}" = "$key" ] || return 1
    for name in "${!insisted[@]}"; do [ "${state[${name}_port]:-}" = "${port[$name]}" ] || return 1; done
}

# -- start

launch() {
    local pid
    rm -rf "$dir/plugins"
    mkdir -p "$dir/plugins" "$dir/recovery"
    cp "$fsal" "$dir/plugins/"                  # a copy: the next build may replace the file under the running server
    [ ! -e "$dir/log/ganesha.log" ] || as_root mv "$dir/log/ganesha.log" "$dir/log/ganesha.log.old"
    # shellcheck disable=SC2016 # expanded by the inner shell
    pid=$(as_root bash -c 'log=$1; shift; setsid "$@" < /dev/null >> "$log" 2>&1 9>&- & echo $!' launch \
        "$dir/log/console.log" "$prefix/bin/ganesha.nfsd" -F -x -L "$dir/log/ganesha.log" -f "$dir/ganesha.conf" \
        -p "$dir/ganesha.pid" -N NIV_EVENT)
    state=([pid]=$pid [start_time]=$(start_time_of "$pid") [boot_id]=$(boot_id) [key]=$key [listen]=$listen
        [nfs_port]=${port[nfs]} [mount_port]=${port[mount]} [nlm_port]=${port[nlm]} [metrics_port]=${port[metrics]}
        [rdma_port]=${port[rdma]} [rdma_devices]=$(rdma_devices | paste -sd ,) [rpcbind]=$rpcbind [export]=$export_dir
        [ganesha]=$prefix [probe]=$probe [image_mount]=${image_mount:-} [client_mount]='')
    write_state
}

probe_address() { case ${state[listen]} in 0.0.0.0) echo 127.0.0.1 ;; *) echo "${state[listen]}" ;; esac; }
# probe_gateway ARGS...: nfs-probe on the ports of the state file.
probe_gateway() {
    "${state[probe]}" "$(probe_address)" --nfs-port "${state[nfs_port]}" --mount-port "${state[mount_port]}" \
        --only nfs3,nfs4,mount,exports "$@"
}

server_log_tail() {
    printf '\n' >&2
    as_root tail -n 20 "$dir/log/ganesha.log" "$dir/log/console.log" >&2 2> /dev/null || true
}

# Ready when the export is listed: the listeners answer before the exports are there.
wait_until_ready() {
    local deadline=$((SECONDS + 60)) table
    until table=$(probe_gateway --count 1 --timeout 5 --wait 1 2>&1) && grep -q '^export   /export ' <<< "$table"; do
        is_running || { server_log_tail; fail "the gateway ended at its start" "see the log above ($dir/log/ganesha.log)"; }
        [ $SECONDS -lt $deadline ] ||
            { server_log_tail; fail "the gateway does not answer after 60 s: $table" "see the log above ($dir/log/ganesha.log)"; }
        sleep 0.1
    done
}

start_gateway() {
    key=$(wanted_key)
    if read_state && is_running; then
        if is_as_wanted; then
            note="runs already, process ${state[pid]}"
            wait_until_ready
            return
        fi
        note="what runs is of another build or configuration: restarted"
        [ -z "${state[client_mount]:-}" ] || unmount "${state[client_mount]}"
        end_process
    fi
    choose_ports
    choose_rpcbind
    render_config > "$dir/ganesha.conf"
    launch
    wait_until_ready
    note="${note:+$note; }process ${state[pid]}, port ${state[nfs_port]}"
}

# -- stop

end_process() {
    as_root kill -TERM "${state[pid]}" 2> /dev/null || true
    local i
    for ((i = 0; i < 300; i++)); do
        is_running || return 0
        sleep 0.1
    done
    echo "the gateway (process ${state[pid]}) did not end within 30 s of SIGTERM: killed" >&2
    as_root kill -KILL "${state[pid]}" 2> /dev/null || true
    while is_running; do sleep 0.1; done
}

unmount() {
    if mountpoint -q "$1"; then
        as_root umount "$1" || fail "$1 cannot be unmounted" "end what uses it (fuser -vm $1) and repeat"
    fi
}

stop_command() {
    if ! read_state; then echo "nothing was started from $dir"; return; fi
    make_dir
    need_root
    # The client first: a mount whose server is gone would wait for it.
    [ -z "${state[client_mount]:-}" ] || unmount "${state[client_mount]}"
    if is_running; then
        end_process
        echo "stopped process ${state[pid]}"
    else
        echo "not running"
    fi
    [ -z "${state[image_mount]:-}" ] || unmount "${state[image_mount]}"
    rm -f "$dir/state"
}

# -- status

status_command() {
    if ! read_state; then printf 'state=stopped\ndir=%s\n' "$dir"; return 1; fi
    local table code=1 now=dead health=failed
    if is_running; then
        now=running
        if table=$(probe_gateway --count 5 --timeout 5 2> /dev/null); then health=ok code=0; fi
    fi
    printf 'state=%s\nhealth=%s\n' $now $health
    awk '$1 ~ /^(nfs3|nfs4|mount|exports)$/ {answer = $3; if ($5 != "-") answer = answer " " $5 " ms"; print "probe_" $1 "=" answer}' <<< "${table:-}"
    printf '%s=%s\n' pid "${state[pid]}" listen "${state[listen]}" nfs_port "${state[nfs_port]}" \
        mount_port "${state[mount_port]}" rdma_port "$([ -z "${state[rdma_devices]}" ] || echo "${state[rdma_port]}")" \
        rdma_devices "${state[rdma_devices]}" rpcbind "${state[rpcbind]}" \
        metrics "http://127.0.0.1:${state[metrics_port]}/metrics" pseudo /export export "${state[export]}" \
        mounted_at "${state[client_mount]}" dir "$dir" config "$dir/ganesha.conf" log "$dir/log/ganesha.log" \
        ganesha "${state[ganesha]}"
    return $code
}
