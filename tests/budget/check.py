#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compile-time budgets: what the front end and the whole library cost a user, in seconds and in symbol length.

Seconds are those of processor time, least of some runs, on a machine that reads a few standard headers in REFERENCE
seconds; a slower one is given more in proportion. Prints every figure.
"""
import argparse
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
REFERENCE = 0.5
STANDARD = ["algorithm", "functional", "map", "memory", "regex", "string", "unordered_map", "vector"]


def seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--include", required=True, help="the folder of the headers")
    options = parser.parse_args()
    front_end = [options.compiler, "-std=c++20", "-I", options.include]
    library = [*front_end, "-DMEGANEURA_HEADER_ONLY=0"]
    with tempfile.TemporaryDirectory() as folder:
        def file(name, text):
            path = pathlib.Path(folder) / name
            path.write_text(text)
            return str(path)

        sketch = str(pathlib.Path(folder) / "sketch.o")
        program = re.search(r"^```cpp\n(.+?)^```", (HERE.parent.parent / "README.md").read_text(), re.M | re.S).group(1)
        standard = file("standard.cpp", "".join(f"#include <{name}>\n" for name in STANDARD))
        reference = [options.compiler, "-std=c++20", "-fsyntax-only", standard]
        commands = [  # name, budget, command
            ("#include <meganeura/frontend.hpp>", 0.1,
             [*front_end, "-fsyntax-only", file("frontend.cpp", "#include <meganeura/frontend.hpp>\n")]),
            ("30-layer sketch", 0.8, [*front_end, "-c", "-o", sketch, str(HERE / "sketch.cpp")]),
            ("#include <meganeura/meganeura.hpp>, compiled apart", 2.0,
             [*library, "-fsyntax-only", file("all.cpp", "#include <meganeura/meganeura.hpp>\n")]),
            ("the program of README.md at -O2, compiled apart", 4.0,
             [*library, "-O2", "-c", "-o", "/dev/null", file("readme.cpp", program)])]
        figures = []  # with what the standard headers took in the same moments
        for name, budget, command in commands:
            machine, runs = [], []
            for i in range(40 if budget < 0.5 else 6):  # short ones scatter more: the least of 12 by a fourth
                if i % 2 == 0:
                    machine.append(seconds(reference))
                runs.append(seconds(command))
            figures.append((name, budget, min(runs), min(machine)))
        symbols = subprocess.run(["nm", sketch], check=True, capture_output=True, text=True).stdout.splitlines()
    longest = max((len(line.split()[-1]) for line in symbols), default=0)
    failed = longest > 2000
    print(f"longest symbol of the sketch: {longest} characters of 2000")
    for name, budget, value, machine in figures:
        allowed = budget * max(1.0, machine / REFERENCE)
        failed = failed or value > allowed
        print(f"{name}: {value:.3g} s, {'OVER' if value > allowed else 'within'} the budget of {budget} s, "
              f"which is {allowed:.3g} s where the standard headers take {machine:.3g} s instead of {REFERENCE}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
