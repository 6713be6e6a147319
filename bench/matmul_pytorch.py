#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The PyTorch side of bench/matmul: the same products as captured CUDA graphs, in f32, TF32, f16 and bf16."""
import argparse
import itertools
import json
import re

import torch

from captured_graph import microseconds


def parse(text):
    """m, n, k and how a and b lie ("nt", "nn", "tn", "tt" as BLAS has them), of bench/matmul's --sizes."""
    found = re.fullmatch(r"(\d+)(?:x(\d+)x(\d+))?(?::([nt]{2}))?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"size '{text}': expected one like 512, 64x128x784 or 64x128x784:tn")
    m, n, k = (int(found[i] or found[1]) for i in (1, 2, 3))
    return m, n, k, found[4] or "nt"


def operands_of(m, n, k, lie, copies, device):
    """a [m, k] and `copies` of b [k, n], views of memory that lies as asked."""
    a = torch.randn((k, m) if lie[0] == "t" else (m, k), device=device)
    b = torch.randn((n, k) if lie[1] == "t" else (k, n), device=device)
    bs = [b.clone() for _ in range(copies)]
    return (a.t() if lie[0] == "t" else a), [x.t() if lie[1] == "t" else x for x in bs]


def product(a, bs):
    """A step: the product with the next copy of b."""
    out, turns = torch.matmul(a, bs[0]), itertools.cycle(bs)
    return lambda: torch.matmul(a, next(turns), out=out)


def measure(size, args, device):
    m, n, k, lie = size
    copies = max(1, -(-args.cold // (4 * n * k)))
    a, bs = operands_of(m, n, k, lie, copies, device)
    exact = a.double() @ bs[0].double()
    rows = []
    for name, dtype, tf32 in (("f32", torch.float32, False), ("TF32", torch.float32, True),
                              ("f16", torch.float16, False), ("bf16", torch.bfloat16, False)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        x, ys = a.to(dtype), [b.to(dtype) for b in bs]
        error = ((x @ ys[0]).double() - exact).norm() / exact.norm()
        us = microseconds(product(x, ys), args.runs, args.rounds)
        rows.append({"family": name, "median_ms": 1e-3 * us, "tflops": 2e-6 * m * n * k / us, "error": error.item()})
    return {"m": m, "n": n, "k": k, "operands": lie, "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=parse, default=[parse(x) for x in ("64x128x784", "512", "1024")],
                        help="as those of bench/matmul, e.g. 512 64x128x784:tn")
    parser.add_argument("--runs", type=int, default=20, help="products in a chain")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cold", type=int, default=0, help="bytes over which copies of b are read in turn")
    parser.add_argument("--json", default="-", help="file to write, or - for standard output")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("PyTorch finds no CUDA device here; its products are compared on one only")
    torch.manual_seed(1)
    report = {"framework": "pytorch " + torch.__version__, "device": torch.cuda.get_device_name(),
              "sizes": [measure(size, args, "cuda") for size in args.sizes]}
    text = json.dumps(report, indent=1)
    print(text) if args.json == "-" else open(args.json, "w").write(text + "\n")


if __name__ == "__main__":
    main()
