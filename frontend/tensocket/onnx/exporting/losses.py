"""Our functions for losses and attention; in opset 18."""

from __future__ import annotations

import math
from typing import Any

from .functions import Call, fixed, own
from .matching import NoMatch


def _reduced(c: Call, terms: Any, reduction: Any) -> Any:
    """Return the mean or the sum of terms, or the terms."""
    if reduction == "none":
        return terms
    return (c.op.ReduceSum if reduction == "sum" else c.op.ReduceMean)(terms, keepdims=0)


def _number(c: Call, value: float) -> Any:
    return c.recorder.constant(value, c.input.dtype)


@own("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
def distance(c: Call) -> Any:
    """Translate losses of differences."""
    if c.values.get("weight") is not None:
        raise NoMatch("a loss with weights")
    name = str(c.node.target.name)
    gap = c.op.Sub(c.values["input"], c.values["target"])
    size = c.op.Abs(gap)
    if name == "mse_loss":
        terms = c.op.Mul(gap, gap)
    elif name == "l1_loss":
        terms = size
    else:
        smooth = name == "smooth_l1_loss"
        width = float(c.values["beta" if smooth else "delta"])
        inner = c.op.Mul(c.op.Mul(gap, gap), _number(c, 0.5 / width if smooth and width else 0.5))
        outer = c.op.Sub(size, _number(c, 0.5 * width))
        outer = outer if smooth else c.op.Mul(outer, _number(c, width))
        terms = c.op.Where(c.op.Less(size, _number(c, width)), inner, outer)
    return _reduced(c, terms, c.values["reduction"])


@own("binary_cross_entropy", "binary_cross_entropy_with_logits")
def binary_cross_entropy(c: Call) -> Any:
    """Translate the cross entropy of two classes."""
    x, target = c.values["input"], c.values["target"]
    one = _number(c, 1.0)
    if "logits" in str(c.node.target.name):
        yes, no = (c.op.Neg(c.op.Softplus(value)) for value in (c.op.Neg(x), x))
    else:
        yes, no = (c.op.Max(c.op.Log(value), _number(c, -100.0)) for value in (x, c.op.Sub(one, x)))
    if c.values.get("pos_weight") is not None:
        yes = c.op.Mul(yes, c.values["pos_weight"])
    terms = c.op.Neg(c.op.Add(c.op.Mul(target, yes), c.op.Mul(c.op.Sub(one, target), no)))
    if c.values.get("weight") is not None:
        terms = c.op.Mul(terms, c.values["weight"])
    return _reduced(c, terms, c.values["reduction"])


@own("cross_entropy", "nll_loss")
def cross_entropy(c: Call) -> Any:
    """Translate the losses of classes, given by their indices."""
    if c.values.get("label_smoothing") or c.given["target"].meta["val"].dtype.is_floating_point:
        raise NoMatch("targets other than the indices of classes")
    options = {"ignore_index": int(c.values["ignore_index"]), "reduction": c.values["reduction"]}
    name = str(c.node.target.name)
    rank = len(c.given["input"].meta["val"].shape)
    x, target = c.values["input"], c.values["target"]
    if rank == 1:
        line = c.sizes([0])
        x, target = c.op.Unsqueeze(x, line), c.op.Unsqueeze(target, line)
        options["reduction"] = "sum" if options["reduction"] == "none" else options["reduction"]
    if name == "nll_loss":
        return c.op.NegativeLogLikelihoodLoss(x, target, c.values.get("weight"), **options)
    return c.op.SoftmaxCrossEntropyLoss(x, target, c.values.get("weight"), **options)[0]


@own("kl_div")
def kl_div(c: Call) -> Any:
    """Translate the divergence of distributions, given by logarithms."""
    x, target = c.values["input"], c.values["target"]
    if c.values.get("log_target"):
        terms = c.op.Mul(c.op.Exp(target), c.op.Sub(target, x))
    else:
        zero = _number(c, 0.0)
        logs = c.op.Where(c.op.Greater(target, zero), c.op.Log(target), zero)
        terms = c.op.Sub(c.op.Mul(target, logs), c.op.Mul(target, x))
    if c.values["reduction"] == "batchmean":
        count = c.op.CastLike(c.op.Shape(x, start=0, end=1), x)
        return c.op.Squeeze(c.op.Div(c.op.ReduceSum(terms, keepdims=0), count), c.sizes([0]))
    return _reduced(c, terms, c.values["reduction"])


@own("scaled_dot_product_attention")
def attention(c: Call) -> Any:
    """Translate attention of any number of dimensions before queries and keys."""
    if c.values.get("dropout_p"):
        raise NoMatch("attention with dropout")
    q, k, v = (c.values[name] for name in ("query", "key", "value"))
    form = c.given["query"].meta["val"]
    rank = len(form.shape)
    scale = c.values.get("scale")
    scale = 1 / math.sqrt(fixed(form.shape[-1])) if scale is None else float(scale)
    if c.values.get("enable_gqa"):
        groups = fixed(form.shape[-3]) // fixed(c.given["key"].meta["val"].shape[-3])
        k, v = (_repeated(c, x, c.given[name].meta["val"], groups) for x, name in ((k, "key"), (v, "value")))
    root = _number(c, math.sqrt(abs(scale)))
    order = [*range(rank - 2), rank - 1, rank - 2]
    scores = c.op.MatMul(c.op.Mul(q, root), c.op.Mul(c.op.Transpose(k, perm=order), root))
    scores = c.op.Neg(scores) if scale < 0 else scores
    mask = c.values.get("attn_mask")
    low = _number(c, -math.inf)
    if c.values.get("is_causal"):
        shape = c.op.Concat(c.op.Shape(q, start=rank - 2, end=rank - 1), c.op.Shape(k, start=rank - 2, end=rank - 1),
                            axis=0)
        mask = c.op.Cast(c.op.Trilu(c.op.Expand(_number(c, 1.0), shape), upper=0), to=9)
        scores = c.op.Where(mask, scores, low)
    elif mask is not None:
        if c.given["attn_mask"].meta["val"].dtype.name == "bool":
            scores = c.op.Where(mask, scores, low)
        else:
            scores = c.op.Add(scores, mask)
    shares = c.op.Softmax(scores, axis=-1)
    if mask is not None:  # a query that sees no key has no shares
        shares = c.op.Where(c.op.IsNaN(shares), _number(c, 0.0), shares)
    return c.op.MatMul(shares, v)


def _repeated(c: Call, x: Any, form: Any, groups: int) -> Any:
    """Return heads, each as often as there are queries for it."""
    rank = len(form.shape)
    wide = c.op.Unsqueeze(x, c.sizes([rank - 2]))
    counts = [groups if k == rank - 2 else 1 for k in range(rank + 1)]
    tiled = c.op.Tile(wide, c.sizes(counts))
    shape = c.op.Concat(c.op.Shape(x, start=0, end=rank - 3), c.sizes([fixed(form.shape[-3]) * groups]),
                        c.op.Shape(x, start=rank - 2), axis=0)
    return c.op.Reshape(tiled, shape)
