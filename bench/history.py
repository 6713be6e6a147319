#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Figures of bench/inferena over time: kept a line a run, and held to a baseline.

  history.py append FILE --json RESULT [--commit ID]    adds RESULT's figures to FILE, a JSON object a line
  history.py check --baseline FILE [--runs 4] -- COMMAND...
                                                        runs bench/inferena; fails where a workload became 1.5 times as
                                                        slow as in FILE, some such lines

Times of a software device scatter on a busy machine. So a workload is judged by the processor time of all its tasks
together, the least of their rounds, a software device's threads included; in units of `yardstick_ms`, processor time of
what never changes, hashes on the host and a kernel on the device, each the least of those beside the workloads; and what
fails is run again, of which the least counts. What one side alone has is said and is no failure. A machine may be slower
at one yardstick than at the other: the one counts by which a workload looks better. Yardsticks do not make processors
alike whose caches and memory differ: of the lines the one counts whose machine was about as fast at both (the last of
equals), and where none was within 1.5 times of this one twice as much is let pass.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as problem:
        sys.exit(f"history: {path} cannot be read as JSON: {problem}")


def lines_of(path):
    """All that `append` wrote."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(each) for each in file if each.strip()]
    except (OSError, ValueError) as problem:
        sys.exit(f"history: {path} has a line that is no JSON: {problem}")
    if not lines:
        sys.exit(f"history: {path} has no line")
    for line in lines:
        missing = [key for key in ("device", "size", "precision", "yardstick", "figures") if key not in line] \
            if isinstance(line, dict) else ["anything"]
        if missing:
            sys.exit(f"history: {path} is no file of this program's: a line lacks {', '.join(missing)}")
        if not isinstance(line["yardstick"], dict) or "hashing" not in line["yardstick"]:
            sys.exit(f"history: {path} is no file of this program's: a line's yardstick has no `hashing`")
    return lines


def speeds(line, now):
    """How many times as fast the machine is now, by each yardstick that both have (the oldest lines have no kernel)."""
    return [line["yardstick"][name] / ms for name, ms in now["yardstick"].items() if name in line["yardstick"]]


def distance(line, now):
    """How much faster one machine was than the other, whichever it was."""
    return max(max(speed, 1 / speed) for speed in speeds(line, now))


def line_of(result, commit):
    """What is kept of what bench/inferena wrote; in milliseconds."""
    figures = {}
    for workload in result["workloads"]:
        times = {task: entry for task, entry in workload["tasks"].items() if "wall_ms" in entry}
        if times:
            figures[workload["name"]] = {
                "processor": round(sum(entry["processor_ms"]["min"] for entry in times.values()), 3),
                **{task: round(entry["wall_ms"]["median"], 3) for task, entry in times.items()}}
    if not figures:
        sys.exit("history: the result has no times; run bench/inferena without --no-timing")
    return {"commit": commit, "date": result["date"], "device": result["device"], "driver": result["driver"],
            "size": result["size"], "precision": result["precision"],
            "yardstick": {name: round(min(each["yardstick_ms"][name] for each in result["workloads"]), 3)
                          for name in ("hashing", "kernel")}, "figures": figures}


def append(options):
    commit = options.commit
    if commit is None:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                                check=False).stdout.strip() or "unknown"
    with open(options.file, "a", encoding="utf-8") as file:
        file.write(json.dumps(line_of(read(options.json), commit)) + "\n")


def measured(command):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result.json")
        if subprocess.run([*command, "--json", path], check=False).returncode != 0:
            sys.exit("history: the benchmark failed")
        return line_of(read(path), "now")


def check(options):
    if not (math.isfinite(options.factor) and options.factor > 0 and options.runs >= 1):
        sys.exit(f"history: a factor of {options.factor} and {options.runs} runs were asked for; take a positive number "
                 "and at least one run")
    lines = lines_of(options.baseline)
    least = {}
    for run in range(options.runs):
        now = measured(options.command)
        baseline = min(reversed(lines), key=lambda line: distance(line, now))
        factor = options.factor * (2 if distance(baseline, now) > 1.5 else 1)
        kinds = [("llvmpipe" in each["device"], each["size"], each["precision"]) for each in (baseline, now)]
        if kinds[0] != kinds[1]:
            sys.exit(f"history: the baseline is of {baseline['device']}, {baseline['size']}, {baseline['precision']}, "
                     f"and the run of {now['device']}, {now['size']}, {now['precision']}; compare alike")
        if not baseline["figures"].keys() & now["figures"].keys():
            sys.exit("history: the baseline and the run have no workload in common")
        ratios = {}
        for name in sorted(baseline["figures"].keys() | now["figures"].keys()):
            if name not in baseline["figures"] or name not in now["figures"]:
                print(f"history: {name} is {'new' if name in now['figures'] else 'missing'}; it is not compared")
                continue
            if baseline["figures"][name].keys() != now["figures"][name].keys():
                sys.exit(f"history: {name} has other tasks than in the baseline; record one that has them")
            ratio = now["figures"][name]["processor"] / baseline["figures"][name]["processor"]
            ratio *= min(speeds(baseline, now))
            least[name] = ratios[name] = min(ratio, least.get(name, ratio))
        print("history: times the baseline: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))
        slow = [name for name, ratio in ratios.items() if not ratio <= factor]
        if not slow:
            return 0
        print(f"history: run {run + 1} of {options.runs}: {', '.join(slow)} took more than {factor} times the "
              "baseline's processor time at this machine's speed")
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    adding = commands.add_parser("append", help="add a run to a file")
    adding.add_argument("file")
    adding.add_argument("--json", required=True)
    adding.add_argument("--commit")
    adding.set_defaults(run=append)
    checking = commands.add_parser("check", help="run and compare with a baseline")
    checking.add_argument("--baseline", required=True)
    checking.add_argument("--factor", type=float, default=1.5)
    checking.add_argument("--runs", type=int, default=4)
    checking.add_argument("command", nargs="+")
    checking.set_defaults(run=check)
    options = parser.parse_args()
    sys.exit(options.run(options))


if __name__ == "__main__":
    main()
