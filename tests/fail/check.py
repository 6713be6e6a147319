#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check.py FILE COMPILER FLAGS...: a compile-fail test.

FILE compiles as it is, so that it cannot fail for another reason, and with -DMEGANEURA_EXPECT_FAILURE gives exactly one
error, of a static_assert or the preprocessor, whose text matches every `// expect: <regular expression>` line of FILE,
in under 8 kB of output.
"""
import pathlib
import re
import subprocess
import sys

SENTENCE = r"static assertion failed|static_assert failed|error: #error|error: \"meganeura|fatal error: '?meganeura"


def main():
    file, *command = sys.argv[1:]
    expected = re.findall(r"^\s*// expect: (.+?)\s*$", pathlib.Path(file).read_text(), re.M)
    if not expected:
        return "there is no `// expect: ...` line"
    good = subprocess.run([*command, file], capture_output=True, text=True)
    if good.returncode:
        return f"does not compile without -DMEGANEURA_EXPECT_FAILURE\n{good.stderr[:8000]}"
    bad = subprocess.run([*command, "-DMEGANEURA_EXPECT_FAILURE", file], capture_output=True, text=True)
    text = bad.stdout + bad.stderr
    print(f"{len(text.encode())} bytes\n{text[:8000]}")
    if bad.returncode == 0:
        return "compiles with -DMEGANEURA_EXPECT_FAILURE"
    if len(text.encode()) > 8000:
        return f"the error takes {len(text.encode())} bytes, more than 8000"
    errors = [line for line in text.splitlines() if re.search(r"\berror:", line)]
    if len(errors) != 1 or not re.search(SENTENCE, errors[0]):
        return f"expected one error, of a static_assert or the preprocessor; found {len(errors)}"
    for pattern in expected:
        if not re.search(pattern, text):
            return f"nothing matches '{pattern}'"
    return None


if __name__ == "__main__":
    problem = main()
    sys.exit(f"{sys.argv[1]}: {problem}" if problem else 0)
