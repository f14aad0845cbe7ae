"""Errors of subclasses, modes and libraries: class, form, and a device that works afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_core.dispatch import fallback
from tensocket_core.dispatch.overrides import TorchFunctionMode
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_operators import library
from tensocket_operators.namespaces import ops
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    AutogradError,
    MissingDataError,
    TensocketError,
    UnsupportedOperator,
)


def f(*shape: int) -> Any:
    return torch.ones(*shape)


def leaf(*shape: int) -> Any:
    return torch.ones(*shape, requires_grad=True)


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
        torch.add(x, 1)


def hollow() -> Any:
    return torch.Tensor._make_wrapper_subclass(_Hollow, (2,))


def with_operator(use: Callable[[Any, Any], Any], schema: str = "f(Tensor x) -> Tensor") -> Callable[[], Any]:
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
            use(library.custom_op("broken::f", kernel, mutates_args=("x",) if "!" in schema else (), schema=schema))
        finally:
            OPERATORS.pop("broken::f")

    return run


def wrong_number_of_gradients() -> Callable[[], Any]:
    def use(op: Any) -> None:
        op.register_autograd(lambda ctx, grad: (grad, grad))
        op(leaf(1)).sum().backward()

    return with_kernel(lambda x: x * 1, use)


def unknown_size() -> Callable[[], Any]:
    def use(op: Any) -> None:
        op.register_fake(lambda x: x.new_empty(library.get_ctx().new_dynamic_size()))
        op(torch.zeros(1, device="meta"))

    return with_kernel(lambda x: x * 1, use)


def no_further_fallback() -> None:
    fallback._on_host(OPERATORS["exp"], "ref", f(1))


Case = tuple[Callable[[], Any], type[TensocketError], type[Exception], str, str]
#: The failing call, the class, PyTorch's class, the operator that the message names, and the rule.
CASES: list[Case] = [
    # subclasses, modes, libraries
    (lambda: torch.add(_Refuses([1.0]), 1), ArgumentTypeError, TypeError, "add",
     "one class's or mode's __torch_function__ implements the call"),
    (under_silent_mode, ArgumentTypeError, TypeError, "add",
     "one class's or mode's __torch_function__ implements the call"),
    (lambda: hollow().exp(), ArgumentTypeError, TypeError, "exp",
     "a mode's or class's __torch_dispatch__ implements the call"),
    (lambda: hollow().tolist(), MissingDataError, NotImplementedError, "numpy",
     "a class with __torch_dispatch__ holds its values itself"),
    (lambda: hollow().share_memory_(), ArgumentTypeError, TypeError, "share_memory_",
     "tensors of transforms live within their call, and other classes know their elements"),
    (lambda: torch.Tensor._make_wrapper_subclass(torch.Tensor, (2,)), ArgumentTypeError, TypeError,
     "_make_wrapper_subclass", "tensors without memory belong to a class with __torch_dispatch__"),
    (lambda: f(1).as_subclass(int), ArgumentTypeError, TypeError, "as_subclass", "cls is a subclass of Tensor"),
    (no_further_fallback, UnsupportedOperator, NotImplementedError, "exp",
     "the fallback device has no further fallback"),
    (lambda: library.opcheck("add", ()), ArgumentError, ValueError, "opcheck", "operators of libraries are checked"),
    (with_kernel(lambda x: x, lambda op: library.opcheck(op, (f(1),), test_utils="x")), ArgumentError, ValueError,
     "opcheck", "checks are test_schema, test_autograd_registration, test_faketensor, test_gradcheck"),
    (with_kernel(lambda x: x, lambda op: op(f(1))), ArgumentError, RuntimeError, "broken::f",
     "results of the operator are new tensors"),
    (with_kernel(lambda x: x * 1, lambda op: op(leaf(1)).sum().backward()), AutogradError, RuntimeError, "backward",
     "it has no autograd formula"),
    (with_kernel(lambda x: x * 1, lambda op: op(torch.zeros(1, device="meta"))), UnsupportedOperator,
     NotImplementedError, "broken::f", "no function tells shapes of its results"),
    (with_kernel(lambda x: x * 1, lambda op: op(1.0)), ArgumentTypeError, TypeError, "broken::f",
     "the schema is broken::f(Tensor x) -> Tensor"),
    (with_kernel(lambda x: None, lambda op: op(leaf(1)), "(Tensor(a!) x) -> ()"), AutogradError, RuntimeError,
     "broken::f", "what the operator writes to requires no grad while gradients are recorded"),
    (with_kernel(lambda x: None, lambda op: op.register_autograd(print), "(Tensor(a!) x) -> ()"), ArgumentError,
     RuntimeError, "register_autograd", "gradients are those of operators that return new tensors"),
    (wrong_number_of_gradients(), AutogradError, RuntimeError, "backward",
     "backward returns a gradient or None for each argument with a position"),
    (unknown_size(), MissingDataError, NotImplementedError, "broken::f", "sizes of meta tensors are known"),
    (lambda: library.get_ctx(), ArgumentTypeError, TypeError, "get_ctx",
     "only functions registered with register_fake have a context"),
    (lambda: library.custom_op("f", print, mutates_args=()), ArgumentError, ValueError, "custom_op",
     "the name has a namespace"),
    (lambda: library.define("f", "() -> ()"), ArgumentError, ValueError, "define", "the name has a namespace"),
    (lambda: library.infer_schema(lambda x: x), ArgumentError, ValueError, "infer_schema",
     "a schema follows from the annotations of all parameters"),
    (lambda: library.define("broken::g", "g(Tensor x) -> Tensor"), ArgumentError, ValueError, "define",
     'expected schema to look like "(Tensor x) -> Tensor"'),
    (lambda: library.register_autograd("add", print), ArgumentError, ValueError, "register_autograd",
     "operators of libraries are completed"),
    (lambda: library.Library("broken", "X"), ArgumentError, ValueError, "Library",
     "Unsupported kind: it is 'DEF', 'FRAGMENT' or 'IMPL'"),
    (lambda: library.Library("aten", "DEF"), ArgumentError, ValueError, "Library", "a namespace has one owner"),
    (with_operator(lambda op, lib: op(f(1))), UnsupportedOperator, NotImplementedError, "broken::f",
     "no kernel is registered for this device"),
    (with_operator(lambda op, lib: lib.impl("g", print)), ArgumentError, ValueError, "library",
     "the operator is defined first"),
    (with_operator(lambda op, lib: lib.impl("f", print, "!")), ArgumentError, ValueError, "library",
     "a key is a device, a layer (Autograd), both (AutogradCPU) or Composite{Implicit,Explicit}Autograd"),
    (with_operator(lambda op, lib: [lib.impl("f", print, "ref") for _ in "ab"]), ArgumentError, ValueError, "impl",
     "there is one for each key"),
    (with_operator(lambda op, lib: [lib.impl("f", print) for _ in "ab"]), ArgumentError, ValueError, "impl",
     "there is one"),
    (with_operator(lambda op, lib: lib.impl("f", print, "ref", with_keyset=True)), ArgumentError, ValueError, "impl",
     "kernels are not given keys"),
    (with_operator(lambda op, lib: lib.define("f(Tensor x) -> Tensor")), ArgumentError, ValueError, "define",
     "an operator is defined once"),
    (with_operator(lambda op, lib: lib.define("g(Tensor x) -> asdf")), ArgumentError, RuntimeError, "define",
     "schemas have PyTorch's form and types"),
    (with_operator(lambda op, lib: lib.define("g(int64_t x) -> Tensor")), ArgumentError, RuntimeError, "define",
     "schemas have PyTorch's form and types"),
    (with_operator(lambda op, lib: lib.define("g(double x) -> Tensor")), ArgumentError, RuntimeError, "define",
     "schemas have PyTorch's form and types"),
    (with_operator(lambda op, lib: lib.define("g")), ArgumentError, ValueError, "define",
     "a schema looks like f(Tensor x) -> Tensor"),
    (with_operator(lambda op, lib: [lib.define("g(Tensor x, *, Tensor y) -> Tensor"), library.register_autograd(
        "broken::g", print)]), UnsupportedOperator, NotImplementedError, "register_autograd",
     "kwarg-only Tensor args have no gradient"),
    (lambda: library.custom_op("broken::h", print, mutates_args=(), schema="(*, Tensor? y) -> ()"), UnsupportedOperator,
     NotImplementedError, "custom_op", "kwarg-only Tensor args have no gradient"),
    (lambda: library.custom_op("broken::h", print, mutates_args=(), schema="(Tensor(a!) x) -> ()"), ArgumentError,
     ValueError, "custom_op", "mutates_args and the schema name the same arguments"),
    (with_operator(lambda op, lib: lib.define("a::g(Tensor x) -> Tensor")), ArgumentError, ValueError, "define",
     "the library adds the namespace"),
    (lambda: library.Library("aten", "IMPL").define("f(Tensor x) -> Tensor"), ArgumentError, ValueError, "define",
     "a library of kind DEF or FRAGMENT defines operators of its own namespace"),
    (lambda: library.Library("aten", "IMPL", "CPU").impl("add", print, "Meta"), ArgumentError, RuntimeError, "impl",
     "it is inconsistent with the dispatch key of the library, which is for that one only"),
    (lambda: library.Library("_", "IMPL", "CPU").fallback(print, "Meta"), ArgumentError, RuntimeError, "fallback",
     "it is inconsistent with the dispatch key of the library, which is for that one only"),
    (lambda: library.Library("aten", "IMPL").impl("add", print), ArgumentError, ValueError, "impl",
     "built-in operators run on all devices already"),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{case[3]}" for k, case in enumerate(CASES)])
def test_class_form_and_what_follows(case: Case, check_error: Callable[[Case], None]) -> None:
    check_error(case)
