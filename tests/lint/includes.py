#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that a folder includes only the folders left of it, that a header whose functions throw declares `error`, and
that Eigen is named in tests/ and bench/ alone."""
import pathlib
import re
import sys

# Folder -> the folders it stands on directly; what those may include, it may include too.
STANDS_ON = {
    "core": [], "embedded": ["core"],
    "graph": ["core"], "expr": ["graph"], "ops": ["expr"], "nn": ["ops"], "models": ["nn"],
    "autodiff": ["graph"], "egraph": ["graph"], "fusion": ["egraph"], "plan": ["fusion"],
    "spirv": ["core"], "kernels": ["plan", "spirv", "graph", "embedded"], "vulkan": ["spirv", "io", "core"],
    "io": ["core"], "data": ["io"],
    "runtime": ["models", "autodiff", "kernels", "vulkan", "data", "io"],
}
TOP = {"version.hpp", "config.hpp"}   # may be included from anywhere
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def allowed(folder):
    found, open_list = {folder}, [folder]
    while open_list:
        new = [f for f in STANDS_ON[open_list.pop()] if f not in found]
        found.update(new)
        open_list += new
    return found


def check_library(root):
    base = root / "include" / "meganeura"
    for path in sorted(base.rglob("*.[hi]pp")):
        where = path.relative_to(root)
        folder = path.relative_to(base).parts[0] if path.parent != base else None
        if folder and folder not in STANDS_ON:
            yield f"{where}: folder '{folder}' has no place in the table of tests/lint/includes.py; add it"
            continue
        for kind, name in INCLUDE.findall(path.read_text()):
            if kind == '"':
                yield f'{where}: includes "{name}"; write <meganeura/...>'
            parts = name.split("/")
            if parts[0] != "meganeura" or folder is None or parts[1] in TOP:
                continue
            if parts[1] not in allowed(folder):
                yield f"{where}: includes <{name}>; {folder}/ may include {', '.join(sorted(allowed(folder)))} only"


def check_errors(root):
    """With the compiled library a header stands alone; the front end's errors are static_asserts."""
    base, known = root / "include", {}

    def reached(name):
        if name not in known:
            known[name] = {name}
            text = re.sub(r"#if MEGANEURA_HEADER_ONLY.*?#endif", "", (base / name).read_text(), flags=re.S)
            known[name].update(*[reached(other) for _, other in INCLUDE.findall(text) if other.startswith("meganeura/")])
        return known[name]

    front_end = reached("meganeura/operations.hpp")
    for path in sorted(base.rglob("*.hpp")):
        name, body = str(path.relative_to(base)), path.with_suffix(".ipp")
        text = path.read_text() + (body.read_text() if body.exists() else "")
        throws = re.search(r"errors:|\bfail\(|\bthrow\b", text)
        if throws and name not in front_end and "meganeura/core/error.hpp" not in reached(name):
            yield f"{path.relative_to(root)}: its functions throw and it does not include <meganeura/core/error.hpp>"


def check_eigen(root):
    for top in ("include", "examples", "shaders"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in {".hpp", ".ipp", ".cpp", ".comp"} and re.search(r"\bEigen\b", path.read_text()):
                yield f"{path.relative_to(root)}: names Eigen; only tests/ and bench/ may"


def main():
    root = pathlib.Path(sys.argv[1])
    problems = [*check_library(root), *check_errors(root), *check_eigen(root)]
    print("\n".join(problems) or "the folder order holds")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
