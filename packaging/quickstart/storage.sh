# shellcheck shell=bash disable=SC2034,SC2154 # variables of quickstart.sh
# Sourced by quickstart.sh: a directory to export that lies on a file system with file handles.

# Prints why the gateway would refuse the directory; nothing when it would serve it.
# shellcheck disable=SC2069 # stderr is what is wanted
handle_problem() { as_root "$build/packaging/check/export-check" "$1" 2>&1 > /dev/null || true; }

image_size=2G                                   # sparse: takes only what is written
# An ext4 image on a loop device, for machines whose file systems have no handles (the overlay root of a container).
mount_image() {
    local at=$1 image=$dir/export.ext4
    if [ ! -e "$image" ]; then
        truncate -s $image_size "$image.new"
        logged "$dir/log/mkfs.log" mkfs.ext4 -q -F "$image.new" || fail "no ext4 file system could be made in $image" "see above"
        mv "$image.new" "$image"
    fi
    logged "$dir/log/mount.log" as_root mount -o loop "$image" "$at" ||
        fail "$why; and an ext4 image cannot be mounted here" \
            "give the quickstart a directory on ext4 or XFS, with --export DIR or --dir DIR (in a container: a volume of the host), or run the container with --privileged"
    image_mount=$at
}

prepare_export() {
    local why own=$dir/export
    read_state || true
    if [ -n "$export_dir" ]; then
        [ -d "$export_dir" ] || fail "$export_dir is not a directory" "make it, or leave --export out"
        why=$(handle_problem "$export_dir")
        [ -z "$why" ] || fail "$export_dir cannot be exported: $why" \
            "name a directory on ext4 or XFS, or leave --export out: the quickstart then makes one"
        return
    fi
    export_dir=$own
    mkdir -p "$own"
    # A running gateway holds it mounted; after a restart of the machine the image is mounted again.
    if mountpoint -q "$own"; then image_mount=$own; fi
    if [ -e "$dir/export.ext4" ] && [ -z "${image_mount:-}" ]; then why="$own was an image before"; else why=$(handle_problem "$own"); fi
    if [ -n "$why" ]; then
        case $why in *CAP_DAC_READ_SEARCH*) fail "$why" \
            "this looks like a container without that right: run it with --privileged, or with --cap-add DAC_READ_SEARCH and a volume" ;;
        esac
        mount_image "$own"
        note="${why%%$'\n'*}: exporting an ext4 image ($dir/export.ext4)"
        why=$(handle_problem "$own")
        [ -z "$why" ] || fail "the image cannot be exported either: $why" "give a directory on ext4 or XFS with --export DIR"
    fi
    # Like /tmp: everybody may make files, also a client's root, who comes as nobody.
    as_root chmod 1777 "$own"
}
