#!/usr/bin/python3
"""Runs one case file inside the guest: main.py CASE [--server fabric|vfs|knfsd] [--versions 3,4.2] [--protocols rdma,tcp] ..."""
import argparse
import importlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from guest.mounts import PROTOCOLS, VERSIONS        # noqa: E402
from guest.servers import KINDS                     # noqa: E402


def words(text):
    return [word for word in text.split(",") if word]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case", help="a file of tests/vm/cases, without .py")
    parser.add_argument("--server", choices=KINDS, default="fabric")
    parser.add_argument("--backing", choices=("ext4", "xfs"), default="ext4")
    parser.add_argument("--versions", type=words, default=list(VERSIONS), help="NFS versions, comma separated")
    parser.add_argument("--protocols", type=words, default=list(PROTOCOLS), help="rdma,tcp")
    parser.add_argument("--only", type=words, default=[], help="run the cases whose name contains one of these")
    parser.add_argument("--sections", type=words, default=[], help="of fileops")
    parser.add_argument("--long", action="store_true", help="the form for the label soak")
    parser.add_argument("--seed", type=int, default=1, help="of random operations")
    options = parser.parse_args()
    importlib.import_module(f"cases.{options.case}").run(options)


if __name__ == "__main__":
    main()
