#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""history.py on results that are written here: what it fails on, and what it does not."""

import json
import os
import subprocess
import sys
import tempfile

HISTORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "history.py")
failures = []


def result(tasks, device="llvmpipe", precision="exact", name="net", yardstick=10, kernel=None):
    entries = {task: {"wall_ms": {"median": ms}, "processor_ms": {"min": ms}} for task, ms in tasks.items()}
    return {"date": "2026-01-01", "device": device, "driver": "d", "size": "small", "precision": precision,
            "workloads": [{"name": name, "tasks": entries,
                           "yardstick_ms": {"hashing": yardstick, "kernel": kernel or yardstick}}]}


def main():
    with tempfile.TemporaryDirectory() as folder:
        def path(name, content):
            where = os.path.join(folder, name)
            with open(where, "w", encoding="utf-8") as file:
                file.write(content if isinstance(content, str) else json.dumps(content))
            return where

        baseline = os.path.join(folder, "baseline")
        for tasks in ({"a": 1, "b": 1}, {"a": 10, "b": 10}):  # the last line counts
            subprocess.run([sys.executable, HISTORY, "append", baseline, "--commit", "x", "--json",
                            path("result", result(tasks))], check=True)

        def expect(code, what, now, *options, base=baseline):
            program = "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[-1])"
            done = subprocess.run([sys.executable, HISTORY, "check", "--baseline", base, "--runs", "1", *options, "--",
                                   sys.executable, "-c", program, path("now", now)], capture_output=True, text=True,
                                  check=False)
            if done.returncode != code or "Traceback" in done.stderr:
                failures.append(f"{what}: {done.returncode} and not {code}\n{done.stdout}{done.stderr}")

        expect(0, "as quick", result({"a": 11, "b": 9}))
        expect(1, "twice as slow", result({"a": 20, "b": 20}))
        expect(1, "one task is gone and the other slow", result({"a": 15}))
        expect(0, "twice as slow at an unknown machine's speed", result({"a": 4, "b": 4}, yardstick=2))
        expect(1, "four times as slow there", result({"a": 9, "b": 9}, yardstick=2))
        fast = os.path.join(folder, "fast")  # a machine like that is known
        for tasks, yardstick in (({"a": 10, "b": 10}, 10), ({"a": 1, "b": 1}, 2)):
            subprocess.run([sys.executable, HISTORY, "append", fast, "--commit", "x", "--json",
                            path("result", result(tasks, yardstick=yardstick))], check=True)
        expect(0, "as quick as one alike", result({"a": 1, "b": 1}, yardstick=2), base=fast)
        expect(1, "slower than one alike", result({"a": 2, "b": 2}, yardstick=2), base=fast)
        expect(0, "slow as the kernel is", result({"a": 20, "b": 20}, kernel=14))
        expect(1, "slower than the kernel is", result({"a": 22, "b": 22}, kernel=14))
        expect(0, "slow as hashes are", result({"a": 20, "b": 20}, yardstick=14))
        old = path("old", {**json.loads(open(baseline, encoding="utf-8").readlines()[-1]), "yardstick": {"hashing": 10}})
        expect(0, "as quick as an old line", result({"a": 10, "b": 10}, kernel=1), base=old)
        expect(1, "slower than an old line", result({"a": 20, "b": 20}, kernel=1), base=old)
        expect(1, "no time", result({"a": float("nan"), "b": 1}))
        expect(1, "another precision", result({"a": 1, "b": 1}, precision="half"))
        expect(1, "another device", result({"a": 1, "b": 1}, device="H200"))
        expect(1, "nothing in common", result({"a": 1, "b": 1}, name="other"))
        expect(1, "a factor that is none", result({"a": 1, "b": 1}), "--factor", "nan")
        expect(1, "no run", result({"a": 1, "b": 1}), "--runs", "0")
        numbered = json.dumps({**json.loads(open(baseline, encoding="utf-8").readlines()[-1]), "yardstick": 10})
        for text in ("", "{}", "[]", "{", numbered):
            expect(1, f"the baseline {text!r}", result({"a": 1, "b": 1}), base=path("broken", text))
    print("\n".join(failures) or "history.py judges as it says")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
