#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""torch_layers.py PROGRAM: compares layers with parameters, as PROGRAM, examples/operations, runs them on a device, with
PyTorch's of the same weights.

Names of parameters, results, and gradients by inputs and by parameters, in f32 against PyTorch's f64; the table says how
far they are apart, beside the largest number of a tensor. Exits with 1 if something differs.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    from torch import nn
except ImportError:
    print("no PyTorch was found (Debian: python3-torch)")
    sys.exit(77)

TOLERANCE = 5e-5


class RmsNorm(nn.Module):
    """torch 1.13 has none"""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def ahead(count):
    """what a causal query does not see"""
    return torch.ones(count, count, dtype=torch.bool).triu(1)


def behind(lengths, count):
    """which places of sequences are padding"""
    return torch.arange(count)[None] >= lengths[:, None]


def packed(module, x, states, lengths):
    """what a recurrence gives of packed sequences: outputs with their padding, and the last states"""
    rows = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    y, last = module(rows, states)
    y, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
    return flat(y, *last) if isinstance(last, tuple) else flat(y, last)


def flat(*all_):
    return torch.cat([each.flatten() for each in all_])


def weighed(module):
    return nn.utils.weight_norm(module)


STRIDED = dict(kernel_size=3, stride=2, padding=1, groups=2)
SPREAD = dict(**STRIDED, output_padding=1)
BOTH = dict(num_layers=2, bidirectional=True, batch_first=True)

# The module, and how it is called where m(*x) does not say it.
LAYERS = {
    "linear<name, out>(x)": (lambda: nn.Linear(4, 5), None),
    "weight_norm_linear<name, out>(x)": (lambda: weighed(nn.Linear(4, 5)), None),
    "bilinear<name, out>(a, b)": (lambda: nn.Bilinear(2, 4, 5), None),
    "embedding<name, rows, width>(tokens)": (lambda: nn.Embedding(5, 4), None),
    "weight_norm_conv<name, out, options>(x)": (lambda: weighed(nn.Conv2d(4, 6, **STRIDED)), None),
    "batch_norm<name>(x)": (lambda: nn.BatchNorm2d(4), None),
    "layer_norm<name, options>(x)": (lambda: nn.LayerNorm((3, 2)), None),
    "rms_norm<name>(x)": (RmsNorm, None),
    "group_norm<name, groups>(x)": (lambda: nn.GroupNorm(2, 4), None),
    "instance_norm<name, options>(x)": (lambda: nn.InstanceNorm2d(4, affine=True), None),
    "multi_head_attention<name, heads>(x)": (
        lambda: nn.MultiheadAttention(4, 2, batch_first=True),
        lambda m, x: m(x, x, x, need_weights=False, attn_mask=ahead(3))[0]),
    "multi_head_attention<name, heads>(query, key, value)": (
        lambda: nn.MultiheadAttention(4, 2, batch_first=True), lambda m, *x: m(*x, need_weights=False)[0]),
    "multi_head_attention<name, heads>(query, key, value, attn_mask(m))": (
        lambda: nn.MultiheadAttention(4, 2, batch_first=True),
        lambda m, q, k, v, mask: m(q, k, v, need_weights=False, attn_mask=mask)[0]),
    "multi_head_attention<name, heads>(x, key_lengths(n))": (
        lambda: nn.MultiheadAttention(4, 2, batch_first=True),
        lambda m, x, n: m(x, x, x, need_weights=False, key_padding_mask=behind(n, 3))[0]),
    "multi_head_attention<name, heads>(query, key, value, attn_mask(m), key_lengths(n))": (
        lambda: nn.MultiheadAttention(4, 2, batch_first=True),
        lambda m, q, k, v, mask, n: m(q, k, v, need_weights=False, attn_mask=mask, key_padding_mask=behind(n, 5))[0]),
    "call<name, transformer_encoder_layer<options>>(x, attn_mask(m), key_lengths(n))": (
        lambda: nn.TransformerEncoderLayer(4, 2, 6, activation="gelu", norm_first=True, batch_first=True),
        lambda m, x, mask, n: m(x, src_mask=mask, src_key_padding_mask=behind(n, 3))),
    "call<name, transformer_decoder_layer<options>>(x, memory, key_lengths(n), memory_lengths(s))": (
        lambda: nn.TransformerDecoderLayer(4, 2, 6, batch_first=True),
        lambda m, x, memory, n, s: m(x, memory, tgt_mask=ahead(3), tgt_key_padding_mask=behind(n, 3),
                                     memory_key_padding_mask=behind(s, 5))),
    "call<name, lstm<options>>(x, h_0, c_0, sequence_lengths(s))": (
        lambda: nn.LSTM(4, 2, **BOTH), lambda m, x, h, c, n: packed(m, x, (h, c), n)),
    "call<name, gru<options>>(x, h_0, sequence_lengths(s))": (
        lambda: nn.GRU(4, 2, **BOTH), lambda m, x, h, n: packed(m, x, h, n)),
    "call<name, transformer_encoder_layer<options>>(x)": (
        lambda: nn.TransformerEncoderLayer(4, 2, 6, activation="gelu", norm_first=True, batch_first=True), None),
    "call<name, transformer_decoder_layer<options>>(x, memory)": (
        lambda: nn.TransformerDecoderLayer(4, 2, 6, batch_first=True),
        lambda m, x, memory: m(x, memory, tgt_mask=ahead(3))),
    "call<name, lstm<options>>(x, h_0, c_0)": (
        lambda: nn.LSTM(4, 2, **BOTH), lambda m, x, h, c: (lambda y, s: flat(y, *s))(*m(x, (h, c)))),
    "call<name, gru<options>>(x, h_0)": (lambda: nn.GRU(4, 2, **BOTH), lambda m, x, h: flat(*m(x, h))),
    "call<name, lstm<options>>(x)": (lambda: nn.LSTM(4, 3, batch_first=True), lambda m, x: m(x)[0]),
    "call<name, gru<options>>(x)": (lambda: nn.GRU(4, 3, batch_first=True), lambda m, x: m(x)[0]),
    "call<name, rnn<options>>(x)": (lambda: nn.RNN(4, 2, **BOTH), lambda m, x: m(x)[0]),
    "call<name, lstm_cell<options>>(x, h, c)": (
        lambda: nn.LSTMCell(4, 3), lambda m, x, h, c: torch.cat(m(x, (h, c)))),
    "call<name, gru_cell<options>>(x, h)": (lambda: nn.GRUCell(4, 3), None),
    "call<name, rnn_cell<options>>(x, h)": (lambda: nn.RNNCell(4, 3), None),
    **{f"conv{n}d<name, out, options>(x)": (lambda n=n: getattr(nn, f"Conv{n}d")(4, 6, **STRIDED), None)
       for n in (1, 2, 3)},
    **{f"conv_transpose{n}d<name, out, options>(x)":
       (lambda n=n: getattr(nn, f"ConvTranspose{n}d")(4, 6, **SPREAD), None) for n in (1, 2, 3)},
}


def tensor(values, shape, dtype="f32"):
    return torch.tensor(values, dtype=torch.float64 if dtype == "f32" else torch.int64).reshape(shape)


def apart(found, expected):
    worst = (found - expected).abs().max().item() / max(1.0, expected.abs().max().item())
    return worst if worst == worst else float("inf")


def compare(row):
    make, call = LAYERS[row["call"]]
    module = make().double().eval()
    theirs = dict(module.named_parameters())
    leaves = {leaf["name"]: leaf for leaf in row["leaves"] if leaf["name"]}
    if set(leaves) != set(theirs):
        return 0, 0, f"its parameters are {sorted(theirs)} instead of {sorted(leaves)}"
    with torch.no_grad():
        for name, leaf in leaves.items():
            if list(theirs[name].shape) != leaf["shape"]:
                return 0, 0, f"its {name} is {list(theirs[name].shape)} instead of {leaf['shape']}"
            theirs[name].copy_(tensor(leaf["values"], leaf["shape"]))
    x = [tensor(leaf["values"], leaf["shape"], leaf["dtype"]) for leaf in row["leaves"] if not leaf["name"]]
    for each in x:
        each.requires_grad_(each.dtype == torch.float64)
    y = call(module, *x) if call else module(*x)
    if list(y.shape) != row["shape"]:
        return 0, 0, f"its shape is {list(y.shape)} instead of {row['shape']}"
    (y * tensor(row["weights"], y.shape)).sum().backward()
    inputs = iter(x)
    of_gradient = 0.0
    for leaf in row["leaves"]:
        their = theirs[leaf["name"]] if leaf["name"] else next(inputs)
        if leaf["gradient"]:
            of_gradient = max(of_gradient, apart(tensor(leaf["gradient"], leaf["shape"]), their.grad))
    return apart(tensor(row["result"], row["shape"]), y.detach()), of_gradient, ""


def main():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "layers.json"
        subprocess.run([sys.argv[1], "--layers", file], check=True)
        rows = json.loads(file.read_text())
    failed = []
    print(f"{'layer':<58} {'result':>9} {'gradient':>9}")
    for row in rows:
        if row["call"] not in LAYERS:
            print(f"{row['call']:<58} has no counterpart there")
            continue
        of_result, of_gradient, problem = compare(row)
        if problem or max(of_result, of_gradient) > TOLERANCE:
            failed.append(row["call"])
        print(f"{row['call']:<58} {problem}" if problem else
              f"{row['call']:<58} {of_result:9.1e} {of_gradient:9.1e}")
    unknown = sorted(set(LAYERS) - {row["call"] for row in rows})
    print(f"\n{len(rows)} layers compared with PyTorch {torch.__version__}, {len(failed)} differ: "
          f"{', '.join(failed) or 'none'}" + (f"; not listed: {', '.join(unknown)}" if unknown else ""))
    sys.exit(1 if failed or unknown else 0)


if __name__ == "__main__":
    main()
