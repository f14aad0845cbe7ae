"""``use_deterministic_algorithms``: the setting, additions in order, filled memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_core.device import open_device
from tensocket_operators import functions as F
from tensocket_operators.deterministic import set_fill_uninitialized_memory
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, UnsupportedOperator
from tensocket_plugins.contract.registry import registry
from tensocket_plugins.ir.memory import GARBAGE


@pytest.fixture(autouse=True)
def setting() -> Iterator[None]:
    yield
    tc.use_deterministic_algorithms(False)
    set_fill_uninitialized_memory(True)


def state() -> tuple[bool, bool, int]:
    return (tc.are_deterministic_algorithms_enabled(), tc.is_deterministic_algorithms_warn_only_enabled(),
            tc.get_deterministic_debug_mode())


def test_the_setting() -> None:
    assert state() == (False, False, 0)
    tc.use_deterministic_algorithms(True)
    assert state() == (True, False, 2)
    tc.use_deterministic_algorithms(True, warn_only=True)
    assert state() == (True, True, 1)
    tc.use_deterministic_algorithms(False)
    assert state() == (False, False, 0)


@pytest.mark.parametrize(("mode", "expected"), [("default", 0), ("warn", 1), ("error", 2), (0, 0), (1, 1), (2, 2)])
def test_the_setting_by_name(mode: Any, expected: int) -> None:
    tc.set_deterministic_debug_mode(mode)
    assert state() == (expected > 0, expected == 1, expected)


def test_wrong_settings() -> None:
    with pytest.raises(ArgumentTypeError, match=r"\[use_deterministic_algorithms\] mode=1 — mode is a bool"):
        tc.use_deterministic_algorithms(1)
    with pytest.raises(ArgumentTypeError, match="warn_only='yes' — warn_only is a bool"):
        tc.use_deterministic_algorithms(True, warn_only="yes")
    for mode in ("loud", 3, -1):
        with pytest.raises(ArgumentError, match=rf"\[set_deterministic_debug_mode\] mode {mode!r} — "
                           "modes are 'default', 'warn' and 'error', or 0, 1 and 2"):
            tc.set_deterministic_debug_mode(mode)
    for mode in (1.5, True, None):
        with pytest.raises(ArgumentTypeError, match="the mode is a string or an int"):
            tc.set_deterministic_debug_mode(mode)
    with pytest.raises(ArgumentTypeError, match=r"\[fill_uninitialized_memory\] value=3 — value is a bool"):
        set_fill_uninitialized_memory(3)
    assert state() == (False, False, 0)


# -------------------------------------------------------------------------------------------------- additions in order


def in_order(size: int, index: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Sums in the dtype of the values, one after the other: every rounding is that of this order."""
    total = np.zeros((size, *values.shape[1:]), values.dtype)
    for position, value in zip(index, values, strict=True):
        total[position] = total[position] + value
    return total


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(500,), (200, 3), (40, 2, 5)])
def test_sums_are_rounded_in_the_order_of_the_indices(device: str, dtype: str, shape: tuple[int, ...]) -> None:
    tc.use_deterministic_algorithms(True)
    rng = np.random.default_rng(3)
    index = rng.integers(0, 4, shape[0])
    values = (rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 6, shape)).astype(dtype)
    expected = in_order(4, index, values)
    where = tc.tensor(index)
    target = tc.zeros(4, *shape[1:], dtype=getattr(tc, dtype))
    put = target.index_put((where,), tc.tensor(values), True)
    np.testing.assert_array_equal(put._values(), expected)
    wide = where.reshape((shape[0], *(1,) * (len(shape) - 1))).expand(shape)
    added = target.scatter_add(0, wide, tc.tensor(values))
    np.testing.assert_array_equal(added._values(), expected)


def test_sums_along_an_inner_dimension(device: str) -> None:
    tc.use_deterministic_algorithms(True)
    rng = np.random.default_rng(4)
    index, values = rng.integers(0, 3, (2, 60, 3)), rng.standard_normal((2, 60, 3)).astype(np.float32)
    expected = np.zeros((2, 3, 3), np.float32)
    for i, k, j in np.ndindex(2, 60, 3):
        expected[i, index[i, k, j], j] += values[i, k, j]
    result = tc.zeros(2, 3, 3).scatter_add(1, tc.tensor(index), tc.tensor(values))
    np.testing.assert_array_equal(result._values(), expected)


def test_gradients_of_indexing_are_ordered() -> None:
    tc.use_deterministic_algorithms(True)
    rng = np.random.default_rng(5)
    index, weights = rng.integers(0, 3, 300), rng.standard_normal((300, 2)).astype(np.float32)
    table = tc.zeros(3, 2, requires_grad=True)
    (table[tc.tensor(index)] * tc.tensor(weights)).sum().backward()
    np.testing.assert_array_equal(table.grad._values(), in_order(3, index, weights))


def test_no_program_with_atomics_is_built_for_floats() -> None:
    device_state = open_device("ref:1")
    tc.use_deterministic_algorithms(True)
    index = tc.tensor([0, 0, 1], device="ref:1")

    def kinds() -> set[Any]:
        return {key[0][-1] for key in device_state.programs if key[0][0] == "scatter_add"}

    tc.zeros(2, device="ref:1", dtype=tc.float16).scatter_add(0, index, tc.ones(3, device="ref:1", dtype=tc.float16))
    assert kinds() == {True}
    tc.zeros(2, device="ref:1", dtype=tc.int64).scatter_add(0, index, index)
    assert kinds() == {True, False}


@pytest.fixture
def unordered(make_plain: Any) -> Iterator[str]:
    """A backend of primitives whose profile does not claim to be deterministic."""
    module = make_plain("unordered", without_features=frozenset({"deterministic"}))
    registry().add(module, name="unordered", distribution="the tests of determinism")
    yield "unordered"
    registry().remove("unordered")


def test_a_device_without_a_deterministic_form(unordered: str) -> None:
    index = tc.tensor([0, 0], device=unordered)

    def add() -> list[float]:
        return tc.zeros(1, device=unordered).scatter_add(0, index, tc.ones(2, device=unordered)).tolist()

    assert add() == [2]
    tc.use_deterministic_algorithms(True)
    said = (r"\[scatter_add\] a tensor on unordered:0 — scatter_add does not have a deterministic implementation, but "
            r"you set 'torch.use_deterministic_algorithms\(True\)'")
    with pytest.raises(UnsupportedOperator, match=said):
        add()
    with pytest.raises(RuntimeError):  # PyTorch's class
        add()
    tc.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match=r"\[scatter_add\] a tensor on unordered:0 — scatter_add does not"):
        assert add() == [2]


# ------------------------------------------------------------------------------------------------------ filled memory


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("bool", True), ("uint8", 255), ("int8", 127), ("int16", 32767), ("int32", 2**31 - 1), ("int64", 2**63 - 1),
     ("float16", math.nan), ("bfloat16", math.nan), ("float32", math.nan), ("float64", math.nan)],
)
def test_uninitialised_memory_is_filled(device: str, supports: Any, dtypes: Any, dtype: str, value: Any) -> None:
    if not supports(dtype):
        return
    tc.use_deterministic_algorithms(True)
    chosen = dtypes[dtype]
    like = tc.zeros(2, dtype=chosen)
    for made in (tc.empty(2, dtype=chosen), tc.empty_like(like), like.new_empty(2)):
        np.testing.assert_array_equal(made.tolist(), [value, value])
    assert like.tolist() == [0, 0]


def test_filling_can_be_turned_off() -> None:
    unfilled = [GARBAGE, GARBAGE]  # the bytes in fresh memory of this device
    tc.use_deterministic_algorithms(True)
    set_fill_uninitialized_memory(False)
    assert tc.empty(2, dtype=tc.uint8).tolist() == unfilled
    set_fill_uninitialized_memory(True)
    assert tc.empty(2, dtype=tc.uint8).tolist() == [255, 255]
    tc.use_deterministic_algorithms(False)
    assert tc.empty(2, dtype=tc.uint8).tolist() == unfilled


def test_what_resizing_adds_shows_that_nobody_wrote_it(device):
    x = tc.zeros(2, 3)
    tc.use_deterministic_algorithms(True)
    try:
        x.resize_(3, 3)
    finally:
        tc.use_deterministic_algorithms(False)
    assert x[:2].tolist() == [[0.0] * 3] * 2
    assert x[2].isnan().all().item()


def test_operators_that_pytorch_calls_nondeterministic() -> None:
    found, places = tc.ones(1, 1, 2, 2), tc.tensor([[[[0, 2], [8, 10]]]])
    line, at = tc.ones(1, 1, 2), tc.tensor([[[0, 2]]])
    index, source = tc.tensor([0, 0]), tc.tensor([1.0, 2.0])
    calls = {
        "max_unpooling2d_forward_out": [lambda: F.max_unpool2d(found, places, 2),
                                        lambda: F.max_unpool1d(line, at, 2)],
        "put_": [lambda: tc.zeros(3).put_(index, source), lambda: tc.zeros(3).put(index, source)],
    }  # fmt: skip
    for function in (call for each in calls.values() for call in each):
        function()
    tc.use_deterministic_algorithms(True)
    for name, functions in calls.items():
        for function in functions:
            with pytest.raises(RuntimeError, match=f"{name} does not have a deterministic implementation, but you set "
                               r"'torch.use_deterministic_algorithms\(True\)'"):
                function()
    assert tc.zeros(3).put_(index, source, accumulate=True).tolist() == [3.0, 0.0, 0.0]
    tc.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match="put_ does not have a deterministic implementation"):
        tc.zeros(3).put_(index, source)
