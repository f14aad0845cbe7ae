"""Measure calls with the shapes of models beside PyTorch's: few elements, in one process, by turns.

    python benchmarks/model_calls.py                             # needs torch in the same environment
    python benchmarks/model_calls.py --only 'mha*' --repetitions 400

PyTorch's database of operators mostly has vectors and matrices. Models call the same operators on batches [B, T, C],
heads [B, H, T, C / H] and images, where a path for matrices may end. Rows with ``, backward`` add the elements up and
run backward. The ratio is PyTorch's time over tensocket's: above 1, tensocket is faster.
"""

from __future__ import annotations

import sys
from typing import Final

from by_turns import main

#: The variables of all rows; ``T`` is the library.
SETUP: Final = """
nn, F = T.nn, T.nn.functional
T.set_num_threads(1)
T.manual_seed(0)
x, heads, scores, image = T.randn(2, 8, 16), T.randn(2, 4, 8, 4), T.randn(2, 4, 8, 8), T.randn(2, 3, 8, 8)
xg, headsg, scoresg, imageg = [each.clone().requires_grad_() for each in (x, heads, scores, image)]
made = T.empty(2, 8, 16)
weight, bias = T.randn(16, 16), T.randn(16)
weightg, biasg = weight.clone().requires_grad_(), bias.clone().requires_grad_()
causal = T.tril(T.ones(8, 8)).bool()
hidden = ~causal
ids = T.randint(0, 8, (2, 8))
at = ids[:, :, None].expand(2, 8, 16)
table, places = T.randn(30, 16), T.randn(8, 16)
tableg, placesg = table.clone().requires_grad_(), places.clone().requires_grad_()
logits = T.randn(2, 30, 8)
logitsg = logits.clone().requires_grad_()
norm, lstm, mha = nn.LayerNorm(16), nn.LSTM(16, 16, batch_first=True), nn.MultiheadAttention(16, 4, batch_first=True)
layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
conv, conv1d, batch_norm = nn.Conv2d(3, 4, 3, padding=1), nn.Conv1d(16, 16, 3, padding=1), nn.BatchNorm2d(3)

def rms(x):
    return x * T.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

def rotated(x):
    return T.cat([-x[..., 2:], x[..., :2]], -1) * x + x
"""

#: Statements by row; those that have a gradient, with their operands that require one.
_WITH_GRADIENT: Final[dict[str, tuple[str, str]]] = {
    "linear": ("F.linear(x, weight, bias)", "F.linear(xg, weightg, biasg)"),
    "layer_norm": ("norm(x)", "norm(xg)"),
    "softmax of scores": ("scores.softmax(-1)", "scoresg.softmax(-1)"),
    "scores of heads": ("heads @ heads.transpose(-2, -1)", "headsg @ headsg.transpose(-2, -1)"),
    "masked_fill": ("scores.masked_fill(hidden, -1e9)", "scoresg.masked_fill(hidden, -1e9)"),
    "attention": ("F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)",
                  "F.scaled_dot_product_attention(headsg, headsg, headsg, is_causal=True)"),
    "split into heads": ("x.view(2, 8, 4, 4).transpose(1, 2)", "xg.view(2, 8, 4, 4).transpose(1, 2)"),
    "merge heads": ("heads.transpose(1, 2).contiguous().view(2, 8, 16)",
                    "headsg.transpose(1, 2).contiguous().view(2, 8, 16)"),
    "embedding": ("F.embedding(ids, table)", "F.embedding(ids, tableg)"),
    "add places": ("x + places", "xg + placesg"),
    "split": ("sum(x.split(8, 2))", "sum(xg.split(8, 2))"),
    "last place": ("x[:, -1]", "xg[:, -1]"),
    "mean of places": ("x.mean(1)", "xg.mean(1)"),
    "rms norm": ("rms(x)", "rms(xg)"),
    "gelu": ("F.gelu(x)", "F.gelu(xg)"),
    "silu": ("F.silu(x)", "F.silu(xg)"),
    "clamp": ("x.clamp(-1, 1)", "xg.clamp(-1, 1)"),
    "einsum of heads": ("T.einsum('bhqd,bhkd->bhqk', heads, heads)", "T.einsum('bhqd,bhkd->bhqk', headsg, headsg)"),
    "rotary": ("rotated(heads)", "rotated(headsg)"),
    "where": ("T.where(causal, scores, scores)", "T.where(causal, scoresg, scoresg)"),
    "cross_entropy at places": ("F.cross_entropy(logits, ids)", "F.cross_entropy(logitsg, ids)"),
    "cross_entropy, flat": ("F.cross_entropy(logits.transpose(1, 2).reshape(-1, 30), ids.view(-1))",
                            "F.cross_entropy(logitsg.transpose(1, 2).reshape(-1, 30), ids.view(-1))"),
    "mse_loss": ("F.mse_loss(x, x)", "F.mse_loss(xg, x)"),
    "normalize": ("F.normalize(x, dim=-1)", "F.normalize(xg, dim=-1)"),
    "cumsum": ("x.cumsum(1)", "xg.cumsum(1)"),
    "norm": ("x.norm()", "xg.norm()"),
    "lstm": ("lstm(x)[0]", "lstm(xg)[0]"),
    "mha": ("mha(x, x, x, need_weights=False)[0]", "mha(xg, xg, xg, need_weights=False)[0]"),
    "encoder layer": ("layer(x)", "layer(xg)"),
    "conv1d": ("conv1d(x.transpose(1, 2))", "conv1d(xg.transpose(1, 2))"),
    "conv2d": ("conv(image)", "conv(imageg)"),
    "batch_norm": ("batch_norm(image)", "batch_norm(imageg)"),
    "max_pool2d": ("F.max_pool2d(image, 2)", "F.max_pool2d(imageg, 2)"),
    "flatten": ("image.flatten(1)", "imageg.flatten(1)"),
    "pad": ("F.pad(image, (1, 1, 1, 1))", "F.pad(imageg, (1, 1, 1, 1))"),
}

#: Row: statement.
ROWS: Final[dict[str, str]] = {
    **{row: plain for row, (plain, _) in _WITH_GRADIENT.items()},
    **{f"{row}, backward": f"({recorded}).sum().backward()" for row, (_, recorded) in _WITH_GRADIENT.items()},
    "matmul of a batch and a matrix": "x @ weight",
    "reshape of turned heads": "heads.transpose(1, 2).reshape(2, 8, 16)",
    "cat of places": "T.cat([x, x], 1)",
    "stack": "T.stack([x, x])",
    "unbind": "x.unbind(0)",
    "mean of two dimensions": "x.mean((1, 2))",
    "var of rows": "x.var(-1, keepdim=True)",
    "dropout": "F.dropout(x, 0.1)",
    "topk": "x.topk(3, -1)",
    "argmax": "x.argmax(-1)",
    "draw the next token": "T.multinomial(F.softmax(x[:, -1], -1), 1)",
    "repeat_interleave of heads": "heads.repeat_interleave(2, 1)",
    "repeat heads": "heads[:, :, None].expand(2, 4, 2, 8, 4).reshape(2, 8, 8, 4)",
    "gather at an expanded index": "x.gather(1, at)",
    "triu": "T.triu(scores)",
    "outer sum": "x[:, :, None] + x[:, None]",
    "interpolate": "F.interpolate(image, scale_factor=2)",
    "cosine_similarity": "F.cosine_similarity(x, x, -1)",
    "cdist": "T.cdist(x, x)",
    "flip": "x.flip(1)",
    "roll": "x.roll(1, 1)",
    "index by a list": "x[:, [0, 2, 3]]",
    "index by a mask": "x[x > 0]",
    "every other place": "x[:, ::2]",
    "add to out": "T.add(x, x, out=made)",
}

if __name__ == "__main__":
    sys.exit(main(__doc__, SETUP, ROWS))
