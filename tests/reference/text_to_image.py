#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes text_to_image.json: tiny CLIP text model and decoder of an autoencoder by PyTorch in float64, outputs and
gradients of the mean square against cosines."""
import json
import math
import pathlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from transformers import HEADS, HIDDEN, LAYERS, POSITIONS, VOCAB, WIDTH, Part, attended, figures, rounded, wave


class CLIPText(nn.Module):
    def __init__(self):
        super().__init__()
        def layer():
            square = {name: nn.Linear(WIDTH, WIDTH) for name in ("q_proj", "k_proj", "v_proj", "out_proj")}
            return Part(self_attn=Part(**square), layer_norm1=nn.LayerNorm(WIDTH), layer_norm2=nn.LayerNorm(WIDTH),
                        mlp=Part(fc1=nn.Linear(WIDTH, HIDDEN), fc2=nn.Linear(HIDDEN, WIDTH)))
        self.text_model = Part(
            embeddings=Part(token_embedding=nn.Embedding(VOCAB, WIDTH), position_embedding=nn.Embedding(POSITIONS, WIDTH)),
            encoder=Part(layers=nn.ModuleList([layer() for _ in range(LAYERS)])), final_layer_norm=nn.LayerNorm(WIDTH))

    def forward(self, tokens):
        text, n = self.text_model, tokens.shape[1]
        x = text.embeddings.token_embedding(tokens) + text.embeddings.position_embedding(torch.arange(n))
        for each in text.encoder.layers:
            a, h = each.self_attn, each.layer_norm1(x)
            seen = torch.ones(n, n, dtype=torch.bool).tril()
            x = x + a.out_proj(attended(a.q_proj(h), a.k_proj(h), a.v_proj(h), seen))
            h = each.mlp.fc1(each.layer_norm2(x))
            x = x + each.mlp.fc2(h * torch.sigmoid(1.702 * h))
        return text.final_layer_norm(x)


WIDTHS, GROUPS, BLOCKS = (16, 16, 8, 8), 4, 2


def norm(width):
    return nn.GroupNorm(GROUPS, width, eps=1e-6)


class Residual(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.norm1, self.conv1 = norm(into), nn.Conv2d(into, out, 3, 1, 1)
        self.norm2, self.conv2 = norm(out), nn.Conv2d(out, out, 3, 1, 1)
        self.conv_shortcut = nn.Conv2d(into, out, 1) if into != out else None

    def forward(self, x):
        y = self.conv2(F.silu(self.norm2(self.conv1(F.silu(self.norm1(x))))))
        return y + (x if self.conv_shortcut is None else self.conv_shortcut(x))


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.group_norm = norm(width)
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(width, width)])

    def forward(self, x):
        rows = self.group_norm(x).flatten(2).transpose(1, 2)
        scores = self.to_q(rows) @ self.to_k(rows).transpose(1, 2) / math.sqrt(x.shape[1])
        return x + self.to_out[0](scores.softmax(-1) @ self.to_v(rows)).transpose(1, 2).reshape(x.shape)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        wide, self.post_quant_conv = WIDTHS[0], nn.Conv2d(4, 4, 1)
        levels = []
        for i, width in enumerate(WIDTHS):
            parts = {"resnets": nn.ModuleList([Residual(WIDTHS[max(i - 1, 0)] if k == 0 else width, width)
                                               for k in range(BLOCKS)])}
            if i < 3:
                parts["upsamplers"] = nn.ModuleList([Part(conv=nn.Conv2d(width, width, 3, 1, 1))])
            levels.append(Part(**parts))
        self.decoder = Part(conv_in=nn.Conv2d(4, wide, 3, 1, 1), mid_block=Part(
            resnets=nn.ModuleList([Residual(wide, wide), Residual(wide, wide)]),
            attentions=nn.ModuleList([Attention(wide)])), up_blocks=nn.ModuleList(levels),
            conv_norm_out=norm(WIDTHS[3]), conv_out=nn.Conv2d(WIDTHS[3], 3, 3, 1, 1))

    def forward(self, latent):
        d = self.decoder
        x = d.mid_block.resnets[0](d.conv_in(self.post_quant_conv(latent)))
        x = d.mid_block.resnets[1](d.mid_block.attentions[0](x))
        for each in d.up_blocks:
            for block in each.resnets:
                x = block(x)
            if hasattr(each, "upsamplers"):
                x = each.upsamplers[0].conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return d.conv_out(F.silu(d.conv_norm_out(x)))


def main():
    torch.backends.mkldnn.enabled = False
    tokens = (torch.arange(20) * 7 % 50).reshape(2, 10)
    made = {"clip_text": figures(CLIPText(), [tokens]),
            "autoencoder_kl": figures(Decoder(), [wave(np.sin, 0.01, (2, 4, 4, 4))])}
    text = ",\n".join(f"{json.dumps(name)}:{json.dumps(rounded(each), separators=(',', ':'))}" for name, each in made.items())
    pathlib.Path(__file__).with_suffix(".json").write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    main()
