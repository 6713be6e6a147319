#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Adds one of each kind of thing, as docs/extending.md describes it, to a copy of the library: each patch applies, edits
no more files than promised, and what they make together compiles, runs and gives the numbers of main.cpp.
With --documents alone: what docs/extending.md shows stands in the patches."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

# The most files that each kind may take, tests left out.
MOST = {"scalar": 3, "optimizer": 2, "primitive": 6, "family": 5, "rule": 4, "dtype": 4}
HERE = pathlib.Path(__file__).resolve().parent


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}")


def documents(root):
    """Every section of docs/extending.md that names a patch shows lines of that patch, and every patch has a section."""
    named = set()
    for section in re.split(r"^## ", (root / "docs" / "extending.md").read_text(), flags=re.M):
        title = section.splitlines()[0]
        names = re.findall(r"`tests/extending/(\w+)\.patch`", section)
        shown = [line for block in re.findall(r"^```diff\n(.+?)^```", section, flags=re.M | re.S)
                 for line in block.splitlines() if line[:1] in "+-"]
        if names or shown:
            if len(names) != 1 or names[0] not in MOST:
                sys.exit(f'docs/extending.md: "{title}" shows a change and has to name its one patch')
            named.add(names[0])
            text = (HERE / f"{names[0]}.patch").read_text()
            count = len(re.findall(r"^\+\+\+ ", text, flags=re.M))
            words = ["", "one file", "two files", "three files", "four files", "five files", "six files"]
            if not title.endswith(words[count]):
                sys.exit(f'docs/extending.md: "{title}" takes {words[count]}')
            patch = set(text.splitlines())
            for line in shown:
                if line not in patch:
                    sys.exit(f'docs/extending.md: "{title}" shows what is not in {names[0]}.patch:\n{line}')
    if named != set(MOST):
        sys.exit(f"docs/extending.md: no section names {', '.join(sorted(set(MOST) - named))}.patch")


def extended(root, tree):
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(root / "include", tree / "include")
    for name, most in MOST.items():
        patch = HERE / f"{name}.patch"
        files = re.findall(r"^\+\+\+ (\S+)", patch.read_text(), flags=re.M)
        if len(files) > most:
            sys.exit(f"{name}.patch edits {len(files)} files, and {most} are promised: {' '.join(files)}")
        run(["git", "apply", "-C1", "--ignore-whitespace", patch], cwd=tree, env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)})


def build(tree, compiler, flags, libraries):
    units = {"main": f'#include "{HERE}/main.cpp"\n'}
    for body in sorted((tree / "include").rglob("*.ipp")):
        name = body.relative_to(tree / "include")
        units[name.parent.name] = units.get(name.parent.name, "") + f"#include <{name}>\n"

    def compile_unit(name):
        unit = tree / f"{name}.cpp"
        unit.write_text(units[name])
        run([*compiler, "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", "-DMEGANEURA_HEADER_ONLY=0",
             f"-I{tree / 'include'}", *flags, "-c", unit, "-o", tree / f"{name}.o"])

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_unit, units))
    run([*compiler, *(tree / f"{name}.o" for name in units), "-o", tree / "main", *libraries])


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("root", type=pathlib.Path)
    options.add_argument("--documents", action="store_true")
    options.add_argument("--tree", type=pathlib.Path, help="where the copy is made")
    for name in ("--compiler", "--flags", "--libraries"):
        options.add_argument(name, type=shlex.split, default=[])
    chosen = options.parse_args()
    documents(chosen.root)
    if chosen.documents:
        return
    extended(chosen.root, chosen.tree)
    build(chosen.tree, chosen.compiler, chosen.flags, chosen.libraries)
    run([chosen.tree / "main"])


main()
