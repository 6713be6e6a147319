#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compile-time budgets: what the front end costs a user, in seconds and in symbol length. Prints every figure.

Seconds depend on the machine, so the test fails at twice the budget only; the figure printed is what to look at.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


def seconds(command, runs):
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, check=True)
        best = min(best, time.perf_counter() - start)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--include", required=True, help="the folder of the headers")
    options = parser.parse_args()
    base = [options.compiler, "-std=c++20", "-I", options.include]
    with tempfile.TemporaryDirectory() as folder:
        alone, compiled = pathlib.Path(folder) / "frontend.cpp", pathlib.Path(folder) / "sketch.o"
        alone.write_text("#include <meganeura/frontend.hpp>\n")
        figures = [
            ("#include <meganeura/frontend.hpp>", "s", seconds([*base, "-fsyntax-only", str(alone)], 5), 0.15, 2),
            ("30-layer sketch", "s", seconds([*base, "-c", "-o", str(compiled), str(HERE / "sketch.cpp")], 3), 1.0, 2)]
        symbols = subprocess.run(["nm", str(compiled)], check=True, capture_output=True, text=True).stdout.splitlines()
        longest = max((len(line.split()[-1]) for line in symbols), default=0)
        figures.append(("longest symbol of the sketch", "characters", longest, 2000, 1))
    failed = False
    for name, unit, value, budget, slack in figures:
        verdict = "within" if value <= budget else "OVER"
        failed = failed or value > budget * slack
        print(f"{name}: {value:.3g} {unit}, {verdict} the budget of {budget} {unit}" if unit == "s"
              else f"{name}: {value} {unit}, {verdict} the budget of {budget} {unit}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
