#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes resnet_training.json: a tiny ResNet of basic blocks, trained for two steps by PyTorch in float64. Losses, the
running statistics of its norms, and how far PyTorch's own float32 is from them."""
import json
import math
import pathlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

WIDTH, DEPTHS, CLASSES, BATCH, SIDE, RATE = 8, (2, 1, 1, 1), 10, 4, 64, 0.05


class Block(nn.Module):
    def __init__(self, into, out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.downsample = None
        if into != out:
            self.downsample = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, WIDTH, 7, 2, 3, bias=False), nn.BatchNorm2d(WIDTH)
        into = WIDTH
        for stage, depth in enumerate(DEPTHS):
            blocks = []
            for i in range(depth):
                blocks.append(Block(into, WIDTH << stage, 2 if stage and i == 0 else 1))
                into = WIDTH << stage
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(into, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean(dim=(2, 3)))


def mixed(h):
    h = ((h ^ h >> 16) * 0x85EBCA6B) & 0xFFFFFFFF
    h = ((h ^ h >> 13) * 0xC2B2AE35) & 0xFFFFFFFF
    return h ^ h >> 16


def weights(name, shape):
    """As tests/support/named_weights.hpp has them."""
    key = 2166136261
    for byte in name.encode():
        key = (key ^ byte) * 16777619 & 0xFFFFFFFF
    count = math.prod(shape)
    unit = np.array([2 * (mixed(mixed(i) ^ key) >> 8) + 1 - 2**24 for i in range(count)]) / 2**24
    if len(shape) == 1:
        offset, bound = (0, 2**-5) if name.endswith("bias") else (1, 2**-4)
    elif "embed_tokens" in name or "embed_positions" in name:
        offset, bound = 0, 2**-5
    else:
        offset, bound = 0, math.sqrt(3 / (count / shape[0]))
    values = np.float32(bound) * unit.astype(np.float32) + np.float32(offset)
    return torch.from_numpy(values.reshape(shape))


def train(dtype):
    net = ResNet()
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.copy_(weights(name, tuple(parameter.shape)))
    net = net.to(dtype)
    image, label = 64 * weights("image", (BATCH, 3, SIDE, SIDE)).to(dtype), torch.arange(BATCH)  # from -1 to 1
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    losses = []
    for _ in range(3):
        loss = F.cross_entropy(net(image), label)
        losses.append(loss.item())
        if len(losses) < 3:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if len(losses) == 2:
            running = {k: v.tolist() for k, v in net.state_dict().items() if "running" in k}
    return losses, running


def main():
    torch.backends.mkldnn.enabled = False
    losses, running = train(torch.float64)
    less, moved = train(torch.float32)
    away = [np.linalg.norm(np.subtract(moved[k], v)) / np.linalg.norm(v) for k, v in running.items()]
    deviation = {"loss": max(abs(a - b) for a, b in zip(losses, less)), "running": max(away)}
    text = json.dumps({"losses": losses, "deviation_of_float32": deviation, "running": running}, indent=0)
    pathlib.Path(__file__).with_suffix(".json").write_text(text + "\n")


if __name__ == "__main__":
    main()
