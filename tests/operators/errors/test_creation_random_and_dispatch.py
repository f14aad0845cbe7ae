"""Errors of factories, random numbers, dispatch, promotion and Python's protocols: class, form, and what follows."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.dispatch import fallback
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_operators import functions as F
from tensocket_operators import random
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    AutogradError,
    DeviceMismatch,
    DtypeError,
    ShapeError,
    TensocketError,
    UndefinedDtype,
    UnsupportedDtype,
    UnsupportedOperator,
)


def f(*shape: int) -> Any:
    return torch.ones(*shape)


def i(*values: int) -> Any:
    return torch.tensor(list(values))


def leaf(*shape: int) -> Any:
    return torch.ones(*shape, requires_grad=True)


def undeclared() -> None:
    profile = type("Profile", (), {"host_kernels": frozenset(), "host_resident": False})
    state = type("Entry", (), {"runtime": type("Runtime", (), {"profile": profile})})
    value = type("Value", (), {"_device_state": state, "dtype": torch.int64, "device": "dev:0"})
    fallback.note_host_operator("randperm", value)


Case = tuple[Callable[[], Any], type[TensocketError], type[Exception], str, str]
#: The failing call, the class, PyTorch's class, the operator that the message names, and the rule.
CASES: list[Case] = [
    # autograd
    (lambda: (leaf(1) * 1).requires_grad_(False), AutogradError, RuntimeError, "requires_grad",
     "you can only change requires_grad flags of leaf variables"),
    (lambda: i(1).requires_grad_(), AutogradError, RuntimeError, "requires_grad",
     "only floating-point and complex tensors have gradients"),
    (lambda: leaf(1).numpy(), AutogradError, RuntimeError, "numpy", "NumPy arrays have no gradients"),
    (lambda: copy.deepcopy(leaf(1) * 1), AutogradError, RuntimeError, "deepcopy",
     "only leaf tensors can be deep-copied"),
    (lambda: leaf(1).expand(3).as_strided((2,), (1,)), ShapeError, RuntimeError, "as_strided",
     "a view stays within the tensor's memory"),
    # factories
    (lambda: torch.zeros(), ArgumentTypeError, TypeError, "zeros", "a size is given"),
    (lambda: torch.zeros(1.5), ArgumentTypeError, TypeError, "zeros", "sizes are integers"),
    (lambda: torch.zeros(-1), ShapeError, RuntimeError, "zeros",
     "sizes are not negative and their product fits 62 bits"),
    (lambda: torch.zeros(2, dtype="float"), ArgumentTypeError, TypeError, "zeros", "dtype is a tensocket dtype"),
    (lambda: f(2).fill_("1"), ArgumentTypeError, TypeError, "fill_",
     "operands are tensors, the first one at least"),
    (lambda: torch.full((2,), 300, dtype=torch.uint8), ArgumentError, RuntimeError, "full",
     "the dtype holds numbers up to 255"),
    (lambda: torch.full((2,), "1"), ArgumentTypeError, TypeError, "full", "the value is a Python number"),
    (lambda: torch.arange(), ArgumentTypeError, TypeError, "arange", "the end is given"),
    (lambda: torch.arange(1, 5, -1), ArgumentError, RuntimeError, "arange",
     "numbers are finite, and step is not zero and leads from start to end"),
    (lambda: torch.linspace(0, 1, -1), ArgumentError, RuntimeError, "linspace", "the number of steps is not negative"),
    (lambda: torch.tensor([[1], [1, 2]]), ShapeError, ValueError, "tensor", "rows have equal lengths"),
    (lambda: torch.tensor([[1, 2], [1]]), ShapeError, ValueError, "tensor", "rows have equal lengths"),
    (lambda: torch.tensor([np.ones((3, 3)), np.ones((3, 2))]), ShapeError, ValueError, "tensor",
     "rows have equal lengths"),
    (lambda: torch.tensor([[1, 2], 3]), ArgumentTypeError, TypeError, "tensor",
     "not a sequence, as the first element of its list is"),
    (lambda: torch.tensor([[np.ones(3), 1.0]]), ArgumentTypeError, TypeError, "tensor",
     "not a sequence, as the first element of its list is"),
    (lambda: torch.tensor([1, [2]]), ArgumentTypeError, TypeError, "tensor", "elements beside numbers are numbers"),
    (lambda: torch.tensor([[], 1]), ArgumentTypeError, TypeError, "tensor",
     "not a sequence, as the first element of its list is"),
    (lambda: torch.tensor([1, None]), ArgumentTypeError, TypeError, "tensor", "elements are numbers"),
    (lambda: torch.tensor(1 << 70), ArgumentError, ValueError, "tensor", "integers fit int64"),
    (lambda: torch.tensor([1 << 63]), ArgumentError, ValueError, "tensor", "integers fit int64"),
    (lambda: torch.tensor([1 << 70], dtype=torch.int64), ArgumentError, ValueError, "tensor", "integers fit int64"),
    (lambda: torch.tensor("1"), ArgumentTypeError, TypeError, "tensor", "elements are numbers"),
    (lambda: torch.from_numpy([1]), ArgumentTypeError, TypeError, "from_numpy", "a NumPy array is needed"),
    (lambda: torch.from_numpy(np.arange(3)[::-1]), ArgumentError, ValueError, "from_numpy", "strides are not negative"),
    (lambda: torch.tensor([1.0], dtype=torch.complex64, device="plain"), UnsupportedDtype, NotImplementedError,
     "tensor", "the device does not support this dtype"),
    # random numbers
    (lambda: torch.rand(2, dtype=torch.int64), UndefinedDtype, NotImplementedError, "rand",
     "random floats have a floating-point dtype"),
    (lambda: torch.randint(3), ArgumentTypeError, TypeError, "randint", "size is a tuple of ints"),
    (lambda: torch.randint(0, (2,)), ArgumentError, RuntimeError, "randint", "low is less than high"),
    (lambda: torch.randint(0, 1 << 64, (2,)), ArgumentError, ValueError, "randint", "bounds are numbers of int64"),
    (lambda: torch.randperm(-1), ArgumentError, RuntimeError, "randperm", "n is not negative"),
    (lambda: random.uniform_(f(2), 1, 0), ArgumentError, RuntimeError, "uniform_", "a is not greater than b"),
    (lambda: random.normal_(f(2), 0, -1), ArgumentError, RuntimeError, "normal_",
     "a standard deviation is not negative"),
    (lambda: torch.manual_seed(1 << 64), ArgumentError, ValueError, "manual_seed", "a seed fits 64 bits"),
    (lambda: torch.set_rng_state(f(2)), ArgumentTypeError, TypeError, "set_state", "a state is a tensor of bytes"),
    (lambda: torch.set_rng_state(f(2).byte()), ShapeError, RuntimeError, "set_state", "a state has 16 bytes"),
    # dispatch and devices
    (lambda: F.cat([]), ArgumentError, ValueError, "cat", "there is at least one"),
    (lambda: f(2) + torch.ones(2, device="ref:1"), DeviceMismatch, RuntimeError, "add",
     "all tensors of one operator are on one device"),
    (lambda: f(2)[torch.tensor([0], device="ref:1")], DeviceMismatch, RuntimeError, "index",
     "index tensors are on the tensor's device or on the host"),
    (lambda: F.add(f(2), "1"), ArgumentTypeError, TypeError, "add", "operands are tensors, the first one at least"),
    (lambda: call(OPERATORS["add"], f(2), "1"), ArgumentTypeError, TypeError, "add",
     "operands are tensors or Python numbers"),
    (lambda: F.cat([1, f(2)]), ArgumentTypeError, TypeError, "cat", "the list holds tensors"),
    (lambda: F.cat(f(2)), ArgumentTypeError, TypeError, "cat", "tensors come in a tuple or list"),
    (lambda: torch.set_fallback("ref"), ArgumentError, RuntimeError, "set_fallback",
     "operators fall back to a host-resident device"),
    (undeclared, UnsupportedOperator, NotImplementedError, "randperm",
     "the backend neither runs this operator nor declares it as a host kernel"),
    (lambda: f(2).to("ref", 3), ArgumentTypeError, TypeError, "to", "arguments are a dtype, a device or a tensor"),
    (lambda: f(2).to(dtype="float"), ArgumentTypeError, TypeError, "to", "arguments are a dtype, a device or a tensor"),
    # promotion
    (lambda: torch.set_default_dtype(torch.int64), ArgumentTypeError, TypeError, "set_default_dtype",
     "the default dtype is a floating-point dtype that is computed with"),
    (lambda: torch.promote_types(torch.uint64, torch.int8), DtypeError, RuntimeError, "promote_types",
     "wide unsigned integers mix with real floats only"),
    (lambda: torch.promote_types(torch.float8_e5m2, torch.float32), DtypeError, RuntimeError, "promote_types",
     "float8 dtypes are for storage"),
    (lambda: torch.result_type(f(1), "1"), ArgumentTypeError, TypeError, "result_type",
     "operands are tensors or numbers"),
    # Python's protocols
    (lambda: len(torch.tensor(1)), ArgumentTypeError, TypeError, "len", "only tensors with dimensions have a length"),
    (lambda: iter(torch.tensor(1)), ArgumentTypeError, TypeError, "iter",
     "only tensors with dimensions can be iterated"),
    (lambda: f(2).numpy(), ArgumentTypeError, TypeError, "numpy", "NumPy arrays are in host memory"),
    (lambda: f(2).item(), ShapeError, RuntimeError, "item", "only one element converts to a Python number"),
    (lambda: bool(f(2)), ShapeError, RuntimeError, "bool", "only one element has a truth value"),
    (lambda: [1][f(1)], ArgumentTypeError, TypeError, "index", "only one integer converts to an index"),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{case[3]}" for k, case in enumerate(CASES)])
def test_class_form_and_what_follows(case: Case, check_error: Callable[[Case], None]) -> None:
    check_error(case)
