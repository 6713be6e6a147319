#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes transformers.json: tiny GPT-2, BERT, Whisper and vision transformer by PyTorch in float64, outputs and gradients of the
mean square against cosines."""
import json
import math
import pathlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from resnet_training import weights

LAYERS, WIDTH, HEADS, HIDDEN, VOCAB, POSITIONS = 2, 32, 4, 64, 50, 16


def heads_of(x):
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def attended(q, k, v, visible):
    scores = heads_of(q) @ heads_of(k).transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
    return (scores.masked_fill(~visible, -math.inf).softmax(-1) @ heads_of(v)).transpose(1, 2).flatten(2)


class Conv1D(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.zeros(into, out)), nn.Parameter(torch.zeros(out))

    def forward(self, x):
        return x @ self.weight + self.bias


class Part(nn.Module):
    """A module of named parts."""

    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)


class GPT2(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.h = nn.ModuleList([
            Part(ln_1=nn.LayerNorm(WIDTH), attn=Part(c_attn=Conv1D(WIDTH, 3 * WIDTH), c_proj=Conv1D(WIDTH, WIDTH)),
                 ln_2=nn.LayerNorm(WIDTH), mlp=Part(c_fc=Conv1D(WIDTH, 4 * WIDTH), c_proj=Conv1D(4 * WIDTH, WIDTH)))
            for _ in range(LAYERS)])
        self.ln_f = nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        n = tokens.shape[1]
        x = self.wte(tokens) + self.wpe(torch.arange(n))
        for each in self.h:
            q, k, v = each.attn.c_attn(each.ln_1(x)).chunk(3, -1)
            x = x + each.attn.c_proj(attended(q, k, v, torch.ones(n, n, dtype=torch.bool).tril()))
            y = each.mlp.c_fc(each.ln_2(x))
            y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y ** 3)))
            x = x + each.mlp.c_proj(y)
        return self.ln_f(x) @ self.wte.weight.T


class BERT(nn.Module):
    def __init__(self):
        super().__init__()
        def norm():
            return nn.LayerNorm(WIDTH, eps=1e-12)
        def square():
            return nn.Linear(WIDTH, WIDTH)
        def layer():
            attention = nn.ModuleDict({"self": Part(query=square(), key=square(), value=square()),
                                       "output": Part(dense=square(), LayerNorm=norm())})
            return Part(attention=attention, intermediate=Part(dense=nn.Linear(WIDTH, HIDDEN)),
                        output=Part(dense=nn.Linear(HIDDEN, WIDTH), LayerNorm=norm()))
        self.bert = Part(
            embeddings=Part(word_embeddings=nn.Embedding(VOCAB, WIDTH), position_embeddings=nn.Embedding(POSITIONS, WIDTH),
                            token_type_embeddings=nn.Embedding(2, WIDTH), LayerNorm=norm()),
            encoder=Part(layer=nn.ModuleList([layer() for _ in range(LAYERS)])), pooler=Part(dense=square()))

    def forward(self, tokens, types, mask):
        e = self.bert.embeddings
        x = e.word_embeddings(tokens) + e.token_type_embeddings(types) + e.position_embeddings(torch.arange(tokens.shape[1]))
        x = e.LayerNorm(x)
        for each in self.bert.encoder.layer:
            a, out = each.attention["self"], each.attention["output"]
            y = attended(a.query(x), a.key(x), a.value(x), mask[:, None, None, :] != 0)
            x = out.LayerNorm(x + out.dense(y))
            x = each.output.LayerNorm(x + each.output.dense(F.gelu(each.intermediate.dense(x))))
        return torch.tanh(self.bert.pooler.dense(x[:, 0]))


class Whisper(nn.Module):
    def __init__(self):
        super().__init__()
        def attention():
            return Part(k_proj=nn.Linear(WIDTH, WIDTH, bias=False), v_proj=nn.Linear(WIDTH, WIDTH),
                        q_proj=nn.Linear(WIDTH, WIDTH), out_proj=nn.Linear(WIDTH, WIDTH))
        def layer(**more):
            return Part(self_attn=attention(), self_attn_layer_norm=nn.LayerNorm(WIDTH), fc1=nn.Linear(WIDTH, HIDDEN),
                        fc2=nn.Linear(HIDDEN, WIDTH), final_layer_norm=nn.LayerNorm(WIDTH), **more)
        def cross():
            return {"encoder_attn": attention(), "encoder_attn_layer_norm": nn.LayerNorm(WIDTH)}
        self.model = Part(
            encoder=Part(conv1=nn.Conv1d(8, WIDTH, 3, padding=1), conv2=nn.Conv1d(WIDTH, WIDTH, 3, 2, 1),
                         embed_positions=nn.Embedding(20, WIDTH), layers=nn.ModuleList([layer() for _ in range(LAYERS)]),
                         layer_norm=nn.LayerNorm(WIDTH)),
            decoder=Part(embed_tokens=nn.Embedding(VOCAB, WIDTH), embed_positions=nn.Embedding(POSITIONS, WIDTH),
                         layers=nn.ModuleList([layer(**cross()) for _ in range(LAYERS)]),
                         layer_norm=nn.LayerNorm(WIDTH)))

    def forward(self, spectrogram, tokens):
        def attend(part, x, memory, visible):
            return part.out_proj(attended(part.q_proj(x), part.k_proj(memory), part.v_proj(memory), visible))
        def fed(each, x):
            return x + each.fc2(F.gelu(each.fc1(each.final_layer_norm(x))))
        everything = torch.ones(1, 1, dtype=torch.bool)
        encoder, decoder = self.model.encoder, self.model.decoder
        m = F.gelu(encoder.conv2(F.gelu(encoder.conv1(spectrogram)))).transpose(1, 2) + encoder.embed_positions.weight
        for each in encoder.layers:
            n = each.self_attn_layer_norm(m)
            m = fed(each, m + attend(each.self_attn, n, n, everything))
        m = encoder.layer_norm(m)
        t = tokens.shape[1]
        x = decoder.embed_tokens(tokens) + decoder.embed_positions.weight[:t]
        for each in decoder.layers:
            n = each.self_attn_layer_norm(x)
            x = x + attend(each.self_attn, n, n, torch.ones(t, t, dtype=torch.bool).tril())
            x = fed(each, x + attend(each.encoder_attn, each.encoder_attn_layer_norm(x), m, everything))
        return decoder.layer_norm(x) @ decoder.embed_tokens.weight.T


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        def norm():
            return nn.LayerNorm(WIDTH, eps=1e-6)
        self.class_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.conv_proj = nn.Conv2d(3, WIDTH, 4, 4)
        self.encoder = Part(layers=nn.Module(), ln=norm())
        self.encoder.pos_embedding = nn.Parameter(torch.zeros(1, 17, WIDTH))
        for i in range(LAYERS):
            setattr(self.encoder.layers, f"encoder_layer_{i}", Part(
                ln_1=norm(), self_attention=nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), ln_2=norm(),
                mlp=nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Identity(), nn.Linear(HIDDEN, WIDTH))))
        self.heads = Part(head=nn.Linear(WIDTH, 7))

    def forward(self, image):
        x = self.conv_proj(image).flatten(2).transpose(1, 2)
        x = torch.cat((self.class_token.expand(len(x), -1, -1), x), 1) + self.encoder.pos_embedding
        for each in self.encoder.layers.children():
            n = each.ln_1(x)
            x = x + each.self_attention(n, n, n)[0]
            x = x + each.mlp(each.ln_2(x))
        return self.heads.head(self.encoder.ln(x)[:, 0])


def wave(fn, step, shape):
    x = fn(np.arange(int(np.prod(shape)), dtype=np.float64) * step).astype(np.float32)
    return torch.from_numpy(x.reshape(shape)).double()


def figures(model, inputs):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights(name, tuple(parameter.shape)))
    model.double()
    y = model(*inputs)
    loss = F.mse_loss(y, wave(np.cos, 0.007, y.shape))
    loss.backward()
    flat = y.detach().flatten()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    norms = {name: each.norm().item() for name, each in gradients.items()}
    return {"parameter_tensors": len(gradients),
            "output": {"strided256": flat[torch.arange(256) * len(flat) // 256].tolist()}, "loss": loss.item(),
            "grad_norm": math.sqrt(sum(each * each for each in norms.values())), "grad_norms": norms,
            "grad_first4": {name: each.flatten()[:4].tolist() for name, each in gradients.items()}}


def rounded(x):
    if isinstance(x, dict):
        return {key: rounded(each) for key, each in x.items()}
    if isinstance(x, list):
        return [rounded(each) for each in x]
    return float(f"{x:.10g}") if isinstance(x, float) else x


def main():
    torch.backends.mkldnn.enabled = False
    tokens = torch.arange(20).reshape(2, 10) * 7 % VOCAB
    types = (torch.arange(20).reshape(2, 10) >= 5).long()
    mask = torch.tensor([[1] * 10, [1] * 6 + [0] * 4])
    made = {"gpt2": figures(GPT2(), (tokens,)), "bert": figures(BERT(), (tokens, types, mask)),
            "whisper": figures(Whisper(), (wave(np.sin, 0.01, (2, 8, 40)), tokens)), "vit": figures(ViT(), (wave(np.sin, 0.001, (2, 3, 16, 16)),))}
    text = ",\n".join(f"{json.dumps(name)}:{json.dumps(rounded(each), separators=(',', ':'))}" for name, each in made.items())
    pathlib.Path(__file__).with_suffix(".json").write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    main()
