"""Core on its own: keys, dispatch, launches, gradients and transforms, with toy operators as the only ones."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tensocket_core import autograd
from tensocket_core.device import open_device
from tensocket_core.dispatch.modes import no_grad
from tensocket_core.keys import AUTOGRAD, DIM0, describe_key, dtype_bit
from tensocket_core.transforms import grad, jvp, vjp, vmap
from tensocket_plugins.contract.dtypes import float32, float64, int64
from tensocket_plugins.contract.errors import AutogradError, DeviceMismatch

A, B = np.array([1.5, -2.0, 3.0]), np.array([0.5, 4.0, -1.0])


def test_core_imports_no_operators():
    code = "import sys, tensocket_core; print([name for name in sys.modules if name.startswith('tensocket_operators')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_keys_say_what_a_tensor_is(toys):
    x = toys.tensor(A, requires_grad=True)
    assert x._key == open_device("ref").key | dtype_bit(float64) | AUTOGRAD
    assert toys.tensor(2.0)._key & DIM0
    assert "float64" in describe_key(x._key)
    assert "autograd" in describe_key(x._key).lower()


def test_a_closure_is_made_once_for_a_key(toys):
    x = toys.tensor(A)
    toys.MUL.table.clear()
    np.testing.assert_array_equal(toys.values(toys.mul(x, x)), A * A)
    (closure,) = toys.MUL.table.values()
    toys.mul(x, x)
    assert list(toys.MUL.table.values()) == [closure]


def test_programs_are_compiled_once(toys):
    state = open_device("ref")
    toys.add(toys.tensor(A, dtype=float32), toys.tensor(B, dtype=float32))
    before = len(state.programs)
    result = toys.add(toys.tensor(B, dtype=float32), toys.tensor(B, dtype=float32))
    assert len(state.programs) == before
    np.testing.assert_array_equal(toys.values(result), (B + B).astype(np.float32))


def test_dtypes_are_promoted(toys):
    result = toys.add(toys.tensor([1, 2], dtype=int64), toys.tensor([0.5, 0.25], dtype=float32))
    assert result.dtype is float32
    np.testing.assert_array_equal(toys.values(result), [1.5, 2.25])


def test_devices_do_not_mix(toys):
    x = toys.tensor(A)
    other = toys.tensor(A)
    other._key = other._key & ~open_device("ref").key | open_device("ref:1").key
    with pytest.raises(DeviceMismatch, match="toy_add"):
        toys.add(x, other)


def test_functions_from_outside_replace_a_device_or_a_layer(toys):
    x = toys.tensor(A, requires_grad=True)
    try:
        toys.ADD.overrides["ref"] = lambda a, b: "device"
        toys.ADD.table.clear()
        with no_grad():
            assert toys.add(toys.tensor(A), toys.tensor(A)) == "device"
        toys.ADD.overrides["Autograd"] = lambda a, b: "layer"
        toys.ADD.table.clear()
        assert toys.add(x, x) == "layer"
    finally:
        toys.ADD.overrides.clear()
        toys.ADD.table.clear()


def test_gradients_of_a_polynomial(toys):
    x, y = toys.tensor(A, requires_grad=True), toys.tensor(B, requires_grad=True)
    z = toys.add(toys.mul(toys.mul(x, x), y), x)
    gx, gy = autograd.grad(z, (x, y), [toys.tensor(np.ones(3))])
    np.testing.assert_allclose(toys.values(gx), 2 * A * B + 1)
    np.testing.assert_allclose(toys.values(gy), A * A)


def test_gradients_of_gradients(toys):
    x = toys.tensor(A, requires_grad=True)
    cube = toys.mul(toys.mul(x, x), x)
    first, = autograd.grad(cube, x, [toys.tensor(np.ones(3))], create_graph=True)
    second, = autograd.grad(first, x, [toys.tensor(np.ones(3))])
    np.testing.assert_allclose(toys.values(first), 3 * A ** 2)
    np.testing.assert_allclose(toys.values(second), 6 * A)


def test_backward_accumulates_in_leaves(toys):
    x = toys.tensor(3.0, requires_grad=True)
    toys.mul(x, x).backward()
    toys.mul(x, x).backward()
    assert toys.values(x.grad) == 12.0


def test_hooks_see_and_replace_gradients(toys):
    x = toys.tensor(3.0, requires_grad=True)
    y = toys.mul(x, x)
    seen = []
    y.register_hook(lambda g: seen.append(float(toys.values(g))) or toys.add(g, g))
    y.backward()
    assert seen == [1.0]
    assert toys.values(x.grad) == 12.0


def test_a_graph_is_freed_by_its_pass(toys):
    x = toys.tensor(A, requires_grad=True)
    y = toys.mul(x, x)
    ones = [toys.tensor(np.ones(3))]
    autograd.grad(y, x, ones)
    with pytest.raises(AutogradError, match="retain_graph"):
        autograd.grad(y, x, ones)


def test_values_changed_after_saving_are_noticed(toys):
    x, w = toys.tensor(A, requires_grad=True), toys.tensor(B)
    y = toys.mul(x, w)
    with no_grad():
        w.add_(w)
    assert w._version == 1
    with pytest.raises(AutogradError, match="modified"):
        autograd.grad(y, x, [toys.tensor(np.ones(3))])


def test_transforms(toys):
    x, v = toys.tensor(2.0), toys.tensor(1.0)
    cube = lambda a: toys.mul(toys.mul(a, a), a)
    assert toys.values(grad(cube)(x)) == 12.0
    assert toys.values(grad(grad(cube))(x)) == 12.0
    assert toys.values(vjp(cube, x)[1](v)[0]) == 12.0
    primal, tangent = jvp(cube, (x,), (v,))
    assert toys.values(primal) == 8.0
    assert toys.values(tangent) == 12.0


def test_batches(toys):
    x, y = toys.tensor(A), toys.tensor(B)
    np.testing.assert_allclose(toys.values(vmap(toys.mul)(x, y)), A * B)
