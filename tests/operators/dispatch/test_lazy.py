"""Lazily conjugated and negated tensors: views whose memory holds the conjugates or negatives of their elements."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_core import keys
from tensocket_core.dispatch.lazy import Lazy
from tensocket_core.launch.stream_use import note_use
from tensocket_operators import functions as F
from tensocket_operators.transforms import grad, jvp, vmap
from tensocket_plugins.contract.errors import DtypeError

A = np.array([[1 + 2j, 3 - 1j], [0.5 + 0.25j, -2 + 4j]])
B = np.array([[2 - 1j, 1 + 1j], [1j, 3.0]])


def values(x):
    """Elements, without the way that is tested where they lie in memory."""
    plain = np.array(x.untyped_storage().tolist(), np.uint8).view(x.dtype.numpy)
    steps = tuple(s * x.dtype.itemsize for s in x.stride())
    found = np.lib.stride_tricks.as_strided(plain[x.storage_offset():], tuple(x.shape), steps)
    found = found.conj() if x.is_conj() else found
    return -found if x.is_neg() else found


def near(x, expected):
    np.testing.assert_allclose(values(x.detach()), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(x.detach().tolist(), expected, rtol=1e-12, atol=1e-12)


def made(array, requires_grad=False):
    return tc.tensor(array.copy(), requires_grad=requires_grad)


# ------------------------------------------------------------------------------------------------------------ views


def test_conjugates_are_views():
    x = made(A)
    c = x.conj()
    assert c.is_conj()
    assert not x.is_conj()
    assert c.data_ptr() == x.data_ptr()
    assert c._base is x
    assert c._version_counter is x._version_counter
    near(c, A.conj())
    near(x.mH, A.conj().T)
    near(x.H, A.conj().T)
    near(F.adjoint(x), A.conj().T)
    assert x.mH.is_conj()
    assert x.mH._base is x
    assert not c.conj().is_conj()
    near(c.conj(), A)
    assert c.resolve_conj() is not c
    assert x.resolve_conj() is x
    assert not c.resolve_conj().is_conj()
    near(c.resolve_conj(), A.conj())


def test_parts_of_conjugates_are_negated_views():
    x = made(A)
    part = x.conj().imag
    assert part.is_neg()
    assert part.data_ptr() == x.imag.data_ptr()
    near(part, -A.imag)
    near(x.conj().real, A.real)
    assert not x.conj().real.is_neg()
    both = F._neg_view(x.conj())
    near(both, -A.conj())
    near(both.imag, A.imag)
    assert not both.imag.is_neg()
    near(both.real, -A.real)
    near(both.resolve_neg(), -A.conj())
    near(F.view_as_real(F._neg_view(x)), -np.stack([A.real, A.imag], -1))


@pytest.mark.parametrize("view", [
    lambda x: x[0], lambda x: x[:, 1:], lambda x: x[..., None], lambda x: x.t(), lambda x: x.view(4), lambda x: x.mT,
    lambda x: x.reshape(4), lambda x: x.flatten(), lambda x: x.expand(3, 2, 2), lambda x: x.diagonal(),
    lambda x: x.as_strided((2,), (1,)), lambda x: x.unbind()[1], lambda x: x.split(1)[0], lambda x: x.detach(),
    lambda x: x.data, lambda x: x.contiguous(), lambda x: x.squeeze(), lambda x: x.unfold(0, 1, 1), lambda x: x.alias(),
])
def test_views_of_conjugates_are_conjugates(view):
    x, y = made(A), made(A.conj())
    assert view(x.conj()).is_conj()
    assert view(x.conj()).data_ptr() == view(x).data_ptr()
    near(view(x.conj()), values(view(y)))


@pytest.mark.parametrize("function", [
    lambda x: x.clone(), lambda x: x[[0, 1]], lambda x: x.to(tc.complex64), lambda x: x + 0, lambda x: x.mT.reshape(4),
    tc.zeros_like, lambda x: x.new_zeros(1),
    lambda x: tc.tensor(x), lambda x: x.conj_physical(), lambda x: x.to("meta"),
])
def test_new_tensors_are_resolved(function):
    assert not function(made(A).conj()).is_conj()


def test_meta_tensors_are_conjugated():
    x = tc.empty(2, 3, dtype=tc.complex64, device="meta")
    assert x.conj().is_conj()
    assert x.mH.is_conj()
    assert x.conj().imag.is_neg()
    assert not (x.conj() * 2).is_conj()


# ----------------------------------------------------------------------------------------------------------- writing


def test_writing_a_conjugate_changes_its_base():
    x, expected = made(A), A.copy()
    c = x.conj()
    c[0] = 5 + 1j
    expected[0] = 5 - 1j
    c.mul_(2j)
    expected = (expected.conj() * 2j).conj()
    c.imag.mul_(3)
    expected = expected.real + 3j * expected.imag
    c.copy_(c.conj())
    expected = expected.conj()
    c[[1]] = made(B)[:1].conj()
    expected[1] = B[0]
    c += x
    expected = expected + expected.conj()
    near(x, expected)
    near(c, expected.conj())
    assert x._version == c._version == 6


@pytest.mark.parametrize(("write", "expected"), [
    (lambda c: c.zero_(), lambda a: a * 0), (lambda c: c.fill_(2j), lambda a: a * 0 + 2j),
    (lambda c: c.tril_(), np.tril), (lambda c: c.masked_fill_(tc.tensor([True, False]), 1j),
                                     lambda a: np.where([True, False], 1j, a)),
    (lambda c: c.index_fill_(0, tc.tensor([0]), 3j), lambda a: np.stack([a[0] * 0 + 3j, a[1]])),
    (lambda c: c.addmm_(made(A), made(B)), lambda a: a + A @ B), (lambda c: c.conj_physical_(), np.conj),
    (lambda c: c.index_put_((tc.tensor([0]),), tc.tensor(7j, dtype=tc.complex128)),
     lambda a: np.stack([a[0] * 0 + 7j, a[1]])),
    (lambda c: c.scatter_(0, tc.tensor([[0, 1]]), made(B)),
     lambda a: np.array([[B[0, 0], a[0, 1]], [a[1, 0], B[0, 1]]])),
    (lambda c: c.t_(), lambda a: a.T), (lambda c: c.unsqueeze_(0), lambda a: a[None]),
    (lambda c: c.resize_(1, 2), lambda a: a[:1]), (lambda c: c.__ipow__(2), lambda a: a**2),
])
def test_in_place_operators_on_conjugates(write, expected):
    x = made(A.conj())
    c = x.conj()
    assert write(c) is c
    assert c.is_conj()
    near(c, expected(A))


def test_out_may_be_conjugated():
    memory = tc.zeros(2, 2, dtype=tc.complex128)
    c = memory.conj()
    assert F.mul(made(A), made(B), out=c) is c
    near(memory, (A * B).conj())
    F.matmul(made(A), made(B), out=c)
    near(memory, (A @ B).conj())
    F.cumsum(made(A), 0, out=memory.mH)
    near(memory, A.cumsum(0).conj().T)
    parts = tc.zeros(2, 2, dtype=tc.float64)
    F.abs(made(A), out=F._neg_view(parts))
    near(parts, -np.abs(A))
    large = tc.zeros(9000, dtype=tc.float32)
    F.add(tc.ones(9000), tc.ones(9000), out=F._neg_view(large))
    assert (values(large) == -2).all()


def test_memory_of_conjugates():
    x = made(A)
    c = tc.zeros(2, 2, dtype=tc.complex128).conj()
    c.set_(x)
    near(c, A.conj())
    d = tc.zeros(1, dtype=tc.complex128)
    d.data = x.conj()
    near(d, A.conj())
    assert c.untyped_storage() is x.untyped_storage()
    grown = x.clone().conj()
    grown.resize_(3, 2)
    near(grown[:2], A.conj())


# --------------------------------------------------------------------------------------------------------- gradients


def test_gradients_through_conjugates():
    x = made(A, True)
    (x.conj() * made(B)).real.sum().backward()
    near(x.grad, B)
    assert not x.grad.is_conj()
    given, = tc.autograd.grad(x.conj(), x, made(B).conj())
    near(given, B)
    x.conj().imag.sum().backward()
    near(x.grad, B - 1j)
    (x.mH.imag * 2).sum().backward(made(np.array(3.0)))
    near(x.grad, B - 7j)


def test_gradients_of_lazy_leaves():
    x = made(A).conj().requires_grad_()
    assert x.is_leaf
    for count in (1, 2):
        (x * x.conj()).real.sum().backward()
        near(x.grad, 2 * count * A.conj())
    hooked = made(A, True)
    hooked.register_hook(lambda g: g.conj())
    (hooked * made(B)).real.sum().backward()
    near(hooked.grad, B)


def test_gradients_of_small_arrays_with_negated_operands():
    x = made(A.real, True)
    (F._neg_view(x) * F._neg_view(made(B.real))).sum().backward()
    near(x.grad, B.real)


def test_writes_through_conjugates_are_recorded():
    x = made(A, True)
    w = x * 1
    w.conj().mul_(made(B))  # w is x * conj(B)
    w.imag.mul_(3)
    w.conj()[0].add_(x[0])
    near(w, np.concatenate([((A * B.conj()).real + 3j * (A * B.conj()).imag)[:1] + A[:1].conj(),
                            ((A * B.conj()).real + 3j * (A * B.conj()).imag)[1:]]))
    (w.real * made(A.real) + w.imag * made(B.real)).sum().backward()
    upstream = A.real + 1j * B.real
    expected = (A.real + 3j * B.real) * B
    expected[0] += upstream[0].conj()
    near(x.grad, expected)


def test_a_view_follows_writes_to_its_base():
    x = made(A, True)
    w = x * 1
    part, c = w.conj().imag, w.conj()
    w.mul_(made(B))
    near(part, -(A * B).imag)
    (part + c.real).sum().backward()
    near(x.grad, (1 - 1j) * B.conj())


def test_a_conjugated_base_that_becomes_recorded():
    weight = made(A.real, True)
    base = made(B).conj().detach()
    part = base.real
    part.mul_(weight)
    (base.real * 2 + base.imag).sum().backward()
    near(base, B.real * A.real - 1j * B.imag)
    near(weight.grad, 2 * B.real)


def test_transforms_of_conjugates():
    x = made(A)
    near(vmap(lambda v, w: (v.conj() * w).sum())(x, made(B).conj()), (A.conj() * B.conj()).sum(1))
    near(vmap(lambda v: v.conj().imag)(x), -A.imag)
    value, tangent = jvp(lambda v: v.conj() * v, (x.conj(),), (made(B).mH,))
    near(value, A * A.conj())
    near(tangent, B.conj().T.conj() * A.conj() + A * B.conj().T)
    _, tangent = jvp(lambda v: v.conj().imag * v.real, (x,), (made(B),))
    near(tangent, -B.imag * A.real - A.imag * B.real)
    near(grad(lambda v: v.conj().imag.exp().sum())(x), -1j * np.exp(-A.imag))

    def written(v):
        made_here = v * 1
        made_here.conj().mul_(made(B))
        return made_here

    value, tangent = jvp(written, (x,), (made(A),))
    near(value, A * B.conj())
    near(tangent, A * B.conj())


# ------------------------------------------------------------------------------------------------ ways out of tensors


def test_numbers_of_conjugates():
    c = made(A).conj()
    assert c.tolist() == A.conj().tolist()
    assert c[0, 0].item() == 1 - 2j
    assert complex(c[0, 0]) == 1 - 2j
    assert float(c.imag[0, 0]) == -2.0
    assert repr(c) == repr(made(A.conj()))
    assert repr(c.imag) == repr(made(-A.imag))


def test_copies_of_conjugates():
    c = made(A).conj()
    for other in (pickle.loads(pickle.dumps(c)), copy.copy(c), copy.deepcopy(c)):
        near(other, A.conj())
    assert pickle.loads(pickle.dumps(c)).is_conj()
    assert pickle.loads(pickle.dumps(c.imag)).is_neg()
    assert copy.copy(c).data_ptr() == c.data_ptr()


def test_what_is_refused():
    c, n = made(A).conj(), F._neg_view(made(A.real))
    with pytest.raises(DtypeError, match="view_as_real doesn't work on unresolved conjugated tensors, whose elements "
                                         "are not in memory"):
        F.view_as_real(c)
    with pytest.raises(DtypeError, match=r"\[view_as_complex\] a negated view"):
        F.view_as_complex(n)
    with pytest.raises(DtypeError, match=r"torch.Tensor.view is not supported for conjugate view tensors when "
                                         r"converting to a different dtype"):
        c.view(tc.float64)
    with pytest.raises(DtypeError, match=r"\[view\].*not supported for tensors with negative bit set"):
        n.view(tc.int64)
    assert c.view(tc.complex128).is_conj()
    with pytest.raises(DtypeError, match=r"\[_conj\].*complex dtypes"):
        F._conj(n)
    near(F._conj(made(A)), A.conj())


def test_sparse_tensors_hold_resolved_values():
    c = made(A).conj()
    near(c.to_sparse().to_dense(), A.conj())
    assert not c.to_sparse().is_conj()
    made_of_parts = tc.sparse_coo_tensor(tc.tensor([[0, 1]]), c[0], (3,))
    near(made_of_parts.to_dense(), [*A[0].conj(), 0])
    near(made_of_parts.conj().to_dense(), [*A[0], 0])
    assert not made_of_parts.conj().is_neg()


def test_draws_into_negated_tensors():
    x = tc.zeros(100)
    F._neg_view(x).uniform_(1, 2)
    assert (values(x) < 0).all()


# ---------------------------------------------------------------------------------- what reads memory without asking


def test_lazy_handles_are_no_arrays():
    handle = made(A).conj()._array
    assert isinstance(handle, Lazy)
    assert handle.ndim == 2
    with pytest.raises(TypeError, match="read before they were resolved"):
        np.array(handle)
    with pytest.raises(TypeError, match="does not support ufuncs"):
        np.add(handle, 1)
    with pytest.raises(TypeError, match="a kernel is given a Lazy in place of an array"):
        note_use([handle], tc.ones(1)._device_state.stream)


def test_keys_of_lazy_tensors():
    x = made(A)
    assert keys.describe_key(F._neg_view(x.conj())._key) == "complex128 conj neg"
    assert keys.describe_key(x._key) == "complex128"


def test_neg_view_is_a_method() -> None:
    x = tc.tensor([1.0, -2.0])
    view = x._neg_view()
    assert view.is_neg()
    assert view._base is x
    x.mul_(3)
    assert view.tolist() == [-3.0, 6.0]
