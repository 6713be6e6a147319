#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""torch_operations.py PROGRAM: compares what PROGRAM, examples/operations, runs on a device with PyTorch.

Results and gradients of every operation that has a name there, in f32 against PyTorch's f64; the table says how far they
are apart, beside the largest number of a tensor. What PyTorch calls is the name that the operation is listed with, or
the expression in CALLS, over the operands x[0], x[1], ... Exits with 1 if something differs that DIFFERS does not name.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("no PyTorch was found (Debian: python3-torch)")
    sys.exit(77)

TOLERANCE = 5e-5

# Where a name alone does not say it.
CALLS = {
    # the rows of reductions are axes 0 and 2
    **{f"{name}<axes...>(x)": f"torch.{call}(x[0], dim=(0, 2))" for name, call in {
        "sum": "sum", "mean": "mean", "max": "amax", "min": "amin", "variance": "var", "logsumexp": "logsumexp",
        "norm": "linalg.vector_norm", "count_nonzero": "count_nonzero"}.items()},
    "product<axes...>(x)": "x[0].prod(2).prod(0)",
    "standard_deviation<axes...>(x)": "torch.std(x[0], dim=(0, 2), correction=0)",
    "argmax<axes...>(x)": "rows(x[0]).argmax(1)",
    "argmin<axes...>(x)": "rows(x[0]).argmin(1)",
    "any<axes...>(x)": "rows(x[0] < 1).any(1)",
    "all<axes...>(x)": "rows(x[0] >= 1).all(1)",
    "l2_normalize<axes...>(x)": "F.normalize(x[0], dim=(0, 2))",
    "euclidean_distance<axes...>(a, b)": "torch.linalg.vector_norm(x[0] - x[1], 2, dim=(0, 2))",
    "manhattan_distance<axes...>(a, b)": "torch.linalg.vector_norm(x[0] - x[1], 1, dim=(0, 2))",
    "minkowski_distance<axes...>(a, b)": "torch.linalg.vector_norm(x[0] - x[1], 3, dim=(0, 2))",
    "chebyshev_distance<axes...>(a, b)": "torch.linalg.vector_norm(x[0] - x[1], float('inf'), dim=(0, 2))",
    "cosine_similarity<axes...>(a, b)": "F.cosine_similarity(rows(x[0]), rows(x[1]))",
    "smooth_l1_loss<options>(x, y)": "F.smooth_l1_loss(x[0], x[1], beta=0.5)",
    "huber_loss<options>(x, y)": "F.huber_loss(x[0], x[1], delta=1.5)",
    "kl_div_loss<options>(x, y)": "F.kl_div(x[0], x[1], reduction='mean')",
    "hinge_embedding_loss<options>(x, y)": "F.hinge_embedding_loss(x[0], x[1], margin=0.5)",
    "poisson_nll_loss<options>(x, y)": "F.poisson_nll_loss(x[0], x[1], full=True)",
    "margin_ranking_loss<options>(a, b, y)": "F.margin_ranking_loss(x[0], x[1], x[2], margin=0.5)",
    "cosine_embedding_loss<options>(a, b, y)":
        "F.cosine_embedding_loss(x[0], x[1], x[2].floor()) + 2 * F.cosine_embedding_loss(x[0], x[1], -x[2].floor(), 0.25)",
    "triplet_margin_loss<options>(anchor, positive, negative)":
        "F.triplet_margin_loss(x[0], x[1], x[2], margin=2, swap=True)",
    # labels that are no class are left out
    "cross_entropy_loss<options>(logits, labels)": "F.cross_entropy(x[0], classes(x[1], 3))",
    "cross_entropy_loss<options>(logits, labels, weights)":
        "F.cross_entropy(x[0], classes(x[1], 3), x[2].detach(), label_smoothing=0.25)",
    "cross_entropy_loss<options>(logits, shares)": "F.cross_entropy(x[0], x[1], label_smoothing=0.25)",
    "nll_loss<options>(scores, labels, weights)": "F.nll_loss(x[0], classes(x[1], 3), x[2].detach())",
    "soft_margin_loss(x, y)": "F.soft_margin_loss(x[0], x[1].detach())",
    "max_pool1d<options>(x)": "F.max_pool1d(x[0], 3, 2, 1)",
    "max_pool2d<options>(x)": "F.max_pool2d(x[0], (3, 2), (2, 1), (1, 0), (1, 2), ceil_mode=True)",
    "max_pool3d<options>(x)": "F.max_pool3d(x[0], (2, 3, 2), (1, 2, 2), (1, 1, 0), ceil_mode=True)",
    "avg_pool1d<options>(x)": "F.avg_pool1d(x[0], 3, 2, 1)",
    "avg_pool2d<options>(x)": "F.avg_pool2d(x[0], 3, (2, 3), 1, ceil_mode=True, count_include_pad=False)",
    "avg_pool3d<options>(x)":
        "F.avg_pool3d(x[0], (2, 3, 3), (1, 2, 3), 1, ceil_mode=True)",
    "lp_pool1d<options>(x)": "F.lp_pool1d(x[0], 2, 2)",
    "lp_pool2d<options>(x)": "F.lp_pool2d(x[0].abs(), 3, 2, 1)",
    "local_response_norm<options>(x)": "F.local_response_norm(x[0], 4, alpha=0.5, k=2)",
    **{f"adaptive_{kind}_pool{n}d<out>(x)": f"F.adaptive_{kind}_pool{n}d(x[0], {out})"
       for kind in ("avg", "max") for n, out in ((1, 2), (2, (3, 5)), (3, (2, 1, 3)))},
    "argsort<axis>(x)": "x[0].sort(dim=1, stable=True).indices",
    "sort<axis>(x)": "x[0].sort(1).values",
    "topk<count, axis>(x)": "x[0].topk(2).values",
    "kthvalue<k, axis>(x)": "x[0].kthvalue(4, 1).values",
    "median<axis>(x)": "x[0].median(1).values",
    "quantile<axis>(x, share)": "x[0].quantile(0.5625, 1)",
    "cumsum<axis>(x)": "x[0].cumsum(1)",
    "cumsum<axis>(x, reverse)": "x[0].flip(1).cumsum(1).flip(1)",
    "cumprod<axis>(x)": "x[0].cumprod(1)",
    "cummax<axis>(x)": "x[0].cummax(1).values",
    "cummin<axis>(x)": "x[0].cummin(1).values",
    "cumargmax<axis>(x)": "x[0].cummax(1).indices",
    "cumargmin<axis>(x)": "x[0].cummin(1).indices",
    # a tensor where PyTorch takes a number
    "elu(x, alpha)": "torch.where(x[0] > 0, x[0], x[1] * torch.expm1(x[0].clamp(max=0)))",
    "celu(x, alpha)": "torch.where(x[0] > 0, x[0], x[1] * torch.expm1(x[0].clamp(max=0) / x[1]))",
    "hard_sigmoid(x, slope)": "(x[0] * x[1] + 0.5).clamp(0, 1)",
    "soft_shrink(x, bound)": "torch.where(x[0].abs() > x[1], x[0] - x[0].sign() * x[1], 0.0)",
    "hard_shrink(x, bound)": "torch.where(x[0].abs() > x[1], x[0], 0.0)",
    "heaviside(x, at_zero)": "torch.heaviside(x[0].detach(), x[1].detach())",
    "frexp(x)": "torch.frexp(x[0]).mantissa",
    "isnan(x)": "torch.isnan(torch.log(x[0]))",
    "isfinite(x)": "torch.isfinite(torch.sqrt(x[0]))",
    "isinf(x)": "torch.isinf(torch.exp(x[0] * 1e6))",
    "logical_xor(a, b)": "torch.logical_xor(x[0] < x[1], x[1] < 1)",
    "nextafter(a, b)": "torch.where(x[0] < x[1], 1, -1)",
    "gelu_tanh(x)": "F.gelu(x[0], approximate='tanh')",
    "trigamma(x)": "torch.polygamma(1, x[0])",
    "reinterpret<dtype>(x)": "x[0].to(torch.float32).view(torch.int32)",
    "cast<dtype>(x)": "x[0].to(torch.int32)",
    "select(condition, a, b)": "torch.where(x[0] < x[1], x[0], x[1])",
    "logical_and(a, b)": "torch.logical_and(x[0] < x[1], x[1] < 1)",
    "logical_or(a, b)": "torch.logical_or(x[0] < x[1], x[1] < 1)",
    "logical_not(x)": "torch.logical_not(x[0] < 1)",
    "stop_gradient(x)": "x[0].detach()",
    "reshape<dims>(x)": "x[0].reshape(3, 4)",
    "reshape_as(x, like)": "x[0].reshape_as(x[1])",
    "unsqueeze<axis>(x)": "x[0].unsqueeze(1)",
    "flatten<first, last>(x)": "x[0].flatten(1, 2)",
    "permute<axes...>(x)": "x[0].permute(2, 0, 1)",
    "transpose(x)": "x[0].mT",
    "pad<axis, low, high, value>(x)": "F.pad(x[0], (1, 2))",
    "expand<dims>(x)": "x[0].expand(2, 3, 4)",
    "flip<axis>(x)": "x[0].flip(1)",
    "split_heads<heads>(x)": "x[0].unflatten(-1, (3, 2))",
    "merge_heads(x)": "x[0].flatten(-2, -1)",
    "concat<axis>(a, b, ...)": "torch.cat(x, 1)",
    "gather<axis>(data, indices)": "torch.index_select(x[0], 1, x[1])",
    "scatter_add<axis, dims>(indices, updates)": "torch.index_add(torch.zeros(5, 3, dtype=x[0].dtype), 0, x[1], x[0])",
    "narrow<axis, length>(x, start)": "torch.narrow(x[0], 0, x[1], 2)",
    "update_rows<axis>(x, rows, position)": "torch.slice_scatter(x[0], x[1], 0, int(x[2]), int(x[2]) + 2, 1)",
    "squeeze<axis>(x)": "x[0].squeeze(1)",
    "movedim<from, to>(x)": "x[0].movedim(0, -1)",
    "swap_axes<a, b>(x)": "x[0].swapaxes(0, -1)",
    "tile<axis, count>(x)": "x[0].tile(1, 3)",
    "repeat_interleave<axis, count>(x)": "x[0].repeat_interleave(2, 0)",
    "roll<axis, shift>(x)": "x[0].roll(7, -1)",
    "pick<axis, index>(x)": "x[0].select(1, -1)",
    "chunk<axis, count>(x)": "x[0].chunk(3, 1)[2]",
    "split<axis, sizes...>(x)": "x[0].split([1, 3, 2], 1)[1]",
    "unbind<axis, count>(x)": "x[0].unbind(1)[1]",
    "rot90<turns>(x)": "torch.rot90(x[0], 1, (-2, -1))",
    "stack<axis>(a, b, ...)": "torch.stack(x, -1)",
    "pixel_shuffle<block>(x)": "F.pixel_shuffle(x[0], 2)",
    "pixel_unshuffle<block>(x)": "F.pixel_unshuffle(x[0], 2)",
    "channel_shuffle<groups>(x)": "x[0].reshape(1, 3, 2, 1, 2).transpose(1, 2).reshape(x[0].shape)",
    "pad_by<axis, low, high, pad_mode::reflect>(x)": "F.pad(x[0], (2, 3), mode='reflect')",
    "pad_by<axis, spatial, spatial, pad_mode::reflect>(x)": "F.pad(x[0][None], (2, 1, 1, 0), mode='reflect')[0]",
    "pad_by<axis, low, high, pad_mode::edge>(x)": "F.pad(x[0].mT, (2, 3), mode='replicate').mT",
    "pad_by<axis, low, high, pad_mode::wrap>(x)": "F.pad(x[0][None], (2, 3), mode='circular')[0]",
    "tril<offset>(x)": "torch.tril(x[0], 1)",
    "triu<offset>(x)": "torch.triu(x[0], -1)",
    "diagonal<offset>(x)": "torch.diagonal(x[0], 1, -2, -1)",
    "diag_embed<offset>(x)": "torch.diag_embed(x[0], -1)",
    "full_like<value>(x)": "torch.full_like(x[0], 2)",
    "arange_like<axis>(x)": "torch.arange(4, dtype=torch.int32).expand(3, 4)",
    "eye_like(x)": "torch.eye(3, 4, dtype=x[0].dtype)",
    "one_hot<classes>(indices)": "F.one_hot(x[0].long(), 5).double()",
    "einsum<\"ik,kj->ij\">(a, b)": "torch.einsum('ik,kj->ji', x[0], x[1])",
    "einsum<\"ijk,kl->il\">(a, b)": "torch.einsum('ijk,kl->il', x[0], x[1])",
    "einsum<\"ij,kl->i\">(a, b)": "torch.einsum('ij,kl->i', x[0], x[1])",
    "einsum<\"iij->j\">(x)": "torch.einsum('iaibc->ca', x[0])",
    "tensordot<axes>(a, b)": "torch.tensordot(x[0], x[1], 1)",
    "cross<axis>(a, b)": "torch.linalg.cross(x[0], x[1])",
    "meshgrid(a, ...)": "torch.meshgrid(x[0], x[1], indexing='ij')[1] * torch.meshgrid(x[0], x[1], indexing='ij')[0]",
    **{f"embedding_bag<bag_mode::{mode}>(table, indices)": f"F.embedding_bag(x[1], x[0], mode='{mode}')"
       for mode in ("sum", "mean", "max")},
    **{f"embedding_bag<bag_mode::{mode}, padding>(table, indices)":
       f"F.embedding_bag(x[1], x[0], mode='{mode}', padding_idx=1)" for mode in ("sum", "mean", "max")},
    "embedding_bag(table, indices, weights)":
        "F.embedding_bag(x[1], x[0], mode='sum', per_sample_weights=x[2])",
    "embedding_bag<padding>(table, indices, weights)":
        "F.embedding_bag(x[1], x[0], mode='sum', per_sample_weights=x[2], padding_idx=1)",
    "resize<axis, multiple, resize_mode::nearest, resize_place::asymmetric>(x)":
        "F.interpolate(x[0][None], 12, mode='nearest')[0]",
    "resize<axis, multiple, resize_mode::nearest>(x)": "F.interpolate(x[0][None], 10, mode='nearest-exact')[0]",
    "resize<axis, size, resize_mode::nearest, resize_place::asymmetric>(x)": "F.interpolate(x[0][None], 8, mode='nearest')[0]",
    "resize<axis, size, resize_mode::nearest>(x)": "F.interpolate(x[0][None], 4, mode='nearest-exact')[0]",
    "resize<axis, size, resize_mode::linear>(x)": "F.interpolate(x[0][None], 8, mode='linear')[0]",
    "resize<axis, size, resize_mode::linear, resize_place::align_corners>(x)": "F.interpolate(x[0][None], 8, mode='linear', align_corners=True)[0]",
    "resize<axis, spatial, resize_mode::linear>(x)": "F.interpolate(x[0][None, None], (6, 3), mode='bilinear')[0, 0]",
    "resize<axis, size, resize_mode::cubic>(x)": "F.interpolate(x[0][None, None], (2, 5), mode='bicubic')[0, 0]",
    "resize<axis, size, resize_mode::cubic, resize_place::align_corners>(x)": "F.interpolate(x[0][None, None], (2, 8), mode='bicubic', align_corners=True)[0, 0]",
    "unfold<options>(x)": "F.unfold(x[0], 3, dilation=2, padding=1, stride=2)",
    "fold<h, w, options>(x)": "F.fold(x[0], (7, 8), 3, dilation=2, padding=1, stride=2)",
    "softmax<axis>(x)": "x[0].softmax(-1)",
    "log_softmax<axis>(x)": "x[0].log_softmax(-1)",
    "softmin<axis>(x)": "F.softmin(x[0], 1)",
    "logcumsumexp<axis>(x)": "x[0].logcumsumexp(1)",
    "linspace_like<axis, low, high>(x)": "torch.linspace(-1, 2, 5, dtype=torch.float64).expand(3, 5)",
    "mode<axis>(x)": "x[0].mode(-1).values",
    "mean_and_variance<axes...>(x)": "torch.var_mean(x[0], -1)[0] * torch.var_mean(x[0], -1)[1]",
    "median_absolute_deviation<axis>(x)": "(x[0] - x[0].median(1, True).values).abs().median(1).values",
    "interquartile_range<axis>(x)": "x[0].quantile(0.75, 1) - x[0].quantile(0.25, 1)",
    "winsorize<axis>(x, low, high)": "x[0].clamp(x[0].quantile(0.1, 1, True), x[0].quantile(0.8125, 1, True))",
    "cosine_distance<axes...>(a, b)": "1 - F.cosine_similarity(rows(x[0]), rows(x[1]))",
    "quantize<range, axis>(x, scale, zero_point)":
        "torch.quantize_per_channel(x[0].float(), x[1].float(), x[2], 0, torch.qint8).int_repr()",
    "dequantize<axis>(q, scale, zero_point)": "(x[0] - x[2][:, None]) * x[1][:, None]",
    "fake_quantize<range, axis>(x, scale, zero_point)":
        "torch.fake_quantize_per_tensor_affine(x[0].float(), 0.03125, 12, 0, 15).double()",
    "take_along<axis>(data, indices)": "torch.gather(x[0], 1, x[1].long())",
    "put_along<axis>(x, indices, updates)": "torch.scatter(x[0], 1, x[1].long(), x[2])",
    "add_along<axis>(x, indices, updates)": "torch.scatter_add(x[0], 1, x[1].long(), x[2])",
    "ctc_loss<options>(scores, targets, frames, labels)":
        "F.ctc_loss(x[0].log_softmax(-1).transpose(0, 1), x[1].long(), x[2].long(), x[3].long(), blank=1)",
    "attend<options>(q, k, v)":
        "attention(x, 0.5, lambda s: 3 * torch.tanh(s / 3) - slopes(3) * away(2, 4, 2), "
        "(away(2, 4, 2) >= 0) & (away(2, 4, 2) < 3))",
    "attend<options>(q, k, v, position)": "attention(x, sees=away(2, 5, 2) >= 0)",
    "attend<options>(q, k, v, attn_mask(m))": "attention(x, of=lambda s: s + x[3])",
    "attend<options>(q, k, v, key_lengths(n))":
        "attention(x, sees=torch.arange(3) < x[3].reshape(2, 1, 1, 1))",
    "attend<options>(q, k, v, attention_sinks(s))": "attention(x, sinks=x[3])",
}

# By design; the reason is printed.
DIFFERS = {
    "put_along<axis>(x, indices, updates)": "of updates to one place the last counts; PyTorch's gradient goes to all",
}


def rows(x):
    """[2, 3, 4] as rows of axes 0 and 2: [3, 8]"""
    return x.permute(1, 0, 2).reshape(3, 8)


def away(queries, keys, first):
    """how many places a query is behind a key"""
    return torch.arange(queries).reshape(-1, 1) + first - torch.arange(keys)


def slopes(heads):
    """of ALiBi for 3 heads: those of 2, and between them"""
    return torch.tensor([2.0 ** -4, 2.0 ** -8, 2.0 ** -2][:heads], dtype=torch.float64).reshape(-1, 1, 1)


def attention(x, scale=None, of=lambda s: s, sees=None, sinks=None):
    """torch 1.13 has no function for it"""
    q, k, v = (each.transpose(1, 2) for each in x[:3])
    k, v = (each.repeat_interleave(q.shape[1] // each.shape[1], 1) for each in (k, v))
    scores = of(q @ k.mT * (scale or q.shape[-1] ** -0.5))
    if sees is not None:
        scores = scores.masked_fill(~sees, -1e30)
    if sinks is not None:
        scores = torch.cat([scores, sinks.reshape(-1, 1, 1).expand(*scores.shape[:-1], 1)], -1)
    weights = scores.softmax(-1)[..., :k.shape[2]]
    return ((weights if sees is None else weights * sees) @ v).transpose(1, 2)


def classes(labels, count):
    return torch.where((labels >= 0) & (labels < count), labels, -100).long()


def function(name):
    for home in (torch, F, torch.special):
        found = home
        for part in name.split("."):
            found = getattr(found, part, None)
        if callable(found):
            return found
    return None


def tensor(values, shape, dtype):
    real = [float("nan") if v is None else v for v in values]
    return torch.tensor(real, dtype=torch.float64 if dtype in ("f32", "f16", "bf16") else torch.int32).reshape(shape)


def apart(found, expected):
    found, expected = found.double().flatten(), expected.double().flatten()
    if found.shape != expected.shape:
        return float("inf")
    both = torch.isnan(found) & torch.isnan(expected) | (found == expected)
    difference = torch.where(both, torch.zeros_like(found), (found - expected).abs())
    finite = expected[torch.isfinite(expected)].abs()
    scale = max(1.0, finite.max().item() if finite.numel() else 1.0)
    worst = difference.max().item() / scale if difference.numel() else 0.0
    return worst if worst == worst else float("inf")


def compare(row):
    x = [tensor(o["values"], o["shape"], o["dtype"]) for o in row["operands"]]
    for operand, told in zip(x, row["operands"]):
        operand.requires_grad_(bool(told["gradient"]))
    if row["call"] in CALLS:
        y = eval(CALLS[row["call"]], {**globals(), "x": x})
    else:
        y = function(row["torch"])(*x)
    if y.dtype == torch.bool:
        y = y.to(torch.int32)
    if list(y.shape) != row["shape"]:
        return float("inf"), float("inf"), f"its shape is {list(y.shape)} instead of {row['shape']}"
    of_result = apart(tensor(row["result"], row["shape"], row["dtype"]), y.detach())
    of_gradient = 0.0
    if y.requires_grad:
        weights = torch.tensor(row["weights"], dtype=torch.float64).reshape(y.shape)
        (y * weights).sum().backward()
    for operand, told in zip(x, row["operands"]):
        if told["gradient"]:
            if operand.grad is None and y.requires_grad:
                continue  # PyTorch has none by this operand
            expected = operand.grad if operand.grad is not None else torch.zeros_like(operand)
            of_gradient = max(of_gradient, apart(tensor(told["gradient"], told["shape"], "f32"), expected))
    return of_result, of_gradient, ""


def main():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "operations.json"
        subprocess.run([sys.argv[1], "--json", file], check=True)
        rows = json.loads(file.read_text())
    failed, compared, alone = [], 0, []
    print(f"{'operation':<46} {'result':>9} {'gradient':>9}")
    for row in rows:
        call = row["call"]
        if call not in CALLS and (not row["torch"] or function(row["torch"]) is None):
            alone.append(call)
            continue
        compared += 1
        try:
            of_result, of_gradient, problem = compare(row)
        except Exception as problem_:  # what PyTorch refuses is told like the rest
            of_result = of_gradient = float("inf")
            problem = str(problem_).splitlines()[0]
        wrong = max(of_result, of_gradient) > TOLERANCE
        if wrong and call not in DIFFERS:
            failed.append(call)
        said = problem or (DIFFERS.get(call, "DIFFERS") if wrong else "")
        print(f"{call:<46} {of_result:9.1e} {of_gradient:9.1e} {said}".rstrip())
    print(f"\n{compared} operations compared with PyTorch {torch.__version__}, {len(failed)} differ: {', '.join(failed) or 'none'}")
    print(f"{len(alone)} have no counterpart of one name there: {', '.join(alone)}")
    return 1 if failed or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
