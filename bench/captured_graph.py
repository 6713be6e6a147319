# SPDX-License-Identifier: MIT
"""How long a step of PyTorch's takes: what the other sides of the benchmarks time with."""
import statistics

import torch


def microseconds(step, runs, rounds):
    """Median of rounds of a step, `runs` of them in a captured graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(runs):
            step()
    times = []
    for _ in range(rounds + 3):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / runs)
    return statistics.median(times[3:])
