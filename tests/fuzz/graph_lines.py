"""Lines of random functions for ``compile``: templates, and the names and numbers that fill them.

A template has places such as ``{f}``; its letter says what goes there: a tensor of floats ``f``, integers ``i``,
bools ``b``, numbers ``n``, or any tensor ``x``; a letter with ``2`` is one that broadcasts with the first. ``{d}`` is a
dimension of the first tensor, ``{s}`` an index with slices for it, ``{c}`` a number, ``{j}`` a small count, ``{t}`` a
dtype. ``{index}`` is an argument of indices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

#: Pointwise operators and moves: graphs give the bits of eager calls.
POINTWISE: Final = (
    "-{n}", "{n}.abs()", "{f}.relu()", "{n} * {n2}", "{n} + {n2}", "{n} - {n2}", "{n} + {n2}", "{n} * {n2}",
    "{n} * {c}",
    "{c} - {n}", "{n} + {c}", "torch.add({n}, {n2}, alpha={c})", "{n}.clamp(-2, 2)", "{n}.clamp(min=0)", "{n}.sign()",
    "torch.maximum({n}, {n2})", "torch.minimum({n}, {n2})", "torch.where({n} > {n2}, {n}, {n2})",
    "torch.where({b}, {n2}, {c})", "{x} == {x2}", "{n} < {n2}", "{n} >= {c}", "~{b}", "{b} & {b2}", "{b} | {b2}",
    "{b} ^ {b2}", "{x}.logical_not()", "{i} % 3", "{i} // 2", "{i} & {i2}", "{i} ^ {i2}", "{x}.to({t})", "{n}.float()",
    "{n}.double()", "{n}.long()", "{f}.type_as({f2})", "{n}.masked_fill({n2} > 0, {c})", "{n}.where({b}, {n2})",
    "{f} * {f}.shape[0]", "{n} + len({n2})", "{n} * {n}", "torch.addcmul({f}, {f2}, {f2}, value={c})", "{f}.trunc()",
    "torch.lerp({f}, {f2}, 0.5)", "{f}.square()", "{f} * {P}", "{f} + {P}", "{f} - {Q}", "{f} * {Q}", "{f}.floor()",
    "torch.nn.functional.leaky_relu({f}, 0.5)", "torch.nn.functional.hardtanh({f})", "{f}.isnan()", "{n} ** 2",
    "{f}.neg().relu()", "torch.copysign({f}, {f2})", "{x}.bool()", "{n}.fmod(3)", "({n} + {n2}, {n} - {n2})[{j}]")
#: Pointwise operators whose results are rounded.
SMOOTH: Final = (
    "{f}.tanh()", "{f}.sigmoid()", "{f}.clamp(-4, 4).exp()", "{f}.sin()", "{f}.cos()", "{f}.abs().log1p()",
    "({f}.abs() + 1).sqrt()", "({f}.square() + 1).rsqrt()", "1 / ({f}.abs() + 1)", "{f} / ({f2}.abs() + 1)",
    "torch.nn.functional.gelu({f})", "torch.nn.functional.silu({f})", "{f}.erf()", "torch.nn.functional.softplus({f})",
    "torch.atan2({f}, {f2}.abs() + 1)", "({f}.abs() + 1) ** 0.5", "{f} / 3", "torch.lerp({f}, {f2}, {P}.tanh())",
    "torch.nn.functional.elu({f})", "torch.sigmoid({f}) * {f2}", "{i} / ({i2}.abs() + 1)")
#: Sums, products of matrices and the like, exact for whole numbers.
SUMS: Final = (
    "{n}.sum()", "{n}.sum({d})", "{n}.sum({d}, keepdim=True)", "{n}.sum(-1)", "{n}.sum(-1, keepdim=True)",
    "{n}.sum((0, -1))", "{n}.sum((0, 1), keepdim=True)", "{n}.amax({d})", "{n}.amin(-1, keepdim=True)", "{n}.max()",
    "{n}.max({d})[0]", "{n}.max({d})[{j}]", "{n}.min({d})[{j}]", "{n}.argmax(-1)", "{n}.argmin({d})", "{b}.any()",
    "{b}.all({d})", "{x}.count_nonzero()", "{n}.cumsum({d})", "{f}.sum(0, dtype=torch.float64)",
    "{i}.sum(0, dtype=torch.int32)", "{n} - {n}.amax(-1, keepdim=True)",
    "{f} @ {f2}", "{f} @ {f}.mT", "{f}.mT @ {f}", "{f}.transpose(0, -1) @ {f}", "{f} @ {P}", "{f} @ {P}.t()",
    "torch.nn.functional.linear({f}, {P})", "torch.nn.functional.linear({f}, {P}, {Q})", "{f} @ {f2}.t()",
    "torch.matmul({f}[None], {f}[None].mT)", "torch.einsum('...i,...i->...', {f}, {f})", "torch.outer({f}, {f})",
    "{n}.sort({d})[0]", "{n}.flatten().topk(1)[0]", "torch.amax({n}, (0, 1))", "{n}.prod(-1)", "{b}.sum(-1)",
    "{f}.norm(1, -1)", "torch.addmm({Q}, {f}, {P})", "torch.baddbmm({f}, {f2}, {f2})", "torch.dot({f}, {f})",
    "torch.nn.functional.mse_loss({f}, {f2}, reduction='sum')", "{n}.sum_to_size({n2}.shape)", "{n}.trace()",
    "torch.nn.functional.max_pool1d({f}, 2)", "{n}.cummax({d})[0]")
#: Reductions whose results are rounded.
MEANS: Final = (
    "{f}.mean()", "{f}.mean({d})", "{f}.mean(-1, keepdim=True)", "{f}.mean((0, 1))", "{f}.softmax(-1)",
    "{f}.log_softmax(-1)", "{f}.softmax({d})", "{f}.logsumexp({d})", "{f}.var({d}, unbiased=False)",
    "torch.nn.functional.layer_norm({f}, {f}.shape[-1:])", "torch.nn.functional.rms_norm({f}, {f}.shape[-1:])",
    "{f} - {f}.mean(-1, keepdim=True)", "torch.nn.functional.mse_loss({f}, {f2})", "({f}.square().sum(-1) + 1).sqrt()",
    "torch.nn.functional.normalize({f} + 1, dim=-1)", "torch.nn.functional.cross_entropy({f}, {index})",
    "torch.nn.functional.scaled_dot_product_attention({f}[None], {f}[None], {f}[None])",
    "torch.nn.functional.binary_cross_entropy_with_logits({f}, {f2}.sigmoid())")
#: Views, copies and other moves.
MOVES: Final = (
    "{x}{s}", "{x}{s}", "{x}{s}", "{x}.t()", "{x}.transpose(0, -1)", "{x}.permute(*reversed(range({x}.dim())))",
    "{x}.reshape(-1)", "{x}.view(-1)", "{x}.flatten()", "{x}.unsqueeze({d})", "{x}.squeeze()", "{x}.squeeze(-1)",
    "{x}.expand_as({x2})", "{x}.expand(2, *{x}.shape)", "{x}.narrow({d}, 0, 1)", "{x}.select({d}, 0)",
    "{x}.select({d}, -1)",
    "{x}.diagonal()", "{x}.unfold(-1, 2, 1)", "{x}.split(2, {d})[0]", "{x}.chunk(2, {d})[-1]", "{x}.unbind({d})[-1]",
    "{x}.detach()", "{x}.contiguous()", "{x}.clone()", "{x}.flip({d})", "{x}.roll(1, {d})", "{x}.repeat(2, 1)",
    "{x}.movedim(0, -1)", "{x}[None]", "{x}.view({x}.shape)", "{x}.mT", "{f}.tril()", "{f}.triu(1)",
    "{x}.transpose(0, -1).contiguous()", "{x}.reshape({x}.shape[0], -1)", "{x}.as_strided((2,), (1,))", "{x}.T",
    "{x}.swapaxes(0, -1)", "{x}.unflatten(-1, (-1, 2))", "torch.atleast_2d({x})", "{x}.view_as({x})",
    "{x}.new_empty(2, 3).fill_(1)",
    "{x}.expand(3, -1, -1)", "{x}.broadcast_to({x2}.shape)", "torch.nn.functional.pad({f}, (1, 1))",
    "{x}.reshape(-1, 2)")
#: Joins, gathers and scatters.
JOINS: Final = (
    "torch.cat([{x}, {x}], {d})", "torch.cat([{f}, {f}, {f}{s}], 0)", "torch.stack([{x}, {x2}])",
    "torch.stack([{f}, {f2}], -1)",
    "{x}[{index}]", "{x}[{index}]", "{x}.index_select(0, {index})", "{f}.gather(-1, {index}[..., None])",
    "{f}.gather(0, {index}.expand_as({f}))", "torch.nn.functional.embedding({index}, {P})",
    "{x}.take_along_dim({x}.argsort(-1), -1)",
    "{n}.index_add(0, {index}, {n}[{index}])", "torch.zeros_like({f}).scatter_add(0, {index}, {f})",
    "{x}[..., {index}]",
    "torch.nn.functional.one_hot({index}, 8)", "torch.cat([{x}.flatten(), {x}.flatten()])",
    "{x}[{x}.shape[0] - 1 - {index}]",
    "{f}.scatter(-1, {index}[:, None], {c})", "torch.nn.functional.nll_loss({f}, {index}, reduction='sum')",
    "torch.tensor_split({x}, 2, {d})[0]", "torch.hstack([{x}, {x2}])", "torch.cat([{n}, {n2}, {n}])",
    "{n}.index_fill(0, {index}, {c})", "{x}[{index}, {index}]")
#: Tensors that follow from sizes or from random numbers.
CREATED: Final = (
    "torch.zeros_like({x})", "torch.ones_like({n})", "torch.full_like({n}, {c})", "{x}.new_zeros({x2}.shape)",
    "torch.arange({x}.shape[0], device={x}.device)", "torch.arange({x}.numel(), device={x}.device).view({x}.shape)",
    "torch.eye(3, device={x}.device)", "torch.scalar_tensor({c}, device={x}.device)",
    "torch.tensor({c}, device={x}.device)",
    "torch.linspace(0, 3, 4, device={x}.device)", "{x}.new_tensor([1, 2])")
RANDOM: Final = (
    "torch.randint_like({n}, 0, 4)", "torch.randint(0, 3, {x}.shape, device={x}.device)",
    "(torch.rand_like({f}) * 4).floor()",
    "torch.nn.functional.dropout({f}, 0.5)", "torch.bernoulli(torch.full_like({f}, 0.5))")
#: Changes in place, of tensors and of their geometry.
CHANGES: Final = (
    "{f}.add_({f2})", "{f}.mul_({f2})", "{n}.sub_({n2})", "{n} += {n2}", "{n} *= {c}", "{x}{s} = {c}", "{x}{s} = {x2}",
    "{x}[...] = {x2}", "{x}.copy_({x2})", "{n}.zero_()", "{n}.fill_({c})", "{f}.relu_()", "{n}.clamp_(-2, 2)",
    "{f}{s}.add_({c})", "{f}{s}.mul_({f2})", "{f}.masked_fill_({f2} > 0, {c})",
    "{f}.index_add_(0, {index}, {f}[{index}])",
    "{f}.transpose(0, -1).add_({f2})", "{f}.view(-1)[:2] = {c}", "{f}[{index}] = {c}", "{f}[{f} > 0] = {c}", "{x}.t_()",
    "{x}.unsqueeze_({d})", "{x}.squeeze_()", "{f}.neg_()", "{f}.detach_()", "{f}.T.copy_({f2})", "{f}[1:] += {f}[:-1]",
    "{f}[..., 1:].copy_({f}[..., :-1])", "{f}[..., 1:].lerp_({f}[..., :-1], 0.5)", "{f}.T.add_({f})",
    "{f}[..., 1:] = {f}[..., :-1].clone()", "{f}.diagonal().add_({c})", "{f}.addcmul_({f2}, {f2})", "{B}.add_({c})",
    "{B}.mul_(0.5).add_({f}.detach().sum())", "{B}.copy_({f2}.detach())", "{B}[0] = {c}", "{f}.random_(0, 3)",
    "{f}.swapaxes_(0, -1)",
    "{f}.scatter_(-1, {index}[:, None], {c})", "{f}.index_copy_(0, {index}, {f}[{index}])", "{f}.data.mul_({c})",
    "torch.add({f}, {f2}, out={f}.detach())", "{f}.lerp_({f2}, 0.5)", "{f}.bernoulli_(0.5)", "{f}.requires_grad_()",
    "{f}.requires_grad_(False)")
_SLICES: Final = (
    "[1:]", "[:-1]", "[::2]", "[..., 1:]", "[..., ::2]", "[0]", "[-1]", "[:, :1]", "[:, None]", "[..., None]",
    "[:2, -2:]", "[..., 0]", "[1::2]", "[:0]", "[..., -1:]", "[None, ..., 0]", "[:1]", "[0:1, ..., 1:]")
_NUMBERS: Final = ("2", "-1", "3", "1", "0", "0.5", "-2.0", "True")
DTYPES: Final = ("torch.float32", "torch.float64", "torch.int64", "torch.bool", "torch.float32", "torch.int32",
                 "torch.uint8", "torch.float16", "torch.bfloat16")
_PLACE: Final = re.compile(r"\{(\w+)\}")

Rng = np.random.Generator


def _fits(letter: str, tensor: Any) -> bool:
    dtype = tensor.dtype
    kind = "f" if dtype.is_floating_point else "b" if str(dtype) == "torch.bool" else "i"
    return letter == "x" or letter == kind or (letter == "n" and kind != "b")


def _broadcasts(x: Any, y: Any) -> bool:
    try:
        np.broadcast_shapes(tuple(x.shape), tuple(y.shape))
    except ValueError:
        return False
    return True


def fill(rng: Rng, template: str, tensors: Mapping[str, Any]) -> str | None:
    """Return a line with names and numbers in the places of a template; None if nothing fits one of them.

    Args:
        rng: Where choices come from.
        template: The template.
        tensors: The tensors that the line can use, by name, the newest last.
    """
    first: str | None = None
    chosen: dict[str, str] = {}
    for place in _PLACE.findall(template):
        letter = place[0]
        if place == "index" or letter in "PQB":
            names = [n for n in tensors if n.startswith("index" if place == "index" else letter)]
        elif letter in "fibnx":
            if place in chosen and rng.random() < 0.7:
                continue
            names = [n for n, t in tensors.items() if _fits(letter, t) and not n.startswith("index")
                     and (len(place) == 1 or first is None or _broadcasts(tensors[first], t))]
        else:
            continue
        if not names:
            return None
        # New names are chosen more often: values pass through many operators.
        weights = np.arange(1, len(names) + 1, dtype=float) ** 1.5
        chosen[place] = str(rng.choice(names, p=weights / weights.sum()))
        first = first or chosen[place]
    rank = tensors[first].dim() if first is not None else 0
    chosen |= {"d": str(int(rng.integers(-rank, rank))) if rank else "0", "s": str(rng.choice(_SLICES)),
               "c": str(rng.choice(_NUMBERS)), "j": str(int(rng.integers(0, 2))), "t": str(rng.choice(DTYPES))}
    return _PLACE.sub(lambda place: chosen[place[1]], template)
