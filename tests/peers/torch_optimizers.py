#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""torch_optimizers.py PROGRAM: compares what PROGRAM, optimizers.cpp, trained with PyTorch.

Parameters after each of twenty steps, in f32 against PyTorch's f64; the table says how far they are apart at most, beside
the largest number. Exits with 1 if something differs.
"""
import json
import subprocess
import sys

try:
    import torch
except ImportError:
    print("no PyTorch was found (Debian: python3-torch)")
    sys.exit(77)

TOLERANCE = 5e-6
optim, schedule = torch.optim, torch.optim.lr_scheduler

# What optimizers.cpp calls it, and what that is here: an optimiser of parameters p, and more.
ROWS = {
    "sgd": (lambda p: optim.SGD(p, 0.1), {}),
    "sgd weight_decay": (lambda p: optim.SGD(p, 0.1, weight_decay=0.2), {}),
    "sgd momentum": (lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.2, dampening=0.3), {}),
    "sgd nesterov": (lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.2, nesterov=True), {}),
    "adam": (lambda p: optim.Adam(p, 0.1), {}),
    "adam weight_decay": (lambda p: optim.Adam(p, 0.1, (0.9, 0.9), weight_decay=0.2), {}),
    "adam amsgrad": (lambda p: optim.Adam(p, 0.1, (0.9, 0.5), amsgrad=True), {}),
    "adamw": (lambda p: optim.AdamW(p, 0.1, weight_decay=0.2), {}),
    "adamw amsgrad": (lambda p: optim.AdamW(p, 0.1, (0.9, 0.5), amsgrad=True), {}),
    "rmsprop": (lambda p: optim.RMSprop(p, 0.1, 0.8, weight_decay=0.2), {}),
    "rmsprop centered momentum": (lambda p: optim.RMSprop(p, 0.01, 0.8, momentum=0.9, centered=True), {}),
    "adagrad": (lambda p: optim.Adagrad(p, 0.1, lr_decay=0.3, weight_decay=0.2), {}),
    "clip_norm": (lambda p: optim.SGD(p, 0.1), {"clip": lambda p: torch.nn.utils.clip_grad_norm_(p, 0.5)}),
    "clip_value": (lambda p: optim.SGD(p, 0.1), {"clip": lambda p: torch.nn.utils.clip_grad_value_(p, 0.25)}),
    "step schedule": (lambda p: optim.SGD(p, 0.1), {"schedule": lambda o: schedule.StepLR(o, 7, 0.5)}),
    "cosine schedule": (lambda p: optim.SGD(p, 0.1), {"schedule": lambda o: schedule.CosineAnnealingLR(o, 20)}),
    "one-cycle schedule": (lambda p: optim.SGD(p, 0.1), {
        "schedule": lambda o: schedule.OneCycleLR(o, 0.1, total_steps=20, cycle_momentum=False)}),
    "linear schedule": (lambda p: optim.SGD(p, 0.1), {
        "schedule": lambda o: schedule.LinearLR(o, start_factor=1, end_factor=0.25, total_iters=20)}),
    "plateau": (lambda p: optim.SGD(p, 0.1), {
        "plateau": lambda o: schedule.ReduceLROnPlateau(o, factor=0.5, patience=2, cooldown=1)}),
    "ema": (lambda p: optim.SGD(p, 0.1), {"ema": 0.8}),
    "accumulate": (lambda p: optim.Adam(p, 0.1), {
        "clip": lambda p: torch.nn.utils.clip_grad_norm_(p, 0.5), "accumulate": 4}),
}


def trained(row, start, gradients):
    """The parameters, or their averages, after each step."""
    make, more = row
    p = [torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in start]
    module = torch.nn.ParameterList(p)
    optimizer = make(p)
    rates = more["schedule"](optimizer) if "schedule" in more else None
    plateau = more["plateau"](optimizer) if "plateau" in more else None
    average = None
    if "ema" in more:
        keep = more["ema"]
        average = torch.optim.swa_utils.AveragedModel(module, avg_fn=lambda mean, now, _: keep * mean + (1 - keep) * now)
    found, batches = [], more.get("accumulate", 1)
    for step, batch in enumerate(gradients):
        loss = sum((each * torch.tensor(by, dtype=torch.float64)).sum() for each, by in zip(p, batch))
        (loss / batches).backward()
        if (step + 1) % batches == 0:
            if "clip" in more:
                more["clip"](p)
            optimizer.step()
            optimizer.zero_grad()
            if rates:
                rates.step()
        if plateau:
            plateau.step(abs(step - 3.0))
        if average:
            average.update_parameters(module)
        shown = list(average.module.parameters()) if average else p
        found.append(torch.cat([each.detach().clone() for each in shown]))
    return torch.stack(found)


def main():
    made = json.loads(subprocess.run([sys.argv[1]], stdout=subprocess.PIPE, text=True, check=True).stdout)
    if set(made["runs"]) != set(ROWS):
        sys.exit(f"only one side has: {', '.join(sorted(set(made['runs']) ^ set(ROWS)))}")
    failures = []
    print(f"PyTorch {torch.__version__}\n{'optimiser':28} {'difference':>10} {'largest':>8}")
    for name, after in made["runs"].items():
        expected = trained(ROWS[name], made["start"], made["gradients"])
        apart = (torch.tensor(after, dtype=torch.float64) - expected).abs().max().item()
        largest = expected.abs().max().item()
        print(f"{name:28} {apart:10.2g} {largest:8.3g}")
        if not apart <= TOLERANCE * max(largest, 1):
            failures.append(name)
    if failures:
        sys.exit(f"differs from PyTorch: {', '.join(failures)}")


main()
