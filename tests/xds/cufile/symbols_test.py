#!/usr/bin/env python3
"""symbols_test.py LIBRARY DOCUMENTED [CUFILE_H]: the library exports the documented functions and nothing else, without
symbol versions (a program linked against NVIDIA's finds them all the same), under NVIDIA's name. Where NVIDIA's own
header is, each function that it declares has to be there too."""
import re
import subprocess
import sys


def exported(library):
    """Names with their versions, if any."""
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in lines.splitlines()}


def declared(header):
    with open(header, encoding="utf-8", errors="replace") as file:
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", file.read(), flags=re.DOTALL)
    return set(re.findall(r"\b(cuFile[A-Za-z0-9_]+)\s*\(", text)) | set(
        re.findall(r"#define\s+cuFile\w+\s+(cuFile\w+)", text))


def main():
    library, documented = sys.argv[1:3]
    with open(documented, encoding="utf-8") as file:
        wanted = {line.strip() for line in file if line.strip() and not line.startswith("#")}
    found = exported(library)
    problems = [f"not exported: {name}" for name in sorted(wanted - found)]
    problems += [f"exported, but not documented: {name}" for name in sorted(found - wanted)]
    header = sys.argv[3] if len(sys.argv) > 3 else ""
    if header:
        problems += [f"declared by {header}, but not exported: {name}" for name in sorted(declared(header) - found)]
    else:
        print("SKIPPED cufile.h: NVIDIA's header is not on this machine; compared with the list of its reference alone")
    name = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    if "Library soname: [libcufile.so.0]" not in name:
        problems.append("its soname is not libcufile.so.0")
    print("\n".join(problems) or f"{len(found)} functions")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
