#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks docs/guide.md: every section names its program in examples/guide/, every program has a section, every block of
C++ stands in its section's program, line for line, and every loss of a trainer is in a row with its options."""
import pathlib
import re
import sys


def problems(root):
    programs = {path.name: path.read_text() for path in (root / "examples" / "guide").glob("*.cpp")}
    head, *sections = re.split(r"^## ", (root / "docs" / "guide.md").read_text(), flags=re.M)
    named = set()
    for section in sections:
        title = section.splitlines()[0]
        if f"[{title}]" not in head:
            yield f"docs/guide.md: \"{title}\" is not in the list at the top"
        names = re.findall(r"`examples/guide/([\w.]+)`", section)
        if not names or names[0] not in programs:
            yield f"docs/guide.md: \"{title}\" names no program of examples/guide/"
            continue
        named.add(names[0])
        for block in re.findall(r"^```cpp\n(.+?)^```", section, flags=re.M | re.S):
            if block not in programs[names[0]]:
                yield f"docs/guide.md: \"{title}\" shows what does not stand in {names[0]}:\n{block}"
    for name in sorted(set(programs) - named):
        yield f"examples/guide/{name}: no section of docs/guide.md names it"
    rows = re.findall(r"^\|.*\|$", "".join(sections), flags=re.M)
    for header in sorted((root / "include" / "meganeura" / "nn").glob("*.hpp")):
        for options, name in re.findall(r"^template <fixed_string \w+(?:, (\w+) Options.*)?>\nstruct (\w+)\s*: loss<",
                                        header.read_text(), flags=re.M):
            if not any(f"`{name}`" in row and (not options or f"`{options}`" in row) for row in rows):
                yield f"docs/guide.md: no row has the loss `{name}` of {header.name}{options and f' with `{options}`'}"


found = list(problems(pathlib.Path(sys.argv[1])))
print("\n".join(found) or "the guide shows what runs")
sys.exit(1 if found else 0)
