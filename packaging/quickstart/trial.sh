# shellcheck shell=bash disable=SC2034,SC2154 # variables of quickstart.sh
# Sourced by quickstart.sh: the proof that it works, and how to go on from there.

dataset_name=quickstart-dataset

# 64 small files of odd sizes in 8 folders, one empty, and one of 16 MiB.
make_dataset() {
    local at=$1 i
    [ ! -e "$at/.complete" ] || return 0
    rm -rf "$at"
    for i in {0..7}; do mkdir -p "$at/tree/part-$i"; done
    for i in {0..63}; do head -c $((i * i * 17 + i % 5)) /dev/urandom > "$at/tree/part-$((i % 8))/sample-$i"; done
    head -c 16777216 /dev/urandom > "$at/tree/large"
    touch "$at/.complete"
}
hashes() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }

# A directory of the user's own: the copy is made as its owner, and nothing of it stays. Fails when no client may write there,
# because only root may enter it and a client's root is nobody.
become_owner() {
    local mode owner group
    read -r mode owner group < <(as_root stat -c '%a %u %g' "${state[export]}")
    if [ "$owner" = 0 ] && [ $((8#$mode & 1)) = 0 ]; then return 1; fi
    [ "$owner" = 0 ] || url="$url&uid=$owner&gid=$group"
    as_root install -d -m 1777 "${state[export]}/$dataset_name"
}

# Over version 3 in, over version 4 out; compared with the source and with what lies in the exported directory.
copy_through_nfs() {
    local source=$dir/dataset back=$dir/dataset-back url
    url="nfs://$(probe_address)/export?nfsport=${state[nfs_port]}&mountport=${state[mount_port]}"
    make_dataset "$source"
    rm -rf "$back"
    if [ "${state[export]}" != "$dir/export" ] && ! become_owner; then
        note="not tried: only root may enter ${state[export]}, and a client's root is squashed"
        return
    fi
    logged "$dir/log/copy.log" "$copy" put "$url&version=3" "$source/tree" "/$dataset_name" ||
        { server_log_tail; fail "copying into the gateway failed" "see above; the gateway's log is $dir/log/ganesha.log"; }
    note="$(cut -d ' ' -f 1-4 "$dir/log/copy.log" | tail -n 1)"
    logged "$dir/log/copy.log" "$copy" get "$url&version=4" "/$dataset_name" "$back" ||
        { server_log_tail; fail "copying out of the gateway failed" "see above; the gateway's log is $dir/log/ganesha.log"; }
    hashes "$source/tree" > "$dir/dataset.sha256"
    hashes "$back" | cmp -s - "$dir/dataset.sha256" ||
        fail "what was read through NFS differs from what was written" "please report this; both trees are kept: $source/tree, $back"
    (cd "${state[export]}/$dataset_name" && as_root sha256sum --check --quiet --strict "$dir/dataset.sha256") > "$dir/log/compare.log" 2>&1 ||
        { cat "$dir/log/compare.log" >&2; fail "the files in ${state[export]}/$dataset_name differ from what was written" "please report this"; }
    rm -rf "$back"
    if [ "${state[export]}" != "$dir/export" ]; then as_root rm -rf "${state[export]:?}/$dataset_name"; fi
    note="$note, every byte the same"
}

kernel_has_nfs() {
    grep -qw nfs4 /proc/filesystems && return 0
    as_root modprobe nfsv4 2> /dev/null && grep -qw nfs4 /proc/filesystems
}
mount_here() {
    local at=$dir/mnt
    if ! kernel_has_nfs; then
        note="this kernel has none: mount from a machine that has"
        return
    fi
    mkdir -p "$at" 2> /dev/null || true
    if ! mountpoint -q "$at"; then
        logged "$dir/log/client-mount.log" as_root timeout 60 mount -t nfs4 -o "vers=4.2,proto=tcp,port=${state[nfs_port]},soft,timeo=100" \
            "$(probe_address):/export" "$at" || fail "the kernel's NFS client cannot mount the gateway" "see above and $dir/log/ganesha.log"
        state[client_mount]=$at
        write_state
    fi
    if [ "${state[export]}" = "$dir/export" ]; then
        (cd "$at/$dataset_name" && sha256sum --check --quiet --strict "$dir/dataset.sha256") > "$dir/log/compare.log" 2>&1 ||
            { cat "$dir/log/compare.log" >&2; fail "the files read through $at differ from what was written" "please report this"; }
        note="mounted at $at, files compared"
    else
        note="mounted at $at"
    fi
}

explain_mounting() {
    local host
    case ${state[listen]} in
        127.*) host=127.0.0.1 ;;
        0.0.0.0) host=$(local_addresses | head -n 1); host=${host:-$(hostname)} ;;
        *) host=${state[listen]} ;;
    esac
    local v3="vers=3,proto=tcp,port=${state[nfs_port]},mountport=${state[mount_port]},mountproto=tcp"
    [ "${state[rpcbind]}" = true ] || v3=$v3,nolock
    cat <<END

The gateway runs and exports ${state[export]} as /export.
Mount it from Linux, as root:
  TCP      mount -t nfs -o vers=4.2,proto=tcp,port=${state[nfs_port]} $host:/export /mnt
  TCP, v3  mount -t nfs -o $v3 $host:/export /mnt
END
    if [ -n "${state[rdma_devices]}" ]; then
        local address
        address=$(local_addresses | head -n 1)
        echo "  RDMA     mount -t nfs -o vers=4.2,proto=rdma,port=${state[rdma_port]} ${address:-RDMA-ADDRESS}:/export /mnt"
    else
        echo "  RDMA     this machine has no RDMA device, so the gateway does not listen there; on one that has:"
        echo "           mount -t nfs -o vers=4.2,proto=rdma,port=${state[rdma_port]} HOST:/export /mnt"
    fi
    case ${state[listen]} in 127.*)
        echo "Only this machine may mount it. For all hosts: packaging/quickstart.sh --listen 0.0.0.0" ;;
    esac
    local own=
    [ "$dir" = "$default_dir" ] || own=" --dir $dir"
    echo "See what it does: packaging/quickstart.sh$own --status      Stop it: packaging/quickstart.sh$own --stop"
}
