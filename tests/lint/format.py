#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that clang-format 14 would change nothing; exits with 77 where another one, or none, is installed."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

FOLDERS = ["bench", "examples", "include", "tests"]
GENERATED = "include/meganeura/embedded/"


def main():
    root = pathlib.Path(sys.argv[1])
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool else ""
    if not re.search(r"version 14\.", version):
        print("clang-format 14 is not installed: other versions break lines elsewhere")
        return 77
    paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.[hic]pp"))]
    names = [path.relative_to(root).as_posix() for path in paths]
    names = [name for name in names if not name.startswith(GENERATED)]

    # Not --dry-run: version 14 reports every `}  // namespace a::inline B` there, which it then leaves as it is.
    def differing(some):
        made = subprocess.run([tool, *some], cwd=root, capture_output=True, check=True).stdout
        if made == b"".join((root / name).read_bytes() for name in some):
            return []
        half = len(some) // 2
        return differing(some[:half]) + differing(some[half:]) if half else some

    parts = [names[first:first + 64] for first in range(0, len(names), 64)]  # a process for each takes thrice as long
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [name for some in pool.map(differing, parts) for name in some]
    print("\n".join(f"{name}: clang-format -i changes it" for name in problems) or f"{len(names)} files are formatted")
    return 1 if problems else 0


sys.exit(main())
