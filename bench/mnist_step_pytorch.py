#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The PyTorch side of bench/mnist_step: the same MLP, loss and Adam, timed eagerly and as a captured CUDA graph."""
import argparse
import json
import statistics
import time

import torch
from torch import nn


def timed(step, sync, rounds, calls):
    """Median, min and max over rounds of the seconds of one call, `calls` calls back to back a round."""
    for _ in range(20):
        step()
    sync()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            step()
        sync()
        times.append((time.perf_counter() - start) / calls)
    return {"median_us": 1e6 * statistics.median(times), "min_us": 1e6 * min(times), "max_us": 1e6 * max(times)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--json", default="-")
    args = parser.parse_args()
    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    sync = torch.cuda.synchronize if cuda else (lambda: None)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
    host_images = torch.rand(args.batch, 784, pin_memory=cuda)
    host_labels = torch.randint(10, (args.batch,), pin_memory=cuda)
    images, labels = host_images.to(device), host_labels.to(device)

    def step_of(optimizer):
        def step():
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        return step

    def with_upload(step):
        def uploaded():
            images.copy_(host_images, non_blocking=True)
            labels.copy_(host_labels, non_blocking=True)
            step()
        return uploaded

    rows = {}
    for name, options in (("adam", {}), ("adam_fused", {"fused": True})):
        if options and not cuda:
            continue
        step = step_of(torch.optim.Adam(model.parameters(), lr=1e-3, **options))
        rows["eager " + name] = timed(step, sync, args.rounds, args.calls)
        rows["eager " + name + " with upload"] = timed(with_upload(step), sync, args.rounds, args.calls)
    if cuda:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
        step = step_of(optimizer)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(5):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        rows["cuda graph adam"] = timed(graph.replay, sync, args.rounds, args.calls)
    name = torch.cuda.get_device_name() if cuda else "cpu"
    report = {"framework": "pytorch " + torch.__version__, "device": name, "batch": args.batch, "steps": rows}
    text = json.dumps(report, indent=1)
    print(text) if args.json == "-" else open(args.json, "w").write(text + "\n")


if __name__ == "__main__":
    main()
