"""Every error of core: its class, PyTorch's class behind it, its form, and a device that works afterwards.

The last test reads the sources: a rule that no case breaks fails it.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensocket_core as torch
from tensocket_core import library, random
from tensocket_core._generated import functions as F
from tensocket_core.dispatch import fallback
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.namespaces import ops
from tensocket_core.dispatch.overrides import TorchFunctionMode
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_plugins.contract import errors
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    AutogradError,
    DeviceMismatch,
    DimensionError,
    DtypeError,
    IndexOutOfRange,
    MissingDataError,
    ShapeError,
    TensocketError,
    UnsupportedDtype,
    UnsupportedOperator,
)


def f(*shape: int) -> Any:
    return torch.ones(*shape)


def i(*values: int) -> Any:
    return torch.tensor(list(values))


def leaf(*shape: int) -> Any:
    return torch.ones(*shape, requires_grad=True)


def freed() -> None:
    x = leaf(2)
    y = (x * x).sum()
    y.backward()
    y.backward()


def modified() -> None:
    y = leaf(2) * 1
    z = y * y
    y.add_(1)
    z.sum().backward()


def undeclared() -> None:
    profile = type("Profile", (), {"host_kernels": frozenset(), "host_resident": False})
    entry = type("Entry", (), {"runtime": type("Runtime", (), {"profile": profile})})
    value = type("Value", (), {"_entry": entry, "dtype": torch.int64, "device": "dev:0"})
    fallback.note_host_operator("randperm", value)


class _Refuses(torch.Tensor):
    """Answers nothing."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented


class _Hollow(torch.Tensor):
    """Has no memory and answers nothing."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented


class _Silent(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented


def under_silent_mode() -> None:
    x = f(1)
    with _Silent():
        x + 1


def hollow() -> Any:
    return torch.Tensor._make_wrapper_subclass(_Hollow, (2,))


def with_operator(use: Callable[[Any, library.Library], Any], schema: str = "f(Tensor x) -> Tensor") -> Callable[[], Any]:
    """Use an operator of a library that ends with the call."""

    def run() -> None:
        lib = library.Library("broken", "DEF")
        try:
            lib.define(schema)
            use(ops.broken.f, lib)
        finally:
            lib._destroy()

    return run


def with_kernel(kernel: Any, use: Callable[[Any], Any],
                schema: str = "(Tensor x) -> Tensor") -> Callable[[], Any]:
    """Use a custom operator with a kernel."""

    def run() -> None:
        try:
            use(library.custom_op("broken::f", kernel, mutates_args=(), schema=schema))
        finally:
            OPERATORS.pop("broken::f")

    return run


def wrong_number_of_gradients() -> Callable[[], Any]:
    def use(op: Any) -> None:
        op.register_autograd(lambda ctx, grad: (grad, None))
        op(leaf(1)).sum().backward()

    return with_kernel(lambda x: x * 1, use)


def unknown_size() -> Callable[[], Any]:
    def use(op: Any) -> None:
        op.register_fake(lambda x: x.new_empty(library.get_ctx().new_dynamic_size()))
        op(torch.zeros(1, device="meta"))

    return with_kernel(lambda x: x * 1, use)


def no_further_fallback() -> None:
    fallback._on_host(OPERATORS["exp"], "ref", f(1))


Run = Callable[[], Any]
#: What goes wrong, the class, what PyTorch raises there, and the operator that is named.
CASES: list[tuple[Run, type[TensocketError], type[Exception], str]] = [
    # autograd
    (lambda: f(1).backward(), AutogradError, RuntimeError, "backward"),
    (lambda: leaf(2).backward(), AutogradError, RuntimeError, "backward"),
    (lambda: leaf(2).backward(f(3)), ShapeError, RuntimeError, "backward"),
    (freed, AutogradError, RuntimeError, "backward"),
    (modified, AutogradError, RuntimeError, "backward"),
    (lambda: torch.autograd.grad(leaf(1), f(1)), AutogradError, RuntimeError, "grad"),
    (lambda: torch.autograd.grad(leaf(1), leaf(1)), AutogradError, RuntimeError, "grad"),
    (lambda: leaf(1).add_(1), AutogradError, RuntimeError, "add_"),
    (lambda: (leaf(1) * 1).requires_grad_(False), AutogradError, RuntimeError, "requires_grad"),
    (lambda: i(1).requires_grad_(), AutogradError, RuntimeError, "requires_grad"),
    (lambda: f(1).register_hook(print), AutogradError, RuntimeError, "register_hook"),
    (lambda: setattr(leaf(1), "grad", 1), ArgumentTypeError, TypeError, "grad"),
    (lambda: setattr(leaf(1), "grad", f(2)), ShapeError, RuntimeError, "grad"),
    (lambda: leaf(1).numpy(), AutogradError, RuntimeError, "numpy"),
    (lambda: copy.deepcopy(leaf(1) * 1), AutogradError, RuntimeError, "deepcopy"),
    (lambda: leaf(1).expand(3).as_strided((2,), (1,)), ShapeError, RuntimeError, "as_strided"),
    # factories
    (lambda: torch.zeros(), ArgumentTypeError, TypeError, "zeros"),
    (lambda: torch.zeros(1.5), ArgumentTypeError, TypeError, "zeros"),
    (lambda: torch.zeros(-1), ShapeError, RuntimeError, "zeros"),
    (lambda: torch.zeros(2, dtype="float"), ArgumentTypeError, TypeError, "zeros"),
    (lambda: f(2).fill_("1"), ArgumentTypeError, TypeError, "fill_"),
    (lambda: torch.full((2,), 300, dtype=torch.uint8), ArgumentError, RuntimeError, "full"),
    (lambda: torch.full((2,), "1"), ArgumentTypeError, TypeError, "full"),
    (lambda: torch.arange(), ArgumentTypeError, TypeError, "arange"),
    (lambda: torch.arange(1, 5, -1), ArgumentError, RuntimeError, "arange"),
    (lambda: torch.linspace(0, 1, -1), ArgumentError, RuntimeError, "linspace"),
    (lambda: torch.tensor([[1], [1, 2]]), ShapeError, ValueError, "tensor"),
    (lambda: torch.tensor(1 << 70), ArgumentError, RuntimeError, "tensor"),
    (lambda: torch.tensor([1 << 63]), ArgumentError, RuntimeError, "tensor"),
    (lambda: torch.tensor([1 << 70], dtype=torch.int64), ArgumentError, RuntimeError, "tensor"),
    (lambda: torch.tensor("1"), ArgumentTypeError, TypeError, "tensor"),
    (lambda: torch.from_numpy([1]), ArgumentTypeError, TypeError, "from_numpy"),
    (lambda: torch.from_numpy(np.arange(3)[::-1]), ArgumentError, ValueError, "from_numpy"),
    (lambda: torch.tensor([1.0], dtype=torch.complex64, device="plain"), UnsupportedDtype, NotImplementedError,
     "tensor"),
    # random numbers
    (lambda: torch.rand(2, dtype=torch.int64), DtypeError, RuntimeError, "rand"),
    (lambda: torch.randint(3), ArgumentTypeError, TypeError, "randint"),
    (lambda: torch.randint(0, (2,)), ArgumentError, RuntimeError, "randint"),
    (lambda: torch.randint(-1, 1 << 63, (2,)), ArgumentError, RuntimeError, "randint"),
    (lambda: torch.randperm(-1), ArgumentError, RuntimeError, "randperm"),
    (lambda: random.uniform_(f(2), 1, 0), ArgumentError, RuntimeError, "uniform_"),
    (lambda: random.normal_(f(2), 0, -1), ArgumentError, RuntimeError, "normal_"),
    (lambda: torch.manual_seed(1 << 64), ArgumentError, RuntimeError, "manual_seed"),
    (lambda: torch.set_rng_state(f(2)), ShapeError, RuntimeError, "set_state"),
    # dispatch and devices
    (lambda: F.cat([]), ArgumentError, ValueError, "cat"),
    (lambda: f(2) + torch.ones(2, device="ref:1"), DeviceMismatch, RuntimeError, "add"),
    (lambda: f(2)[torch.tensor([0], device="ref:1")], DeviceMismatch, RuntimeError, "index"),
    (lambda: F.add(f(2), "1"), ArgumentTypeError, TypeError, "add"),
    (lambda: call(OPERATORS["add"], f(2), "1"), ArgumentTypeError, TypeError, "add"),
    (lambda: F.cat([1, f(2)]), ArgumentTypeError, TypeError, "cat"),
    (lambda: F.cat(f(2)), ArgumentTypeError, TypeError, "cat"),
    (lambda: torch.set_fallback("ref"), ArgumentError, RuntimeError, "set_fallback"),
    (undeclared, UnsupportedOperator, NotImplementedError, "randperm"),
    (lambda: f(2).to("ref", 3), ArgumentTypeError, TypeError, "to"),
    (lambda: f(2).to(dtype="float"), ArgumentTypeError, TypeError, "to"),
    # promotion
    (lambda: torch.set_default_dtype(torch.int64), ArgumentTypeError, TypeError, "set_default_dtype"),
    (lambda: torch.promote_types(torch.uint64, torch.int8), DtypeError, RuntimeError, "promote_types"),
    (lambda: torch.promote_types(torch.float8_e5m2, torch.float32), DtypeError, RuntimeError, "promote_types"),
    (lambda: torch.result_type(f(1), "1"), ArgumentTypeError, TypeError, "result_type"),
    # pointwise and in place
    (lambda: f(2) + f(3), ShapeError, RuntimeError, "add"),
    (lambda: torch.tensor([True]) - torch.tensor([True]), DtypeError, RuntimeError, "sub"),
    (lambda: f(2) & f(2), DtypeError, RuntimeError, "bitwise_and"),
    (lambda: F.where(f(2), f(2), f(2)), DtypeError, RuntimeError, "where"),
    (lambda: F.where(torch.tensor([True]), "1", f(1)), ArgumentTypeError, TypeError, "where"),
    (lambda: i(1) ** -1, DtypeError, RuntimeError, "pow"),
    (lambda: i(1) // 0, DtypeError, RuntimeError, "floor_divide"),
    (lambda: F.div(f(1), 2, rounding_mode="up"), ArgumentError, RuntimeError, "div"),
    (lambda: F.add(i(1), i(1), alpha=0.5), DtypeError, RuntimeError, "add"),
    (lambda: F.clamp(f(1)), ArgumentError, RuntimeError, "clamp"),
    (lambda: f(1).masked_fill(f(1) > 0, f(2)), ShapeError, RuntimeError, "masked_fill"),
    (lambda: F.gelu(f(1), approximate="x"), ArgumentError, RuntimeError, "gelu"),
    (lambda: f(1).expand(2).add_(1), ShapeError, RuntimeError, "add_"),
    (lambda: i(1).add_(0.5), DtypeError, RuntimeError, "add_"),
    (lambda: f(1).add_(f(2)), ShapeError, RuntimeError, "add_"),
    (lambda: f(2).copy_(f(3, 2)), ShapeError, RuntimeError, "copy_"),
    (lambda: f(2).fill_(f(2)), ShapeError, RuntimeError, "fill_"),
    (lambda: F.add(f(2), 1, out=3), ArgumentTypeError, TypeError, "add"),
    (lambda: F.add(f(2), 1, out=i(1, 2)), DtypeError, RuntimeError, "add"),
    (lambda: F.add(leaf(2), 1, out=f(2)), AutogradError, RuntimeError, "add"),
    (lambda: F.add(f(2), 1, out=leaf(2)), AutogradError, RuntimeError, "add"),
    (lambda: F.max(f(2, 3), 1, out=f(2)), ArgumentTypeError, TypeError, "max"),
    # reductions
    (lambda: f(2).sum(1), DimensionError, IndexError, "sum"),
    (lambda: f(2).sum("0"), ArgumentTypeError, TypeError, "sum"),
    (lambda: f(2).unsqueeze(0.5), ArgumentTypeError, TypeError, "unsqueeze"),
    (lambda: f(2, 2).sum((0, -2)), ShapeError, RuntimeError, "sum"),
    (lambda: torch.zeros(0).amax(), ShapeError, RuntimeError, "amax"),
    (lambda: torch.zeros(0, 2).argmax(0), TensocketError, IndexError, "argmax"),
    (lambda: f(2).sum(dtype="float"), ArgumentTypeError, TypeError, "sum"),
    (lambda: f(2).sum(dtype=torch.bool_), DtypeError, RuntimeError, "sum"),
    (lambda: i(1).mean(), DtypeError, RuntimeError, "mean"),
    (lambda: f(2).var(unbiased=True, correction=1), ArgumentError, ValueError, "var"),
    # matrix products
    (lambda: F.matmul(f(2, 2), f(2, 2).double()), DtypeError, RuntimeError, "matmul"),
    (lambda: F.matmul(f(2, 2) > 0, f(2, 2) > 0), UnsupportedDtype, RuntimeError, "matmul"),
    (lambda: F.matmul(f(2, 2), f(3, 2)), ShapeError, RuntimeError, "matmul"),
    (lambda: F.matmul(f(2), torch.tensor(1.0)), ShapeError, RuntimeError, "matmul"),
    (lambda: F.bmm(f(1, 2, 2), f(2, 2, 2)), ShapeError, RuntimeError, "bmm"),
    (lambda: F.mv(f(2, 2), f(2, 2)), ShapeError, RuntimeError, "mv"),
    (lambda: F.mm(f(2), f(2)), ShapeError, RuntimeError, "mm"),
    (lambda: F.linear(f(2, 2), f(3, 3)), ShapeError, RuntimeError, "linear"),
    # shapes and views
    (lambda: f(4).reshape(3), ShapeError, RuntimeError, "reshape"),
    (lambda: f(4).reshape("x"), ArgumentTypeError, TypeError, "shape"),
    (lambda: f(2, 3).t().view(6), ShapeError, RuntimeError, "view"),
    (lambda: f(2, 3).permute(0, 0), ShapeError, RuntimeError, "permute"),
    (lambda: f(2, 3).expand(3), ShapeError, RuntimeError, "expand"),
    (lambda: f(2, 3).expand(3, 3), ShapeError, RuntimeError, "expand"),
    (lambda: F.cat([torch.tensor(1.0)]), ShapeError, RuntimeError, "cat"),
    (lambda: F.cat([f(2), f(2, 2)]), ShapeError, RuntimeError, "cat"),
    (lambda: F.stack([f(2), f(3)]), ShapeError, RuntimeError, "stack"),
    (lambda: f(2).repeat(-1), ShapeError, RuntimeError, "repeat"),
    (lambda: F.movedim(f(2, 3), (0, 0), (0, 1)), ShapeError, RuntimeError, "movedim"),
    (lambda: f(1, 1, 1).t(), ShapeError, RuntimeError, "t"),
    (lambda: F.flatten(f(2, 3), 1, 0), ShapeError, RuntimeError, "flatten"),
    (lambda: torch.tensor(1.0).select(0, 0), DimensionError, IndexError, "select"),
    (lambda: f(2).narrow(0, 1, 2), IndexOutOfRange, RuntimeError, "narrow"),
    (lambda: f(2).split(0), ArgumentError, RuntimeError, "split"),
    (lambda: f(2).split([1, 2]), ShapeError, RuntimeError, "split"),
    (lambda: f(2).chunk(0), ArgumentError, RuntimeError, "chunk"),
    (lambda: f(2).mT, ShapeError, RuntimeError, "mT"),
    # indexing
    (lambda: f(2)[0, 0], DimensionError, IndexError, "index"),
    (lambda: f(2)[2], IndexOutOfRange, IndexError, "index"),
    (lambda: f(2)[::-1], ArgumentError, ValueError, "index"),
    (lambda: f(2)["0"], ArgumentTypeError, TypeError, "index"),
    (lambda: f(2).__setitem__(0, "1"), ArgumentTypeError, TypeError, "setitem"),
    (lambda: f(2)[i(2)], IndexOutOfRange, IndexError, "index"),
    (lambda: f(2)[f(1)], DtypeError, RuntimeError, "index"),
    (lambda: f(2, 2)[i(0, 1), i(0, 1, 0)], IndexOutOfRange, IndexError, "index"),
    (lambda: f(2)[f(3) > 0], IndexOutOfRange, IndexError, "index"),
    (lambda: f(2)[i(0), i(0)], DimensionError, IndexError, "index"),
    (lambda: f(2).gather(0, f(2)), DtypeError, RuntimeError, "gather"),
    (lambda: f(2).gather(0, torch.zeros(2, 1, dtype=torch.int64)), ShapeError, RuntimeError, "gather"),
    (lambda: f(2).scatter_add(0, i(0), i(1)), DtypeError, RuntimeError, "scatter_add"),
    (lambda: f(2).index_select(0, torch.zeros(1, 1, dtype=torch.int64)), ShapeError, RuntimeError, "index_select"),
    (lambda: f(2).index_put((i(0),), i(1)), DtypeError, RuntimeError, "index_put"),
    # neural networks
    (lambda: F.mse_loss(f(2), f(2), reduction="x"), ArgumentError, ValueError, "mse_loss"),
    (lambda: F.nll_loss(f(2, 3), i(0)), ShapeError, ValueError, "nll_loss"),
    (lambda: F.cross_entropy(f(2, 3), i(0, 1), label_smoothing=2.0), ArgumentError, RuntimeError, "cross_entropy"),
    (lambda: F.cross_entropy(f(2, 3), f(2, 2)), ShapeError, RuntimeError, "cross_entropy"),
    (lambda: F.dropout(f(2), 2.0), ArgumentError, ValueError, "dropout"),
    (lambda: F.embedding(i(0), f(2)), ShapeError, RuntimeError, "embedding"),
    (lambda: F.one_hot(f(2)), DtypeError, RuntimeError, "one_hot"),
    (lambda: F.one_hot(torch.zeros(0, dtype=torch.int64)), ArgumentError, RuntimeError, "one_hot"),
    (lambda: F.one_hot(i(3), 2), ArgumentError, RuntimeError, "one_hot"),
    (lambda: F.layer_norm(f(2, 3), (2,)), ShapeError, RuntimeError, "layer_norm"),
    (lambda: F.softmax(i(1), 0), DtypeError, RuntimeError, "softmax"),
    # complex numbers and other dtypes
    (lambda: f(2).imag, DtypeError, RuntimeError, "imag"),
    (lambda: torch.view_as_real(f(2)), DtypeError, RuntimeError, "view_as_real"),
    (lambda: torch.view_as_complex(i(1, 2)), DtypeError, RuntimeError, "view_as_complex"),
    (lambda: torch.view_as_complex(f(3)), ShapeError, RuntimeError, "view_as_complex"),
    (lambda: torch.view_as_complex(f(2, 2).t()), ShapeError, RuntimeError, "view_as_complex"),
    (lambda: torch.complex(f(2), f(2).double()), DtypeError, RuntimeError, "complex"),
    (lambda: torch.polar(f(2), f(2).double()), DtypeError, RuntimeError, "polar"),
    (lambda: f(2).adjoint(), ShapeError, RuntimeError, "adjoint"),
    (lambda: f(2, 2, 2).H, ShapeError, RuntimeError, "H"),
    (lambda: float(torch.tensor(1j)), ArgumentError, RuntimeError, "float"),
    (lambda: torch.full((2,), 1j, dtype=torch.float32), ArgumentError, RuntimeError, "full"),
    (lambda: torch.tensor([1j], dtype=torch.float32), ArgumentTypeError, TypeError, "tensor"),
    (lambda: torch.arange(3, dtype=torch.complex64), DtypeError, NotImplementedError, "arange"),
    (lambda: torch.linspace(0, 1j, 3, dtype=torch.float32), ArgumentError, RuntimeError, "linspace"),
    (lambda: torch.tensor([1j]).abs_(), DtypeError, RuntimeError, "abs_"),
    (lambda: F.addcmul(f(2), f(2), f(2), value=1j), DtypeError, RuntimeError, "addcmul"),
    (lambda: torch.tensor([1j]).amax(), DtypeError, NotImplementedError, "amax"),
    (lambda: torch.tensor([1j]) < 1, DtypeError, NotImplementedError, "lt"),
    (lambda: torch.ones(2, dtype=torch.float8_e5m2) * 1j, DtypeError, RuntimeError, "result_type"),
    (lambda: torch.ones(2, dtype=torch.float8_e5m2) * f(2), DtypeError, RuntimeError, "promote_types"),
    (lambda: torch.ones(2, dtype=torch.uint16) + i(1, 2), DtypeError, RuntimeError, "promote_types"),
    (lambda: torch.ones(1, 1, dtype=torch.float8_e5m2).mm(f(1, 1).to(torch.float8_e5m2)), DtypeError,
     NotImplementedError, "matmul"),
    (lambda: torch.finfo(torch.int32), ArgumentTypeError, TypeError, "finfo"),
    (lambda: torch.iinfo(torch.float32), ArgumentTypeError, TypeError, "iinfo"),
    # subclasses, modes, libraries
    (lambda: _Refuses([1.0]) + 1, ArgumentTypeError, TypeError, "add"),
    (under_silent_mode, ArgumentTypeError, TypeError, "add"),
    (lambda: hollow().exp(), ArgumentTypeError, TypeError, "exp"),
    (lambda: hollow().tolist(), MissingDataError, NotImplementedError, "numpy"),
    (lambda: copy.deepcopy(hollow()), ArgumentTypeError, TypeError, "deepcopy"),
    (lambda: torch.Tensor._make_wrapper_subclass(torch.Tensor, (2,)), ArgumentTypeError, TypeError,
     "_make_wrapper_subclass"),
    (lambda: f(1).as_subclass(int), ArgumentTypeError, TypeError, "as_subclass"),
    (no_further_fallback, UnsupportedOperator, NotImplementedError, "exp"),
    (lambda: library.opcheck("add", ()), ArgumentError, ValueError, "opcheck"),
    (with_kernel(lambda x: x, lambda op: library.opcheck(op, (f(1),), test_utils="x")), ArgumentError, ValueError,
     "opcheck"),
    (with_kernel(lambda x: x, lambda op: op(f(1))), ArgumentError, RuntimeError, "broken::f"),
    (with_kernel(lambda x: x * 1, lambda op: op(leaf(1)).sum().backward()), AutogradError, RuntimeError, "backward"),
    (with_kernel(lambda x: x * 1, lambda op: op(torch.zeros(1, device="meta"))), UnsupportedOperator,
     NotImplementedError, "broken::f"),
    (with_kernel(lambda x: x * 1, lambda op: op(1.0)), ArgumentTypeError, TypeError, "broken::f"),
    (with_kernel(lambda x: None, lambda op: op(leaf(1)), "(Tensor(a!) x) -> ()"), AutogradError, RuntimeError,
     "broken::f"),
    (with_kernel(lambda x: None, lambda op: op.register_autograd(print), "(Tensor(a!) x) -> ()"), ArgumentError,
     RuntimeError, "register_autograd"),
    (wrong_number_of_gradients(), AutogradError, RuntimeError, "backward"),
    (unknown_size(), MissingDataError, NotImplementedError, "broken::f"),
    (lambda: library.get_ctx(), ArgumentTypeError, TypeError, "get_ctx"),
    (lambda: library.custom_op("f", print, mutates_args=()), ArgumentError, ValueError, "custom_op"),
    (lambda: library.define("f", "() -> ()"), ArgumentError, ValueError, "define"),
    (lambda: library.infer_schema(lambda x: x), ArgumentTypeError, TypeError, "infer_schema"),
    (lambda: library.register_autograd("add", print), ArgumentError, ValueError, "register_autograd"),
    (lambda: library.Library("broken", "X"), ArgumentError, ValueError, "Library"),
    (lambda: library.Library("aten", "DEF"), ArgumentError, ValueError, "Library"),
    (with_operator(lambda op, lib: op(f(1))), UnsupportedOperator, NotImplementedError, "broken::f"),
    (with_operator(lambda op, lib: lib.impl("g", print)), ArgumentError, ValueError, "library"),
    (with_operator(lambda op, lib: lib.impl("f", print, "!")), ArgumentError, ValueError, "library"),
    (with_operator(lambda op, lib: [lib.impl("f", print, "ref") for _ in "ab"]), ArgumentError, ValueError, "impl"),
    (with_operator(lambda op, lib: [lib.impl("f", print) for _ in "ab"]), ArgumentError, ValueError, "impl"),
    (with_operator(lambda op, lib: lib.impl("f", print, "ref", with_keyset=True)), ArgumentError, ValueError, "impl"),
    (with_operator(lambda op, lib: lib.define("f(Tensor x) -> Tensor")), ArgumentError, ValueError, "define"),
    (with_operator(lambda op, lib: lib.define("a::g(Tensor x) -> Tensor")), ArgumentError, ValueError, "define"),
    (lambda: library.Library("aten", "IMPL").define("f(Tensor x) -> Tensor"), ArgumentError, ValueError, "define"),
    (lambda: library.Library("aten", "IMPL").impl("add", print), ArgumentError, ValueError, "impl"),
    # Python's protocols
    (lambda: len(torch.tensor(1)), ArgumentTypeError, TypeError, "len"),
    (lambda: iter(torch.tensor(1)), ArgumentTypeError, TypeError, "iter"),
    (lambda: f(2).numpy(), ArgumentTypeError, TypeError, "numpy"),
    (lambda: f(2).item(), ShapeError, RuntimeError, "item"),
    (lambda: bool(f(2)), ShapeError, RuntimeError, "bool"),
    (lambda: [1][f(1)], ArgumentTypeError, TypeError, "index"),
]


#: Geometry, memory, and writing at positions.
CASES += [
    (lambda: "a" in f(2), ArgumentError, RuntimeError, "contains"),
    (lambda: (leaf(2) * 2)[:1].detach_(), AutogradError, RuntimeError, "detach_"),
    (lambda: setattr(leaf(2), "data", i(1, 2)), AutogradError, RuntimeError, "data"),
    (lambda: torch.empty(2, memory_format=torch.preserve_format), ArgumentError, RuntimeError, "empty"),
    (lambda: torch.empty_strided((2, 3), (1,)), ShapeError, RuntimeError, "empty_strided"),
    (lambda: torch.empty_permuted((2, 3), (1, 1)), ShapeError, RuntimeError, "empty_permuted"),
    (lambda: f(2, 3).contiguous(memory_format=torch.channels_last), ShapeError, RuntimeError, "clone"),
    (lambda: f(2, 3).contiguous(memory_format=torch.preserve_format), ArgumentError, RuntimeError, "contiguous"),
    (lambda: f(2, 3).contiguous(memory_format=3), ArgumentTypeError, TypeError, "contiguous"),
    (lambda: torch.ones(()).view(torch.uint8), ShapeError, RuntimeError, "view"),
    (lambda: f(2, 3).t().view(torch.uint8), ShapeError, RuntimeError, "view"),
    (lambda: i(1, 2, 3).int().view(torch.int64), ShapeError, RuntimeError, "view"),
    (lambda: F.scatter(f(2), 0, i(0)), ArgumentTypeError, TypeError, "scatter"),
    (lambda: F.scatter(f(2), 0, i(0), f(1), reduce="mean"), ArgumentError, RuntimeError, "scatter"),
    (lambda: leaf(2).resize_(3), AutogradError, RuntimeError, "resize_"),
    (lambda: f(2).resize_(-3), ShapeError, RuntimeError, "resize_"),
    (lambda: F.isclose(f(2), i(1, 2)), DtypeError, RuntimeError, "isclose"),
    (lambda: F.isclose(f(2), f(2), rtol=-1), ShapeError, RuntimeError, "isclose"),
    (lambda: f(2).unfold(0, 3, 1), ShapeError, RuntimeError, "unfold"),
    (lambda: torch.ones(()).index_select(0, i(0, 0)), ShapeError, RuntimeError, "index_select"),
    (lambda: F.unflatten(f(6), 0, (4, -1)), ShapeError, RuntimeError, "unflatten"),
    (lambda: f(2, 3).sum_to_size(2, 2), ShapeError, RuntimeError, "sum_to_size"),
    (lambda: F.select_scatter(f(2, 3), f(2), 0, 0), ShapeError, RuntimeError, "select_scatter"),
    (lambda: torch.broadcast_shapes((2, -1)), ShapeError, RuntimeError, "broadcast_shapes"),
    (lambda: F.tensor_split(f(2), 0), ArgumentError, RuntimeError, "tensor_split"),
    (lambda: F.tensor_split(torch.ones(()), 1), ShapeError, RuntimeError, "tensor_split"),
    (lambda: F.hsplit(f(3), 2), ShapeError, RuntimeError, "hsplit"),
    (lambda: F.dsplit(f(3), 2), ShapeError, RuntimeError, "dsplit"),
    (lambda: leaf(2, 3).t_(), AutogradError, RuntimeError, "t_"),
    (lambda: F.index_add(f(2), 0, i(0), i(1)), DtypeError, RuntimeError, "index_add"),
    (lambda: F.index_copy(f(2, 2), 0, i(0), f(2, 2)), DimensionError, IndexError, "index_copy"),
    (lambda: F.index_fill(f(2), 0, f(1), 1), DimensionError, IndexError, "index_fill"),
    (lambda: F.index_fill(f(2), 0, i(0), f(1)), ShapeError, RuntimeError, "index_fill"),
    (lambda: F.put(f(2), i(0), i(1)), DtypeError, RuntimeError, "put"),
    (lambda: F.put(f(2), i(0), f(2)), ShapeError, RuntimeError, "put"),
    (lambda: F.masked_select(f(2), f(2)), DtypeError, RuntimeError, "masked_select"),
    (lambda: F.masked_scatter(f(2), f(2) > 0, i(1, 2)), DtypeError, RuntimeError, "masked_scatter"),
    (lambda: F.masked_scatter(f(2), f(2) > 0, f(1)), ShapeError, RuntimeError, "masked_scatter"),
    (lambda: F.scatter_reduce(f(2), 0, i(0), f(1), "median"), ArgumentError, RuntimeError, "scatter_reduce"),
    (lambda: F.scatter_reduce(f(2), 0, i(0), i(1), "sum"), DtypeError, RuntimeError, "scatter_reduce"),
    (lambda: F.index_reduce(f(2), 0, i(0), f(1), "sum"), ArgumentError, RuntimeError, "index_reduce"),
    (lambda: torch.set_printoptions(profile="long"), ArgumentError, RuntimeError, "set_printoptions"),
    (lambda: f(2).set_([1.0]), ArgumentTypeError, TypeError, "set_"),
    (lambda: f(2).set_(f(2).untyped_storage(), 1, (2,)), ArgumentError, RuntimeError, "set_"),
    (lambda: f(2).set_(torch.ones(2, device="ref:1")), DeviceMismatch, RuntimeError, "set_"),
    (lambda: f(2).set_(i(1, 2)), DtypeError, RuntimeError, "set_"),
    (lambda: f(2).untyped_storage().resize_(9), ArgumentError, RuntimeError, "resize_"),
    (lambda: f(2).type(3), ArgumentTypeError, TypeError, "type"),
    (lambda: f(2).type("tensocket.Tensor"), ArgumentError, ValueError, "type"),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{case[3]}" for k, case in enumerate(CASES)])
def test_class_form_and_what_follows(case: tuple[Run, type[TensocketError], type[Exception], str]) -> None:
    run, kind, base, operator = case
    with pytest.raises(kind) as caught:
        run()
    error = caught.value
    assert isinstance(error, base)
    assert error.operator == operator
    assert str(error) == f"[{operator}] {error.given} — {error.rule} — {error.advice}"
    assert all(part and part == part.strip() for part in (error.given, error.rule, error.advice))
    assert (torch.tensor([1.0, 2.0]) * 2).tolist() == [2.0, 4.0]


CLASSES = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, TensocketError)}
#: Rules whose tests are elsewhere: what a backend lacks, and NumPy arrays on a host-resident device.
ELSEWHERE = {"the backend registers no kernel for the primitive .*", "NumPy has no such dtype"}


def rules() -> Iterator[tuple[str, str]]:
    """Where core makes an error, and a pattern of its rule."""
    folder = Path(torch.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        # test_autograd_errors.py, test_transforms_errors.py
        if path.parent.name in ("autograd", "transforms") or path.name == "pytree.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or len(node.args) != 4:
                continue
            rule = node.args[2]
            if getattr(node.func, "id", None) in CLASSES | {"kind"}:
                place = f"{path.relative_to(folder)}:{node.lineno}"
                if isinstance(rule, ast.Constant):
                    yield place, re.escape(rule.value)
                elif isinstance(rule, ast.JoinedStr):
                    parts = [re.escape(x.value) if isinstance(x, ast.Constant) else ".*" for x in rule.values]
                    yield place, "".join(parts)


def test_every_rule_is_broken_by_a_case() -> None:
    broken = set()
    for run, kind, *_ in CASES:
        try:
            run()
        except kind as error:
            broken.add(error.rule)
    found = list(rules())
    assert len(found) > 100
    texts = broken | ELSEWHERE
    untested = [(place, rule) for place, rule in found if not any(re.fullmatch(rule, text) for text in texts)]
    assert untested == []
