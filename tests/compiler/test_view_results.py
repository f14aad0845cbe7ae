"""Functions that return views of tensors that were there before are graphs, and their views are the function's own."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tensocket as torch
from tensocket_compiler.capture.layout import LAYOUT

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")
CALLS = 6
KEPT = torch.arange(9.0).reshape(3, 3)

FUNCTIONS = {
    "view": lambda x: x.view(-1), "window": lambda x: x[1:, ::2].t(), "rows": lambda x: x.unbind(),
    "halves": lambda x: x.chunk(2, 1), "beside new": lambda x: (x[0], x * 2, x.T), "detached": lambda x: x.detach(),
    "of a captured tensor": lambda x: (KEPT[1], x + 1), "expanded": lambda x: {"a": [x[None].expand(2, 4, 6)]},
    "diagonal": lambda x: torch.diagonal(x, 1), "bits": lambda x: x.view(torch.int32),
}


def leaves(result):
    return torch.utils._pytree.tree_leaves(result)


def reason(function, *args):
    return str(torch._dynamo.explain(function)(*args)).splitlines()[1]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_views_are_those_of_the_function(name):
    function, compiled = FUNCTIONS[name], torch.compile(FUNCTIONS[name])
    for k in range(CALLS):
        x = torch.from_numpy(np.random.default_rng(k).standard_normal((4, 6)).astype(np.float32))
        found, wanted = leaves(compiled(x)), leaves(function(x))
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            assert (a.shape, a.stride(), a.storage_offset(), a.dtype) == (
                b.shape, b.stride(), b.storage_offset(), b.dtype)
            assert a.tolist() == b.tolist()
            assert a._base is b._base
            assert a._is_view() == b._is_view()
            assert (a.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()) == (
                b.untyped_storage().data_ptr() == x.untyped_storage().data_ptr())
    assert "tier: graph" in str(torch._dynamo.explain(function)(x))


def test_memory_and_versions_are_shared():
    compiled = torch.compile(lambda x: x[1])
    for _ in range(CALLS):
        x = torch.zeros(3, 2)
        row = compiled(x)
        row.add_(1)
        assert x.tolist() == [[0, 0], [1, 1], [0, 0]]
        assert x._version == row._version == 1
        x.zero_()
        assert row.tolist() == [0, 0]
        assert row._version == 2


def test_gradients_flow_through_views():
    compiled = torch.compile(lambda x: (x[1], x.T))
    for _ in range(CALLS):
        x = torch.arange(6.0).reshape(3, 2).requires_grad_()
        row, turned = compiled(x)
        assert row.grad_fn is not None
        assert not row.is_leaf
        (first,) = torch.autograd.grad((row ** 2).sum() + turned[0].sum(), x)
        assert first.tolist() == [[1, 0], [5, 6], [1, 0]]
        with pytest.raises(RuntimeError, match="leaf"):
            row.add_(1)


def test_views_of_several_keep_their_mark():
    compiled = torch.compile(lambda x: x.unbind())
    for _ in range(CALLS):
        x = torch.ones(2, 2, requires_grad=True) * 1
        with pytest.raises(RuntimeError, match="unbind, which returns multiple views"):
            compiled(x)[0].add_(1)


def test_no_argument_is_kept():
    compiled = torch.compile(lambda x: (x[0], x + 1))

    def call(k):
        x = torch.full((3, 2), float(k))
        compiled(x)
        return weakref.ref(x)
    held = [call(k) for k in range(CALLS)][2:]  # guards keep the arguments of the observed call
    gc.collect()
    assert all(x() is None for x in held)


def test_other_sizes_and_modes():
    compiled = torch.compile(lambda x: x[..., 1:])
    for rows in (2, 3, 4, 5, 6):
        for _ in range(CALLS):
            x = torch.randn(rows, 4)
            assert compiled(x).tolist() == x[:, 1:].tolist()
    x = torch.randn(2, 4, requires_grad=True)
    for _ in range(CALLS):
        assert compiled(x).grad_fn is not None
        with torch.no_grad():
            rest = compiled(x)
        assert rest.requires_grad  # a view of a leaf is one
        assert rest.grad_fn is None
        with torch.inference_mode():
            assert compiled(x).is_inference() == x[..., 1:].is_inference()


def scaled(x):
    return x[0], x * 2


def modified(x):
    x.mul_(2)
    return x[0]


def twice(x):
    row = x[0]
    return row, row


def below_the_end_of_a_graph(x):
    with torch.no_grad():
        row = x[0]
    return row[1:]


@pytest.mark.parametrize(("function", "tensor", "text"), [
    (scaled, torch.ones(2, 2, requires_grad=True), "a view with a graph beside new tensors with one"),
    (lambda x: x.detach()[0], torch.ones(2, 2), "a view that its operators don't make again"),
    (twice, torch.ones(2, 2), "a view twice"),
    (below_the_end_of_a_graph, torch.ones(2, 2, requires_grad=True), "a view of a view that ends its graph"),
])
def test_others_run_eagerly(function, tensor, text):
    for _ in range(CALLS):
        assert leaves(torch.compile(function)(tensor))[0].tolist() == leaves(function(tensor))[0].tolist()
    assert text in reason(function, tensor)


def test_no_gradient_passes_the_end_of_a_graph():
    compiled = torch.compile(below_the_end_of_a_graph)
    for _ in range(CALLS):
        x = torch.ones(2, 3, requires_grad=True)
        compiled(x).sum().backward()
        assert x.grad is None


def test_a_tensor_with_a_graph_that_is_modified():
    compiled = torch.compile(modified)
    for _ in range(CALLS):
        leaf = torch.ones(2, 2, requires_grad=True)
        x = leaf * 3
        compiled(x).sum().backward()
        assert leaf.grad.tolist() == [[6, 6], [0, 0]]
