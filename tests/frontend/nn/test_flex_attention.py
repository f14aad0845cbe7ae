"""Attention with functions of scores and positions, against loops over all queries and keys."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket as torch
from tensocket.errors import ArgumentError, ArgumentTypeError, ShapeError, UnsupportedOperator
from tensocket.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)


def causal(b, h, q, k):
    return q >= k


def near(b, h, q, k):
    return (q - k).abs() < 3 + h


def operands(rng, heads=3, groups=3, queries=7, keys=9):
    shapes = (2, heads, queries, 4), (2, groups, keys, 4), (2, groups, keys, 5)
    return [torch.tensor(rng.standard_normal(shape)) for shape in shapes]


def attend(q, k, v, score=lambda s, b, h, i, j: s, sees=lambda b, h, i, j: True, scale=None):
    q, k, v = (x.detach().numpy() for x in (q, k, v))
    share = q.shape[1] // k.shape[1]
    out, sums = np.zeros((*q.shape[:3], v.shape[-1])), np.full(q.shape[:3], -np.inf)
    for b, h, i in np.ndindex(q.shape[:3]):
        keys, values = k[b, h // share], v[b, h // share]
        seen = [j for j in range(len(keys)) if sees(b, h, i, j)]
        scores = [score(q[b, h, i] @ keys[j] * (scale or q.shape[-1] ** -0.5), b, h, i, j) for j in seen]
        weights = np.exp(scores)
        if weights.sum() > 0:
            out[b, h, i] = sum(w * values[j] for w, j in zip(weights, seen, strict=True)) / weights.sum()
            sums[b, h, i] = np.log(weights.sum())
    return out, sums


def test_scores_are_changed_by_positions():
    q, k, v = operands(np.random.default_rng(0))
    bias = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    got = flex_attention(q, k, v, lambda s, b, h, i, j: s * 2 + bias[h] * (i - j) + b)
    wanted, _ = attend(q, k, v, lambda s, b, h, i, j: s * 2 + bias[h].item() * (i - j) + b)
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 2, (4, 3), 128])
def test_masks_of_any_block_size(size):
    q, k, v = operands(np.random.default_rng(1), heads=4, groups=2)
    mask = create_block_mask(and_masks(causal, near), 2, 4, 7, 9, BLOCK_SIZE=size)
    got, aux = flex_attention(q, k, v, block_mask=mask, enable_gqa=True, scale=0.3,
                              return_aux=AuxRequest(lse=True, max_scores=True))
    wanted, sums = attend(q, k, v, sees=lambda b, h, i, j: i >= j and abs(i - j) < 3 + h, scale=0.3)
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-12)
    np.testing.assert_allclose(aux.lse.numpy(), sums, rtol=1e-12)
    assert aux.max_scores.shape == (2, 4, 7)


def test_queries_that_see_nothing_get_zeros_and_no_gradient():
    q, k, v = (x.requires_grad_() for x in operands(np.random.default_rng(2)))
    mask = create_block_mask(lambda b, h, q, k: (q > 2) & (k < 4), None, None, 7, 9, BLOCK_SIZE=2)
    got, lse = flex_attention(q, k, v, block_mask=mask, return_lse=True)
    assert not got[:, :, :3].any()
    assert (lse[:, :, :3] == -math.inf).all()
    got.square().sum().backward()
    assert not q.grad[:, :, :3].any()
    assert not k.grad[:, :, 4:].any()
    step = 1e-6
    with torch.no_grad():
        values = []
        for sign in (1, -1):
            moved = q.clone()
            moved[1, 2, 5, 3] += sign * step
            values.append(flex_attention(moved, k, v, block_mask=mask).square().sum().item())
    assert q.grad[1, 2, 5, 3].item() == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-6)


def test_blocks_of_a_mask():
    mask = create_block_mask(causal, None, None, 5, 6, BLOCK_SIZE=2)
    assert mask.shape == (1, 1, 5, 6)
    assert mask.to_dense()[0, 0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert mask.full_kv_num_blocks[0, 0].tolist() == [0, 1, 0]  # the last row of blocks has one query
    assert mask.kv_num_blocks[0, 0].tolist() == [1, 1, 3]
    assert mask.q_num_blocks[0, 0].tolist() == [2, 2, 1]
    assert mask.sparsity() == pytest.approx(100 * (1 - 6 * 4 / 30))
    assert [x.shape[:2] for x in (mask[0].kv_indices, mask[:, 0].kv_indices)] == [(1, 1), (1, 1)]
    assert mask.to("cpu").as_tuple()[:2] == (5, 6)
    assert mask.to_string() == "(0, 0)\n██    \n████  \n██████"
    assert mask.to_string(grid_size=2) == "(0, 0)\n░░  \n████"
    assert repr(mask).startswith("BlockMask(shape=(1, 1, 5, 6), sparsity=20.00%, \n(0, 0)\n")
    leaves, spec = torch.utils._pytree.tree_flatten(mask)
    assert len(leaves) == 8
    assert spec.unflatten(leaves).to_dense().equal(mask.to_dense())


def test_masks_without_full_blocks_apart():
    joined = create_block_mask(causal, 1, 1, 6, 6, BLOCK_SIZE=2, separate_full_blocks=False)
    assert joined.full_kv_indices is None
    apart = create_block_mask(causal, 1, 1, 6, 6, BLOCK_SIZE=2)
    assert joined.to_dense().equal(apart.to_dense())


def test_masks_are_combined():
    either = create_mask(or_masks(causal, near), 1, 2, 4, 5)
    wanted = [[[i >= j or abs(i - j) < 3 + h for j in range(5)] for i in range(4)] for h in range(2)]
    assert either[0].tolist() == wanted
    assert create_mask(noop_mask, None, None, 2, 2).all()


@pytest.mark.parametrize(("change", "error", "text"), [
    ({"query": torch.ones(3, 7, 4)}, ArgumentError,
     "query of 3 dimensions — Expected query, key, and value to be 4D tensors"),
    ({"key": torch.ones(2, 3, 9, 4, dtype=torch.int32)}, ArgumentTypeError,
     "Expected query, key, and value to have the same dtype"),
    ({"key": torch.ones(2, 3, 9, 6)}, ShapeError, "Expect query and key to have the same embedding dimension"),
    ({"value": torch.ones(2, 3, 8, 5)}, ShapeError, "there is a value for each key"),
    ({"query": torch.ones(2, 6, 7, 4)}, ShapeError, "Expect query and key/value to have the same number of heads"),
    ({"query": torch.ones(2, 4, 7, 4), "enable_gqa": True}, ShapeError,
     "Expect number of query heads to be a multiple of kv heads"),
    ({"block_mask": create_block_mask(causal, None, None, 4, 9)}, ShapeError,
     "7 queries and 9 keys .* — block_mask was created for at least as many"),
    ({"return_lse": True, "return_aux": AuxRequest()}, UnsupportedOperator, "one of them says what is returned"),
])
def test_errors(change, error, text):
    call = {"query": torch.ones(2, 3, 7, 4), "key": torch.ones(2, 3, 9, 4), "value": torch.ones(2, 3, 9, 5)}
    with pytest.raises(error, match=r"^\[flex_attention\] .*" + text):
        flex_attention(**(call | change))


def test_errors_of_masks():
    with pytest.raises(ArgumentError, match="BlockMask must have at least 2 dimensions"):
        BlockMask.from_kv_blocks(torch.ones((), dtype=torch.int32), torch.ones(1, dtype=torch.int32))
    blocks = torch.ones(1, 1, dtype=torch.int32), torch.zeros(1, 1, 1, dtype=torch.int32)
    with pytest.raises(ArgumentError, match="full_kv_num_blocks and full_kv_indices must be both provided or omitted"):
        BlockMask.from_kv_blocks(*blocks, full_kv_num_blocks=blocks[0])
