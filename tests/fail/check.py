#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check.py FILE COMPILER FLAGS...: a compile-fail test.

FILE compiles as it is, so that it cannot fail for another reason, and for each n that has a line `// expect n: <regular
expression>` (`// expect: ..` is n = 1), compiled with -DMEGANEURA_EXPECT_FAILURE=n, gives exactly one error, of a
static_assert or the preprocessor, in under 3 kB of output, or as many bytes as a line `// bytes: ..` says, for compilers
write out the types of all operands. The output matches every expression of n; this tree's path is none of the bytes.
"""
import collections
import pathlib
import re
import subprocess
import sys

SENTENCE = r"static assertion failed|static_assert failed|error: #error|error: \"meganeura|fatal error: '?meganeura"
ROOT = f"{pathlib.Path(__file__).resolve().parent.parent.parent}/"


def main():
    file, *command = sys.argv[1:]
    source = pathlib.Path(file).read_text()
    expected = collections.defaultdict(list)
    for number, pattern in re.findall(r"^\s*// expect ?(\d*): (.+?)\s*$", source, re.M):
        expected[int(number or 1)].append(pattern)
    most = int(next(iter(re.findall(r"^// bytes: (\d+)$", source, re.M)), 3000))
    if not expected:
        return "there is no `// expect: ...` line"
    good = subprocess.run([*command, file], capture_output=True, text=True)
    if good.returncode:
        return f"does not compile without -DMEGANEURA_EXPECT_FAILURE\n{good.stderr[:8000]}"
    for number, patterns in sorted(expected.items()):
        if problem := failing(file, command, number, patterns, most):
            return f"mistake {number}: {problem}"
    return None


def failing(file, command, number, patterns, most):
    bad = subprocess.run([*command, f"-DMEGANEURA_EXPECT_FAILURE={number}", file], capture_output=True, text=True)
    text = (bad.stdout + bad.stderr).replace(ROOT, "")
    print(f"{len(text.encode())} bytes\n{text[:8000]}")
    if bad.returncode == 0:
        return f"compiles with -DMEGANEURA_EXPECT_FAILURE={number}"
    if len(text.encode()) > most:
        return f"the error takes {len(text.encode())} bytes, more than {most}"
    errors = [line for line in text.splitlines() if re.search(r"\berror:", line)]
    if len(errors) != 1 or not re.search(SENTENCE, errors[0]):
        return f"expected one error, of a static_assert or the preprocessor; found {len(errors)}"
    for pattern in patterns:
        if not re.search(pattern, text):
            return f"nothing matches '{pattern}'"
    return None


if __name__ == "__main__":
    problem = main()
    sys.exit(f"{sys.argv[1]}: {problem}" if problem else 0)
