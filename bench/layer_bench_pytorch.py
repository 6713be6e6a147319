#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The PyTorch side of bench/conv and bench/norm: layers and their gradients as captured CUDA graphs, channels-last."""
import argparse
import json

import torch
from torch.nn import functional

from captured_graph import microseconds

# name, batch, size, channels in and out, kernel, stride, groups: those of bench/conv.
CONVOLUTIONS = [("7x7 3->64 @224 s2", 4, 224, 3, 64, 7, 2, 1), ("1x1 64 @56", 4, 56, 64, 64, 1, 1, 1),
                ("1x1 64->256 @56", 4, 56, 64, 256, 1, 1, 1), ("1x1 256->64 @56", 4, 56, 256, 64, 1, 1, 1),
                ("3x3 64 @56", 4, 56, 64, 64, 3, 1, 1), ("3x3 128 @28", 4, 28, 128, 128, 3, 1, 1),
                ("3x3 256 @14", 4, 14, 256, 256, 3, 1, 1), ("3x3 512 @7", 4, 7, 512, 512, 3, 1, 1),
                ("3x3 128 @56 s2", 4, 56, 128, 128, 3, 2, 1), ("1x1 256->512 @56 s2", 4, 56, 256, 512, 1, 2, 1),
                ("U-Net 3x3 64 @32", 2, 32, 64, 64, 3, 1, 1), ("U-Net 3x3 128 @16", 2, 16, 128, 128, 3, 1, 1),
                ("U-Net 3x3 256 @8", 2, 8, 256, 256, 3, 1, 1), ("SD 3x3 320 @64", 1, 64, 320, 320, 3, 1, 1),
                ("SD 3x3 640 @32", 1, 32, 640, 640, 3, 1, 1), ("SD 3x3 1280 @16", 1, 16, 1280, 1280, 3, 1, 1),
                ("SD 3x3 1280 @8", 1, 8, 1280, 1280, 3, 1, 1), ("SD 3x3 2560->1280 @8", 1, 8, 2560, 1280, 3, 1, 1),
                ("SD 1x1 320 @64", 1, 64, 320, 320, 1, 1, 1), ("SD 1x1 1280 @16", 1, 16, 1280, 1280, 1, 1, 1),
                ("depthwise 3x3 256 @28", 4, 28, 256, 256, 3, 1, 256),
                ("3x3 128 @28 of 32 groups", 4, 28, 128, 128, 3, 1, 32)]
# name, kind, batch, positions, channels, groups, whether SiLU follows: those of bench/norm.
NORMS = [("group norm, SiLU 320x64x64", "group", 1, 4096, 320, 32, True),
         ("group norm, SiLU 640x32x32", "group", 1, 1024, 640, 32, True),
         ("group norm, SiLU 1280x8x8", "group", 1, 64, 1280, 32, True),
         ("group norm, SiLU 2x64x32x32", "group", 2, 1024, 64, 8, True),
         ("batch norm 4x64x56x56", "batch", 4, 3136, 64, 1, False),
         ("batch norm 4x256x56x56", "batch", 4, 3136, 256, 1, False),
         ("batch norm 4x512x7x7", "batch", 4, 49, 512, 1, False),
         ("layer norm 1500x384", "layer", 1, 1500, 384, 1, False),
         ("layer norm 4096x320", "layer", 1, 4096, 320, 1, False), ("RMS norm 128x576", "rms", 1, 128, 576, 1, False),
         ("RMS norm 2048x4096", "rms", 1, 2048, 4096, 1, False)]


def convolution_steps(shape, dtype):
    """By pass and what comes behind the column's name: the step."""
    _, batch, size, channels, out, kernel, stride, groups = shape

    def tensor(*extents):
        return torch.randn(*extents, device="cuda", dtype=dtype).to(memory_format=torch.channels_last)

    x, w = tensor(batch, channels, size, size), tensor(out, channels // groups, kernel, kernel)
    b = torch.randn(out, device="cuda", dtype=dtype)
    pad = kernel // 2
    dy = torch.randn_like(functional.conv2d(x, w, None, stride, pad, 1, groups))

    def gradient(mask):
        return lambda: torch.ops.aten.convolution_backward(dy, x, w, None, [stride] * 2, [pad] * 2, [1, 1], False,
                                                           [0, 0], groups, mask)

    return {("forward", ""): lambda: functional.conv2d(x, w, None, stride, pad, 1, groups),
            ("forward", " + bias, ReLU"): lambda: functional.conv2d(x, w, b, stride, pad, 1, groups).relu_(),
            ("dx", ""): gradient([True, False, False]), ("dfilter", ""): gradient([False, True, False])}


def norm_steps(shape, dtype):
    _, kind, batch, positions, channels, groups, silu = shape
    weight, bias = (torch.randn(channels, device="cuda", dtype=dtype).requires_grad_() for _ in range(2))
    x = torch.randn(batch, positions, channels, device="cuda", dtype=dtype)
    if kind in ("group", "batch"):
        side = round(positions**0.5)
        x = x.view(batch, side, -1, channels).permute(0, 3, 1, 2)  # channels-last
    x = x.detach().requires_grad_()
    dy = torch.randn_like(x)

    def forward():
        if kind == "group":
            y = functional.group_norm(x, groups, weight, bias)
        elif kind == "batch":
            y = functional.batch_norm(x, None, None, weight, bias, training=True)
        elif kind == "layer":
            y = functional.layer_norm(x, (channels,), weight, bias)
        else:
            y = functional.rms_norm(x, (channels,), weight, 1e-5)
        return functional.silu(y) if silu else y

    def inference():
        with torch.no_grad():
            return forward()

    wrt = [x, weight] + ([bias] if kind != "rms" else [])
    # PyTorch's gradients need what its forward pass keeps; that is part of the step, as it is of bench/norm's.
    return {("forward", ""): inference, ("gradients", ""): lambda: torch.autograd.grad(forward(), wrt, dy)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["conv", "norm"])
    parser.add_argument("--runs", type=int, default=10, help="steps in a graph")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", default="-", help="file to write, or - for standard output")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("PyTorch finds no CUDA device here; its layers are compared on one only")
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    report = {"framework": "pytorch " + torch.__version__, "device": torch.cuda.get_device_name(), "shapes": {}}
    columns = []
    for shape in CONVOLUTIONS if args.what == "conv" else NORMS:
        for name, dtype, tf32 in (("f32", torch.float32, False), ("TF32", torch.float32, True),
                                  ("bf16", torch.bfloat16, False)):
            torch.backends.cudnn.allow_tf32 = tf32
            if args.what == "norm" and tf32:
                continue
            steps = convolution_steps(shape, dtype) if args.what == "conv" else norm_steps(shape, dtype)
            for (which, more), step in steps.items():
                if name + more not in columns:
                    columns.append(name + more)
                us = microseconds(step, args.runs, args.rounds)
                report["shapes"].setdefault(shape[0], {}).setdefault(which, {})[name + more] = us
    report["columns"] = columns
    text = json.dumps(report, indent=1)
    print(text) if args.json == "-" else open(args.json, "w").write(text + "\n")


if __name__ == "__main__":
    main()
