"""Checks of custom operators, and overloads that their arguments choose, as in PyTorch."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_operators import library
from tensocket_operators.library import Library
from tensocket_operators.library.libraries import remove_operator
from tensocket_operators.namespaces import ops
from tensocket_plugins.contract.errors import AutogradError, UnsupportedOperator


def f64(*values: float) -> Any:
    return torch.tensor(values, dtype=torch.float64)


def test_arguments_choose_the_overload() -> None:
    one = library.custom_op("probe::pick", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor")
    library.custom_op("probe::pick.two", lambda x, y: x + y, mutates_args=(), schema="(Tensor x, Tensor y) -> Tensor")
    try:
        assert ops.probe.pick(f64(1, 2)).tolist() == [1, 2]
        assert ops.probe.pick(f64(1, 2), f64(3, 4)).tolist() == [4, 6]
        with pytest.raises(TypeError):
            one(f64(1), f64(2), f64(3))
    finally:
        remove_operator(OPERATORS["probe::pick.two"])
        remove_operator(OPERATORS["probe::pick"])


def test_gradients_of_trailing_defaults_may_be_left_out() -> None:
    lib = Library("probe", "FRAGMENT")
    lib.define("scaled(Tensor w, int x=2, *, int y=3, int z) -> Tensor")
    lib.impl("scaled", lambda w, x=2, *, y=3, z: w * (x * y * z), "CompositeExplicitAutograd")

    def setup(ctx: Any, inputs: Any, keywords: Any, output: Any) -> None:
        assert (inputs[1], keywords) in ((2, {"y": 3, "z": 5}), (4, {"y": 3, "z": 5}))
        ctx.factor = inputs[1] * keywords["y"] * keywords["z"]

    library.register_autograd("probe::scaled", lambda ctx, grad: grad * ctx.factor, setup_context=setup,
                                        lib=lib)
    w = f64(1, 2).requires_grad_()
    ops.probe.scaled(w, z=5).sum().backward()
    assert w.grad.tolist() == [30, 30]
    with pytest.raises(AutogradError, match=r"1 gradients from probe::scaled for 2 arguments"):
        ops.probe.scaled(w, 4, z=5).sum().backward()
    lib._destroy()


def test_tags_are_kept() -> None:
    assert repr(library.Tag.pointwise) == "<Tag.pointwise: 16>"
    for tags in (library.Tag.core, (library.Tag.core,), [library.Tag.core]):
        lib = Library("probe", "FRAGMENT")
        lib.define("tagged(Tensor x) -> Tensor", tags=tags)
        assert ops.probe.tagged.default.tags == [library.Tag.core]
        lib._destroy()


def test_impl_abstract_is_register_fake_of_old() -> None:
    lib = Library("probe", "FRAGMENT")
    lib.define("old.form(Tensor x) -> Tensor")
    with pytest.warns(FutureWarning, match="was renamed to `torch.library.register_fake`"):
        library.impl_abstract("probe::old.form", torch.empty_like, lib=lib)
    assert ops.probe.old.form(torch.ones(3, device="meta")).shape == (3,)
    lib._destroy()


def test_a_function_that_does_not_fit_leaves_the_operator_before_it() -> None:
    library.custom_op("probe::kept", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(UnsupportedOperator):
        library.custom_op("probe::kept", lambda *, x: x, mutates_args=(), schema="(*, Tensor x) -> Tensor")
    assert ops.probe.kept(f64(1)).tolist() == [1]
    remove_operator(OPERATORS["probe::kept"])


@pytest.mark.parametrize(("schema", "said"), [
    ("g(Tensor x) -> asdf", "not a result in the schema of probe::g: unknown type specifier 'asdf'"),
    ("g(int64_t x) -> Tensor", "unknown type specifier 'int64_t'. Use `SymInt` or `int`"),
    ("g(double x) -> Tensor", "unknown type specifier 'double'. Use `float`"),
])  # fmt: skip
def test_unknown_types_are_named(schema: str, said: str) -> None:
    lib = Library("probe", "FRAGMENT")
    with pytest.raises(RuntimeError, match=re.escape(said)):
        lib.define(schema)
    lib._destroy()
