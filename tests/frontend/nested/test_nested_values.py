"""Values of nested tensors against NumPy, component by component, and gradients against finite differences."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest

import tensocket as torch
import tensocket.nn.functional as F
from tensocket.nested import as_nested_tensor, masked_select, narrow, nested_tensor, nested_tensor_from_jagged
from tensocket.nested._internal.nested_tensor import (
    NestedTensor,
    ViewNestedFromBuffer,
    buffer_from_jagged,
    get_tensor_symint,
    nested_view_from_values_offsets_lengths,
)
from tensocket_plugins.contract.errors import UnsupportedOperator

LAYOUTS = [torch.strided, torch.jagged]
SHAPES = [(2, 4), (0, 4), (5, 4), (3, 4)]


def arrays(shapes=tuple(SHAPES), seed=0):
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(shape) for shape in shapes]


def pair(layout, shapes=tuple(SHAPES), **options):
    parts = arrays(shapes)
    return parts, nested_tensor([torch.from_numpy(x) for x in parts], layout=layout, **options)


def agree(nested, expected, tolerance=1e-12):
    components = nested.unbind()
    assert len(components) == len(expected)
    for component, value in zip(components, expected, strict=True):
        assert tuple(component.shape) == value.shape
        np.testing.assert_allclose(component.detach().numpy(), value, rtol=tolerance, atol=tolerance)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True)) if x.size else x
    return e / e.sum(axis, keepdims=True)


def normal(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_facts(layout):
    parts, x = pair(layout)
    assert x.is_nested
    assert x.layout is layout
    assert x.dim() == x.ndim == 3
    assert len(x) == x.size(0) == 4
    assert x.size(2) == x.size(-1) == 4
    assert x.numel() == 40
    assert x.dtype is torch.float64
    assert x.is_contiguous()
    assert not torch.ones(2).is_nested
    assert x._nested_tensor_size().tolist() == [list(shape) for shape in SHAPES]
    assert x._nested_tensor_strides().tolist() == [[4, 1]] * 4
    assert x._nested_tensor_storage_offsets().tolist() == [0, 8, 8, 28]
    agree(x, parts)
    assert x.tolist() == [part.tolist() for part in parts]
    assert [tuple(part.shape) for part in x] == SHAPES
    np.testing.assert_array_equal(x.values().numpy().reshape(-1), np.concatenate([p.reshape(-1) for p in parts]))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("name", "function"), [
    ("sin", np.sin), ("neg", np.negative), ("abs", np.abs), ("exp", np.exp), ("logical_not", np.logical_not),
    ("relu", lambda x: np.maximum(x, 0)), ("sigmoid", lambda x: 1 / (1 + np.exp(-x))), ("isnan", np.isnan)])
def test_functions_of_one(layout, name, function):
    parts, x = pair(layout)
    agree(getattr(torch, name)(x), [function(part) for part in parts])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_functions_of_two(layout):
    parts, x = pair(layout)
    y = x.cos()
    cosines = [np.cos(part) for part in parts]
    agree(x + y, [a + b for a, b in zip(parts, cosines, strict=True)])
    agree(x * y - y / 2, [a * b - b / 2 for a, b in zip(parts, cosines, strict=True)])
    agree(3 - x, [3 - part for part in parts])
    agree(x * torch.tensor(2.0, dtype=torch.float64), [part * 2 for part in parts])
    agree(x > 0, [part > 0 for part in parts])
    agree(torch.where(x > y, x, y), [np.maximum(a, b) for a, b in zip(parts, cosines, strict=True)])
    agree(x.masked_fill(x > 0, 7.0), [np.where(part > 0, 7.0, part) for part in parts])
    agree(x.clamp(-0.5, 0.5), [part.clip(-0.5, 0.5) for part in parts])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_functions_with_two_results(layout):
    parts, x = pair(layout)
    mantissa, exponent = torch.frexp(x)
    agree(mantissa, [np.frexp(part)[0] for part in parts])
    agree(exponent, [np.frexp(part)[1] for part in parts])


def test_dense_operands_broadcast():
    parts, x = pair(torch.jagged)
    row, column = np.arange(4.0), np.arange(4.0).reshape(4, 1, 1)
    agree(x + torch.from_numpy(row), [part + row for part in parts])
    agree(torch.from_numpy(row.reshape(1, 1, 4)) * x, [part * row for part in parts])
    agree(x * torch.from_numpy(column), [part * k for k, part in enumerate(parts)])
    turned = x.transpose(1, 2)
    agree(turned + torch.from_numpy(column), [part.T + k for k, part in enumerate(parts)])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_changes_in_place(layout):
    parts, x = pair(layout)
    assert x.add_(1) is x
    x *= 2
    agree(x, [(part + 1) * 2 for part in parts])
    x[0].fill_(5.0)
    assert x.values().reshape(-1)[:8].tolist() == [5.0] * 8
    y = torch.empty_like(x)
    assert y.copy_(x) is y
    assert torch.equal(x, y)
    assert torch.allclose(x, y)
    y.zero_()
    agree(y, [part * 0 for part in parts])
    assert not torch.equal(x, y)
    assert x.is_same_size(y)
    leaf = nested_tensor([torch.ones(2)], requires_grad=True)
    z = leaf * 1
    z.mul_(3)
    z.backward(torch.ones_like(z))
    assert leaf.grad.tolist() == [[3.0, 3.0]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies(layout):
    parts, x = pair(layout, requires_grad=True)
    assert x.requires_grad
    assert x.is_leaf
    assert x.to(x.dtype) is x
    assert x.to(torch.ones(1, dtype=x.dtype)) is x
    assert x.contiguous() is x
    assert not x.detach().requires_grad
    assert x.float().dtype is torch.float32
    assert x.to(torch.int64).layout is layout
    single = x.detach().to(torch.float32)
    agree(single, parts, 1e-6)
    copied = copy.deepcopy(x)
    assert copied.requires_grad
    assert copied.data_ptr() != x.data_ptr()
    agree(copied, parts)
    buffer = io.BytesIO()
    torch.save(x.detach(), buffer)
    buffer.seek(0)
    agree(torch.load(buffer, weights_only=False), parts)
    agree(torch.ones_like(x), [np.ones_like(part) for part in parts])
    assert torch.zeros_like(x, requires_grad=True).requires_grad
    assert torch.randn_like(x).is_same_size(x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_dimensions(layout):
    parts, x = pair(layout)
    turned = x.transpose(1, 2)
    assert not turned.is_contiguous()
    assert turned._base is x
    agree(turned, [part.T for part in parts])
    agree(turned.contiguous(), [part.T for part in parts])
    agree(turned.clone(), [part.T for part in parts])
    agree(turned * 2, [part.T * 2 for part in parts])
    agree(x.unsqueeze(2), [part[:, None] for part in parts])
    agree(x.unsqueeze(2).squeeze(2), parts)
    agree(x.view(4, -1, 2, 2), [part.reshape(-1, 2, 2) for part in parts])
    agree(x.reshape(4, -1, 2, 2).flatten(2, 3), parts)
    agree(x.unflatten(-1, (2, 2)), [part.reshape(-1, 2, 2) for part in parts])
    agree(x.select(2, 1), [part[:, 1] for part in parts])
    for k, chunk in enumerate(x.chunk(2, -1)):
        agree(chunk, [part[:, 2 * k:2 * k + 2] for part in parts])
    for chunk, (a, b) in zip(x.split([1, 3], -1), ((0, 1), (1, 4)), strict=True):
        agree(chunk, [part[:, a:b] for part in parts])
    np.testing.assert_array_equal(x[2].numpy(), parts[2])
    np.testing.assert_array_equal(x[-1, 1:, 0].numpy(), parts[3][1:, 0])
    agree(torch.cat([x, x]), parts + parts)
    agree(torch.cat([x, x * 2], -1), [np.concatenate([part, 2 * part], -1) for part in parts])


def test_dimensions_of_jagged():
    parts, x = pair(torch.jagged, ((2, 3, 4), (5, 3, 4)))
    size = x.size(1)
    assert isinstance(size, torch.SymInt)
    assert tuple(x.shape) == (2, size, 3, 4)
    assert size == x.shape[1] != 2
    assert size > 1
    assert size >= 2
    assert repr(2 * size) == "2*" + repr(size)
    assert size != 5
    assert len({size, size}) == 1
    assert get_tensor_symint(x.offsets()) == size
    moved = x.permute(0, 2, 3, 1)
    agree(moved, [part.transpose(1, 2, 0) for part in parts])
    assert moved.shape[3] == size
    assert moved.stride()[1:] == (4, 1, 12)
    agree(x.transpose(1, 2).view(2, 3, size, 4), [part.transpose(1, 0, 2) for part in parts])
    agree(x.view(-1, -1, 12), [part.reshape(-1, 12) for part in parts])
    agree(x.view_as(x * 1), parts)
    agree(x.narrow(2, 1, 2), [part[:, 1:] for part in parts])
    one = nested_tensor([torch.ones(2, 1), torch.ones(3, 1)], layout=torch.jagged)
    agree(one.expand(-1, -1, 3), [np.ones((2, 3)), np.ones((3, 3))])
    first, second = x.chunk(2, 0)
    agree(first, parts[:1])
    agree(second, parts[1:])


def test_narrow_of_strided():
    parts, x = pair(torch.strided)
    part = x.narrow(0, 1, 2)
    assert part._base is x
    agree(part, parts[1:3])
    agree(x.sum(-1, keepdim=True), [p.sum(-1, keepdims=True) for p in parts])
    np.testing.assert_allclose(float(x.transpose(1, 2).sum()), sum(p.sum() for p in parts))


@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions_of_jagged(keepdim):
    parts, x = pair(torch.jagged, ((2, 3, 4), (1, 3, 4), (5, 3, 4)))
    everything = np.concatenate(parts)
    agree(x.sum(-1, keepdim=keepdim), [p.sum(-1, keepdims=keepdim) for p in parts])
    agree(x.mean((2, 3), keepdim=keepdim), [p.mean((1, 2), keepdims=keepdim) for p in parts])
    agree(x.amax(-2, keepdim=keepdim), [p.max(-2, keepdims=keepdim) for p in parts])
    lead = [None] if keepdim else [...]
    for name, function in (("sum", np.sum), ("mean", np.mean)):
        whole = function(everything, 0, keepdims=keepdim)[tuple(lead)]
        np.testing.assert_allclose(getattr(x, name)((0, 1), keepdim=keepdim).numpy(), whole)
        rows = np.stack([function(p, 0, keepdims=keepdim) for p in parts])
        np.testing.assert_allclose(getattr(x, name)(1, keepdim=keepdim).numpy(), rows)
        np.testing.assert_allclose(float(getattr(x, name)()), function(everything))
    np.testing.assert_allclose(x.amin(1, keepdim=keepdim).numpy(),
                               np.stack([p.min(0, keepdims=keepdim) for p in parts]))
    np.testing.assert_allclose(x.var(1, correction=0, keepdim=keepdim).numpy(),
                               np.stack([p.var(0, keepdims=keepdim) for p in parts]))
    assert (x > 0).all(-1, keepdim=keepdim).unbind()[0].tolist() == (parts[0] > 0).all(-1, keepdims=keepdim).tolist()


@pytest.mark.parametrize("keepdim", [False, True])
def test_extremes_of_jagged(keepdim):
    parts, x = pair(torch.jagged, ((2, 3, 4), (1, 3, 4), (5, 3, 4)))
    for k in (1, 2):
        largest = x.max(k + 1, keepdim=keepdim)
        agree(largest.values, [p.max(k, keepdims=keepdim) for p in parts])
        agree(largest.indices, [p.argmax(k, keepdims=keepdim) for p in parts])
        agree(x.argmin(k + 1, keepdim=keepdim), [p.argmin(k, keepdims=keepdim) for p in parts])
    turned = x.transpose(1, 2)
    agree(turned.min(1, keepdim=keepdim)[0], [p.transpose(1, 0, 2).min(0, keepdims=keepdim) for p in parts])
    assert float(x.max()) == max(p.max() for p in parts)
    agree(torch.max(x, -x), [np.abs(p) for p in parts])
    with pytest.raises(UnsupportedOperator, match=r"max\(\): not supported for NestedTensor on dim=1"):
        x.max(1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_indices(layout):
    parts, x = pair(layout)
    agree(x[...], parts)
    agree(x[..., 1], [p[..., 1] for p in parts])
    x[0] = 1.0
    x[2, 1:, 0] = torch.zeros(4, dtype=torch.float64)
    np.testing.assert_array_equal(x[0].numpy(), np.ones((2, 4)))
    expected = parts[2].copy()
    expected[1:, 0] = 0
    np.testing.assert_array_equal(x[2].numpy(), expected)
    assert x.new_tensor([1.0]).tolist() == [1.0]
    agree(F.softsign(x[...].detach()), [p / (1 + abs(p)) for p in (np.ones((2, 4)), parts[1], expected, parts[3])])


def test_padded_operands():
    parts, x = pair(torch.jagged)
    padded = np.random.default_rng(5).standard_normal((4, 5, 4))
    agree(x * torch.from_numpy(padded), [p * q[:len(p)] for p, q in zip(parts, padded, strict=True)])
    agree(x + torch.from_numpy(padded[..., :1]), [p + q[:len(p), :1] for p, q in zip(parts, padded, strict=True)])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_and_products(layout):
    parts, x = pair(layout, ((2, 4), (5, 4), (3, 4)))
    weight = np.random.default_rng(1).standard_normal((3, 4))
    agree(F.softmax(x, -1), [softmax(p, -1) for p in parts])
    agree(F.softmax(x, 1), [softmax(p, 0) for p in parts])
    agree(F.log_softmax(x, 1), [np.log(softmax(p, 0)) for p in parts])
    agree(F.layer_norm(x, (4,)), [normal(p) for p in parts], 1e-9)
    agree(F.linear(x, torch.from_numpy(weight)), [p @ weight.T for p in parts])
    agree(x @ torch.from_numpy(weight.T.copy()), [p @ weight.T for p in parts])
    agree(torch.matmul(x, x.transpose(1, 2)), [p @ p.T for p in parts])
    many = np.random.default_rng(2).standard_normal((3, 4, 2))
    agree(torch.bmm(x, torch.from_numpy(many)), [p @ m for p, m in zip(parts, many, strict=True)])
    squares = [p.T @ p for p in parts]
    product = x.transpose(1, 2) @ x
    for got, value in zip(product.unbind(), squares, strict=True):
        np.testing.assert_allclose(got.numpy(), value)
    attended = F.scaled_dot_product_attention(x, x, x)
    agree(attended, [softmax(p @ p.T / 2, -1) @ p for p in parts], 1e-9)
    heads = x.unflatten(-1, (2, 2)).transpose(1, 2)
    expected = [np.stack([softmax(h @ h.T / np.sqrt(2), -1) @ h for h in p.reshape(-1, 2, 2).transpose(1, 0, 2)])
                for p in parts]
    agree(F.scaled_dot_product_attention(heads, heads, heads), expected, 1e-9)
    if layout is torch.jagged:
        np.testing.assert_array_equal(x.masked_select(x > 0).numpy(), np.concatenate([p[p > 0] for p in parts]))
    indices = [np.array([1, 0, 2]), np.array([2])]
    table = torch.from_numpy(weight)
    agree(F.embedding(nested_tensor([torch.from_numpy(i) for i in indices], layout=layout), table),
          [weight[i] for i in indices])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_padding(layout):
    parts, x = pair(layout)
    expected = np.full((4, 5, 4), 7.0)
    for row, part in zip(expected, parts, strict=True):
        row[:len(part)] = part
    np.testing.assert_array_equal(torch.nested.to_padded_tensor(x, 7.0).numpy(), expected)
    np.testing.assert_array_equal(x.to_padded_tensor(7.0).numpy(), expected)
    larger = torch.nested.to_padded_tensor(x, 7.0, (4, 6, 5)).numpy()
    np.testing.assert_array_equal(larger[:, :5, :4], expected)
    assert (larger[:, 5:] == 7).all()
    assert (larger[:, :, 4:] == 7).all()
    assert larger.shape == (4, 6, 5)
    out = torch.empty(0, dtype=torch.float64)
    assert torch.nested.to_padded_tensor(x, 7.0, out=out) is out
    np.testing.assert_array_equal(out.numpy(), expected)
    several = [np.ones((1, 3)), np.ones((2, 2))]
    padded = torch.nested.to_padded_tensor(nested_tensor([torch.from_numpy(p) for p in several]), 0.0)
    assert padded.tolist() == [[[1, 1, 1], [0, 0, 0]], [[1, 1, 0], [1, 1, 0]]]


def test_views_of_a_dense_tensor():
    values = torch.from_numpy(np.arange(14.0).reshape(7, 2))
    x = nested_tensor_from_jagged(values, torch.tensor([0, 2, 2, 7]))
    assert x._base is values
    assert isinstance(x, NestedTensor)
    assert x.lengths() is None
    agree(x, [values.numpy()[:2], values.numpy()[2:2], values.numpy()[2:]])
    y = nested_tensor_from_jagged(values, lengths=torch.tensor([3, 4]))
    assert y.offsets().tolist() == [0, 3, 7]
    z = nested_tensor_from_jagged(values, torch.tensor([0, 3, 7]), torch.tensor([1, 2]), min_seqlen=1, max_seqlen=2)
    agree(z, [values.numpy()[:1], values.numpy()[3:5]])
    assert not z.is_contiguous()
    assert z.contiguous().is_contiguous()
    assert z._max_seqlen == 2
    assert z._min_seqlen == 1
    assert "lengths=tensor([1, 2])" in repr(z)
    agree(z.contiguous(), [values.numpy()[:1], values.numpy()[3:5]])
    np.testing.assert_array_equal(z.sum((0, 1)).numpy(), values.numpy()[[0, 3, 4]].sum(0))
    agree(nested_view_from_values_offsets_lengths(values, z.offsets(), z.lengths()), [values[:1].numpy(),
                                                                                     values[3:5].numpy()])
    assert ViewNestedFromBuffer.apply(values, x.offsets(), {"max_seqlen": 9})._max_seqlen == 9
    assert buffer_from_jagged(x).data_ptr() == values.data_ptr()
    part = narrow(values.unsqueeze(0).expand(2, 7, 2).contiguous(), 1, torch.tensor([0, 4]), torch.tensor([2, 3]),
                  layout=torch.jagged)
    agree(part, [values.numpy()[:2], values.numpy()[4:]])
    agree(narrow(values.reshape(1, 7, 2), 1, 1, 3, layout=torch.jagged), [values.numpy()[1:4]])
    selected = masked_select(values, values > 8)
    agree(selected, [row[row > 8] for row in values.numpy()])
    agree(masked_select(values, torch.tensor([True, False])), [row[:1] for row in values.numpy()])
    for layout in LAYOUTS:
        batch = torch.from_numpy(np.arange(12.0).reshape(2, 3, 2))
        of_batch = as_nested_tensor(batch, layout=layout)
        assert of_batch._base is batch
        assert as_nested_tensor(of_batch, layout=layout) is of_batch
        agree(of_batch, list(batch.numpy()))


def test_padded_tensors_become_nested():
    data = torch.from_numpy(np.arange(24.0).reshape(2, 3, 4))
    mask = torch.tensor([[True, True, False], [True, True, True]])
    made = torch._nested_tensor_from_mask(data, mask)
    agree(made, [data.numpy()[0, :2], data.numpy()[1]])
    assert torch._nested_tensor_from_mask_left_aligned(data, mask)
    assert not torch._nested_tensor_from_mask_left_aligned(data, ~mask)
    agree(torch._nested_from_padded(data, torch.tensor([[1, 2], [3, 4]])), [data.numpy()[0, :1, :2], data.numpy()[1]])
    agree(torch._nested_from_padded_and_nested_example(data, made), [data.numpy()[0, :2], data.numpy()[1]])
    heads = data.reshape(2, 2, 3, 2)
    merged = heads.numpy().transpose(0, 2, 1, 3).reshape(2, 3, 4)
    agree(torch._nested_from_padded(heads, torch.tensor([[2, 4], [3, 4]]), True), [merged[0, :2], merged[1]])


def test_printing():
    assert repr(nested_tensor([])) == "nested_tensor([\n\n])"
    assert repr(nested_tensor([torch.tensor([[1, 2]])])) == "nested_tensor([\n  tensor([[1, 2]])\n])"
    text = repr(nested_tensor([torch.ones(2)], layout=torch.jagged, requires_grad=True) * 2)
    assert text.startswith("NestedTensor(size=(1, j")
    assert "offsets=tensor([0, 2]), grad_fn=<" in text


#: Functions of a nested tensor that make a dense one; gradients of all of them are checked.
FUNCTIONS = {
    "pointwise": lambda x: (x.sin() * x + x / 3).to_padded_tensor(0.5),
    "values": lambda x: x.values().square(),
    "softmax": lambda x: F.softmax(x, 1).to_padded_tensor(0.0),
    "layer_norm": lambda x: F.layer_norm(x, (4,)).to_padded_tensor(0.0),
    "linear": lambda x: F.linear(x, torch.arange(12.0, dtype=x.dtype).reshape(3, 4)).to_padded_tensor(1.0),
    "transpose": lambda x: x.transpose(1, 2).contiguous().to_padded_tensor(0.0),
    "view": lambda x: x.reshape(3, -1, 2, 2).to_padded_tensor(0.0),
    "chunk": lambda x: torch.cat([part.contiguous() for part in x.chunk(2, -1)[::-1]], -1).to_padded_tensor(0.0),
    "component": lambda x: x[1].exp(),
    "attention": lambda x: F.scaled_dot_product_attention(x, x.sin(), x).to_padded_tensor(0.0),
    "matmul": lambda x: torch.matmul(x, x.transpose(1, 2))[2],
    "cat": lambda x: torch.cat([x, x * x]).to_padded_tensor(0.0),
    "sum": lambda x: x.sum(-1, keepdim=True).to_padded_tensor(0.0).square(),
    "dropout": lambda x: F.dropout(x, 0.0).to_padded_tensor(0.0),
    "masked_fill": lambda x: x.masked_fill(x.detach() > 0, 0.0).to_padded_tensor(0.0),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(layout, name):
    leaves = [torch.from_numpy(x).requires_grad_() for x in arrays(((2, 4), (1, 4), (3, 4)))]

    def function(*parts):
        return FUNCTIONS[name](as_nested_tensor(list(parts), layout=layout))

    assert torch.autograd.gradcheck(function, leaves)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_leaves(layout):
    parts, x = pair(layout, requires_grad=True)
    y = x * x
    y.backward(torch.ones_like(x) * 3)
    agree(x.grad, [6 * part for part in parts])
    assert x.grad is x.grad
    assert x.grad.layout is layout
    (x * 2).backward(torch.ones_like(x))
    agree(x.grad, [6 * part + 2 for part in parts])
    x.grad = torch.ones_like(x)
    (x * 2).backward(torch.ones_like(x))
    agree(x.grad, [np.full_like(part, 3.0) for part in parts])
    x.grad = None
    assert x.grad is None
    (gradient,) = torch.autograd.grad((x * x).values().sum(), x)
    agree(gradient, [2 * part for part in parts])
    (gradient,) = torch.autograd.grad(x.sin(), (x,), torch.ones_like(x))
    agree(gradient, [np.cos(part) for part in parts])
    torch.autograd.backward([x * x, x * 3], [torch.ones_like(x), torch.ones_like(x)])
    agree(x.grad, [2 * part + 3 for part in parts])
    x.grad = None
    turned = (x * 1).transpose(1, 2)
    turned.backward(torch.ones_like(turned) * 2)
    agree(x.grad, [np.full_like(part, 2.0) for part in parts])
    del x.grad
    assert x.grad is None
