#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The PyTorch side of bench/attention: scaled_dot_product_attention and its gradients as captured CUDA graphs."""
import argparse
import json

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from captured_graph import microseconds

# name, queries, keys, heads, heads of keys, width, causal: those of bench/attention. The few queries of the last three
# are the last ones, which see (almost) all keys; is_causal would take them for the first.
SHAPES = [("smollm2", 128, 128, 9, 3, 64, True), ("smolvla", 50, 50, 15, 5, 64, False),
          ("whisper", 1500, 1500, 6, 6, 64, False), ("sd15", 4096, 4096, 8, 8, 40, False),
          ("sd15 cross", 4096, 77, 8, 8, 40, False), ("sd15 inner", 1024, 1024, 8, 8, 80, False),
          ("sd15 deep", 256, 256, 8, 8, 160, False), ("wide", 512, 512, 16, 16, 128, True),
          ("wider", 512, 512, 8, 4, 256, True), ("long", 2048, 2048, 16, 4, 64, True),
          ("window", 2048, 2048, 16, 4, 64, True),
          ("decode", 1, 4096, 32, 8, 128, False), ("decode small", 1, 1024, 9, 3, 64, False),
          ("chunk", 16, 4096, 32, 8, 128, False)]
WINDOWS = {"window": 256}  # sliding_window, which PyTorch has as a mask
COLUMNS = [("f32 efficient", torch.float32, SDPBackend.EFFICIENT_ATTENTION, False),
           ("f32 math", torch.float32, SDPBackend.MATH, False), ("TF32 math", torch.float32, SDPBackend.MATH, True),
           ("f16 flash", torch.float16, SDPBackend.FLASH_ATTENTION, False),
           ("bf16 flash", torch.bfloat16, SDPBackend.FLASH_ATTENTION, False)]


def measure(shape, dtype, backend, tf32, args):
    name, queries, keys, heads, kv_heads, width, causal = shape
    torch.backends.cuda.matmul.allow_tf32 = tf32

    def leaf(rows, count):
        # [1, heads, rows, width], in memory [rows, heads, width]
        return torch.randn(1, rows, count, width, device="cuda", dtype=dtype).transpose(1, 2)

    q, dy = leaf(queries, heads), leaf(queries, heads)
    # Heads of keys are repeated beforehand, in favour of kernels that know no groups.
    k, v = leaf(keys, heads if kv_heads != heads else kv_heads), leaf(keys, heads if kv_heads != heads else kv_heads)
    seen = {"is_causal": causal}
    if name in WINDOWS:
        mask = torch.ones(queries, keys, device="cuda", dtype=torch.bool).tril()
        seen = {"attn_mask": mask & ~mask.tril(-WINDOWS[name])}
    operands = [x.detach().requires_grad_() for x in (q, k, v)]

    def forward():
        with torch.no_grad():
            return scaled_dot_product_attention(*operands, **seen)

    def both():
        y = scaled_dot_product_attention(*operands, **seen)
        return torch.autograd.grad(y, operands, dy)

    with sdpa_kernel(backend):
        return {"forward": microseconds(forward, args.runs, args.rounds),
                "forward + backward": microseconds(both, args.runs, args.rounds)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="steps in a graph")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", default="-", help="file to write, or - for standard output")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("PyTorch finds no CUDA device here; its attention is compared on one only")
    torch.manual_seed(1)
    report = {"framework": "pytorch " + torch.__version__, "device": torch.cuda.get_device_name(),
              "columns": [name for name, *_ in COLUMNS], "shapes": {}}
    for shape in SHAPES:
        for name, dtype, backend, tf32 in COLUMNS:
            try:
                found = measure(shape, dtype, backend, tf32, args)
            except RuntimeError as error:
                print(f"{shape[0]}, {name}: {error}")
                continue
            for which, us in found.items():
                report["shapes"].setdefault(shape[0], {}).setdefault(which, {})[name] = us
    text = json.dumps(report, indent=1)
    print(text) if args.json == "-" else open(args.json, "w").write(text + "\n")


if __name__ == "__main__":
    main()
