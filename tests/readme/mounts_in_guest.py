"""In the virtual machine: starts the quickstart for all hosts, then types each mount command of README.md, and the line for
/etc/fstab, with the address of the RDMA card for GATEWAY. Each mount must be of the version and the transport that the
command names, and show the quickstart's dataset byte for byte."""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tests/host"), str(ROOT / "tests/lib")]
import test_readme  # noqa: E402

ADDRESS = os.environ.get("VM_ADDRESS", "10.0.2.15")
STATE = "/dev/shm/fabric"
ENVIRONMENT = {**os.environ, "FABRIC_DIR": STATE}


def run(command):
    print(f"$ {command}", flush=True)
    output = []
    # Shown as it comes: when the machine's time limit ends this, the last line tells where.
    with subprocess.Popen(["bash", "-c", command], cwd=ROOT, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            output.append(line)
    if process.returncode:
        sys.exit(f"exit status {process.returncode}: {command}")
    return "".join(output)


def mounted_options(path):
    with open("/proc/mounts") as mounts:
        lines = [line.split() for line in mounts if line.split()[1] == path]
    if not lines:
        sys.exit(f"nothing is mounted at {path}")
    return lines[-1][3]


def check_mount(asked):
    """`asked` is the text of the options in README.md."""
    options = mounted_options("/mnt")
    wanted = re.search(r"vers=([\d.]+),proto=(\w+)", asked).groups()
    got = (re.search(r"vers=([\d.]+)", options).group(1), re.search(r"\bproto=(\w+)", options).group(1))
    if got != wanted:
        sys.exit(f"asked for {wanted}, the mount is {got}: {options}")
    run(f"cd /mnt/quickstart-dataset && sha256sum --check --quiet --strict {STATE}/dataset.sha256")
    run("echo written > /mnt/from-a-client && sync -f /mnt/from-a-client && umount /mnt")


def main():
    os.makedirs(STATE)
    output = run("./packaging/quickstart.sh --listen 0.0.0.0")
    if "mounted at" not in output:
        sys.exit("the quickstart did not mount, although this kernel has an NFS client")
    state = dict(line.split("=", 1) for line in run("./packaging/quickstart.sh --status").splitlines())
    if (state["nfs_port"], state["mount_port"], state["rdma_port"]) != ("2049", "20048", "20049"):
        sys.exit(f"not the ports of README.md: {state}")
    run("umount " + state["mounted_at"])
    printed = re.findall(r"^  (?:TCP|TCP, v3|RDMA) +(mount .*)$", output, re.MULTILINE)
    if len(printed) != 3:
        sys.exit("the quickstart did not print three ways to mount")
    for line in printed:
        run(line)
        check_mount(line)
    lines = [line for line in test_readme.commands() if line.startswith("mount ")]
    for line in lines:
        run(line.replace("GATEWAY", ADDRESS))
        check_mount(line)
    fstab = re.search(r"^GATEWAY:/export +/mnt .*$", test_readme.README.read_text(), re.MULTILINE).group(0)
    with open("/etc/fstab", "a") as table:
        table.write(fstab.replace("GATEWAY", ADDRESS) + "\n")
    run("mount /mnt")
    check_mount(fstab)
    run("./packaging/quickstart.sh --stop")
    print(f"{len(printed)} commands of the quickstart, {len(lines)} of README.md and its line for /etc/fstab work")


if __name__ == "__main__":
    main()
