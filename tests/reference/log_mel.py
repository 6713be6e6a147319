#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes log_mel.json: Whisper's spectrogram of half a second of two tones, by PyTorch in float64."""
import json
import math
import pathlib

import torch

RATE, WINDOW, HOP, MELS, FRAMES = 16000, 400, 160, 80, 60


def hertz(mel):
    return mel * 200 / 3 if mel < 15 else 1000 * 6.4 ** ((mel - 15) / 27)


top = 15 + 27 * math.log(8, 6.4)  # of 8 kHz
edges = torch.tensor([hertz(top * i / (MELS + 1)) for i in range(MELS + 2)], dtype=torch.float64)
slopes = edges[:, None] - torch.linspace(0, RATE / 2, WINDOW // 2 + 1, dtype=torch.float64)
up, down = -slopes[:-2] / edges.diff()[:-1, None], slopes[2:] / edges.diff()[1:, None]
filters = torch.minimum(up, down).clamp(min=0) * (2 / (edges[2:] - edges[:-2]))[:, None]

time = torch.arange(8000, dtype=torch.float64) / RATE
sound = (0.5 * torch.sin(2 * math.pi * 440 * time) + 0.25 * torch.sin(2 * math.pi * 3000 * time)).float().double()
padded = torch.nn.functional.pad(sound, (0, FRAMES * HOP - len(sound)))
bins = torch.stft(padded, WINDOW, HOP, window=torch.hann_window(WINDOW, dtype=torch.float64), return_complex=True)
power = bins[:, :-1].abs() ** 2
shown = (filters @ power).clamp(min=1e-10).log10()
shown = (torch.maximum(shown, shown.max() - 8) + 4) / 4
pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps({
    "filters": [[round(float(x), 9) for x in filters[i]] for i in (0, 40, 79)],
    "spectrogram": [round(float(x), 7) for x in shown[:, ::4].flatten()]}) + "\n")
