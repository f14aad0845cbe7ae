"""Operators by PyTorch's former interface (``torch._custom_ops``): definitions, kernels, shapes and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

import numpy as np
import pytest

import tensocket as torch
from tensocket import _custom_ops as custom_ops
from tensocket._custom_op import checks, impl
from tensocket._library import infer_schema, utils
from tensocket.library import Library
from tensocket_plugins.contract.errors import ArgumentError, AutogradError, UnsupportedOperator

NS = "tests_former"
FUNCTIONAL = "gradients belong to functional operators that return tensors or numbers"
GRADIENTS = (
    "backward returns a dict with a gradient, or None, for each argument that may be a Tensor, "
    "and a list for a list; non-Tensor-like types do not appear in it"
)
X = [0.5, -1.0, 2.0]


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    for name in [name for name in impl.global_registry if name.startswith(NS)]:
        impl.global_registry[name]._destroy()


def define(schema: str = "(Tensor x) -> Tensor", kernel: Any = torch.sin) -> Any:
    custom_ops.custom_op(f"{NS}::foo", schema)
    custom_ops.impl(f"{NS}::foo", func=kernel)
    return impl.get_op(f"{NS}::foo")


def differentiate(backward: Any, save: Any = lambda inputs, output: inputs[0], flags: Any = None) -> None:
    custom_ops.impl_save_for_backward(f"{NS}::foo", func=save)
    custom_ops.impl_backward(f"{NS}::foo", flags, func=backward)


def test_a_function_becomes_an_operator_with_kernel_shapes_and_gradient() -> None:
    def foo(x: torch.Tensor, n: int) -> torch.Tensor:
        raise NotImplementedError

    def foo_cpu(x: Any, n: Any) -> Any:
        return torch.tensor(np.sin(x.numpy()) * n)

    def foo_meta(x: Any, n: Any) -> Any:
        return torch.empty_like(x)

    assert custom_ops.custom_op(f"{NS}::foo")(foo) is foo
    custom_ops.impl(f"{NS}::foo", device_types="cpu")(foo_cpu)
    custom_ops.impl_abstract(f"{NS}::foo")(foo_meta)

    seen: list[Any] = []

    def save(inputs: Any, output: Any) -> Any:
        seen.append(inputs._fields)
        return {"x": inputs.x, "n": [inputs.n]}

    differentiate(lambda ctx, saved, grad: {"x": grad * saved["x"].cos() * saved["n"][0]}, save)
    op = torch.ops.tests_former.foo
    x = torch.tensor(X, dtype=torch.float64, requires_grad=True)
    y = op(x, 3)
    y.sum().backward()
    np.testing.assert_allclose(y.detach().numpy(), 3 * np.sin(X), rtol=1e-12)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), 3 * np.cos(X), rtol=1e-12)
    assert seen == [("x", "n")]
    assert op(torch.ones(2, 3, device="meta"), n=2).shape == (2, 3)
    assert repr(impl.global_registry[f"{NS}::foo"]) == f'<CustomOp(op="{NS}::foo")>'


def test_lists_and_results_without_gradients() -> None:
    op = define("(Tensor[] xs) -> (Tensor[], Tensor)", lambda xs: ([x.clone() for x in xs], xs[0] * 2))
    differentiate(lambda ctx, saved, many, grad: {"xs": [grad * 2, None]}, lambda inputs, output: [], [False, True])
    a, b = torch.tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    many, one = op((a, b))
    assert [x.requires_grad for x in many] == [False, False]
    one.sum().backward()
    assert a.grad is not None
    assert a.grad.tolist() == [2.0, 2.0, 2.0]
    assert b.grad is None


def test_kernels_are_given_lists() -> None:
    seen: list[Any] = []

    def copied(x: Any, sizes: Any) -> Any:
        seen.append(sizes)
        return x.clone()

    op = define("(Tensor x, int[] sizes) -> Tensor", copied)

    class Numbers(Sequence[int]):
        def __getitem__(self, k: Any) -> Any:
            return [1, 2, 3][k]

        def __len__(self) -> int:
            return 3

    op(torch.ones(1), Numbers())
    op(torch.ones(1), (4, 5))
    assert seen == [[1, 2, 3], [4, 5]]


def test_kernels_complete_operators_of_libraries() -> None:
    library = Library(NS, "FRAGMENT")
    library.define("other(Tensor x) -> Tensor")
    custom_ops.impl(f"{NS}::other", func=torch.cos)
    np.testing.assert_allclose(torch.ops.tests_former.other(torch.tensor(X)).numpy(), np.cos(X), rtol=1e-6)
    library.impl("other", torch.sin, "AutogradCPU")
    with pytest.raises(ArgumentError, match="it already has an Autograd kernel registered to DispatchKey::AutogradCPU"):
        custom_ops.impl_backward(f"{NS}::other", func=torch.sin)
    library.define("taken(Tensor x) -> Tensor")
    library.impl("taken", torch.sin, "CPU")
    with pytest.raises(
        ArgumentError, match=r"the operator already has an implementation for this device type via torch.library"
    ):
        custom_ops.impl(f"{NS}::taken", func=torch.cos)
    library.define("view(Tensor(a) x) -> Tensor(a)")
    library.define("written(Tensor(a!) x) -> Tensor")
    library.define("nothing(Tensor x) -> ()")
    library.define("named(Tensor x) -> str")
    library.define("composed(Tensor x) -> Tensor")
    library.impl("composed", torch.sin, "CompositeImplicitAutograd")
    for name, rule in [
        ("view", f"operator that returns views.*{FUNCTIONAL}"),
        ("written", f"non-functional operator.*{FUNCTIONAL}"),
        ("nothing", "operator with no returns"),
        ("composed", "such operators do not need an autograd formula"),
        ("named", "operator with return not in"),
    ]:
        with pytest.raises(ArgumentError, match=rule):
            custom_ops.impl_save_for_backward(f"{NS}::{name}", func=torch.sin)
    with pytest.raises(ArgumentError, match="such operators do not need one"):
        custom_ops.impl_abstract(f"{NS}::composed", func=torch.sin)
    with pytest.raises(ArgumentError, match="a function over other operators has their shapes"):
        torch.library.register_fake(f"{NS}::composed", torch.sin, lib=library)
    library._destroy()


def test_gradients_that_are_missing() -> None:
    op = define()
    x = torch.tensor(X, requires_grad=True)
    with pytest.raises(AutogradError, match="Autograd has not been implemented for operator"):
        op(x)
    with torch.no_grad():
        np.testing.assert_allclose(op(x).numpy(), np.sin(X), rtol=1e-6)
    custom_ops.impl_backward(f"{NS}::foo", func=lambda ctx, saved, grad: {"x": grad})
    with pytest.raises(AutogradError, match=r"unable to find a 'save_for_backward' registration — a gradient is both"):
        op(x)


@pytest.mark.parametrize(
    ("schema", "returned", "rule"),
    [
        ("(Tensor x) -> Tensor", lambda g: g, GRADIENTS),
        ("(Tensor x) -> Tensor", lambda g: {"x": g, "y": None}, GRADIENTS),
        ("(Tensor x, Tensor? y) -> Tensor", lambda g: {"x": g}, GRADIENTS),
        ("(Tensor x) -> Tensor", lambda g: {"x": (g,)}, "expected the gradient to be either None or a Tensor"),
        ("(Tensor x, Tensor? y) -> Tensor", lambda g: {"x": g, "y": g}, "a Tensor for 'y' of type"),
        ("(Tensor[] x) -> Tensor", lambda g: {"x": None}, "list of gradients for 'x'"),
        ("(Tensor[] x) -> Tensor", lambda g: {"x": [g, None]}, "3 gradients but got 2"),
        ("(Tensor[] x) -> Tensor", lambda g: {"x": [g, None, (None,)]}, "None or Tensor gradients"),
        ("(Tensor?[] x) -> Tensor", lambda g: {"x": [g, None, g]}, "a Tensor for value 2 of 'x'"),
    ],
)
def test_gradients_that_do_not_fit(schema: str, returned: Callable[[Any], Any], rule: str) -> None:
    op = define(schema, lambda x, *rest: (x[0] if isinstance(x, list) else x).sin())
    differentiate(lambda ctx, saved, grad: returned(grad), lambda inputs, output: None)
    x = torch.ones((), requires_grad=True)
    given: list[Any] = [x] if "[]" not in schema else [[x, torch.ones(()), None if "?" in schema else x]]
    y = op(*given, *([None] if "Tensor? y" in schema else []))
    with pytest.raises(ArgumentError, match=rule):
        y.backward()


def test_results_that_have_no_gradient_are_not_said_to_have_one() -> None:
    op = define("(Tensor x) -> (Tensor, int)", lambda x: (x.clone(), 3))
    differentiate(lambda ctx, saved, *grads: {"x": grads[0]}, lambda inputs, output: [], [True, True])
    with pytest.raises(ArgumentError, match="result 1 of type int is not a Tensor, so it has no gradient"):
        op(torch.ones(2, requires_grad=True))
    for flags in (True, [True], [True, 1]):
        with pytest.raises(ArgumentError, match="it is a list of bools with length equal to the number of outputs"):
            custom_ops.impl_backward(f"{NS}::foo", flags)


def test_definitions_that_are_refused() -> None:
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (
            lambda: custom_ops.custom_op(f"{NS}::foo", "("),
            AssertionError,
            r"Invalid function schema: foo.*a schema looks like \(Tensor x\) -> Tensor",
        ),
        (
            lambda: custom_ops.custom_op("foo", "() -> ()"),
            ArgumentError,
            "Expected there to be a namespace in the name",
        ),
        (
            lambda: custom_ops.custom_op(f"{NS}::foo.bar", "() -> ()"),
            ArgumentError,
            "these functions do not handle overloads, names with '.' in them",
        ),
        (
            lambda: custom_ops.custom_op("aten::foo", "(Tensor x) -> Tensor"),
            ArgumentError,
            "a namespace has no dot, and each of these is a reserved namespace: at, aten, prim",
        ),
        (
            lambda: custom_ops.custom_op(f"{NS}::foo", "(Tensor(a!) x) -> Tensor(a)"),
            ArgumentError,
            "custom_op only supports functional operators",
        ),
        (
            lambda: custom_ops.custom_op(f"{NS}::foo", "(Tensor x) -> ()"),
            ArgumentError,
            "custom_op only supports functional operators",
        ),
        (
            lambda: custom_ops.custom_op(f"{NS}::foo", "(Tensor self) -> ()"),
            ArgumentError,
            "custom_op does not support arguments named 'self'",
        ),
        (lambda: impl.CustomOp(None), RuntimeError, "The CustomOp constructor is private"),
        (lambda: impl.custom_op(f"{NS}::foo")(lambda x: x), ArgumentError, "expected `func` to have name 'foo'"),
        (lambda: impl.get_op(f"{NS}::absent"), ArgumentError, "Could not find the operator"),
        (lambda: impl.find_custom_op(f"{NS}::absent"), ArgumentError, "Could not find custom op"),
        (lambda: torch.library.infer_schema(optional_items), ArgumentError, "an unsupported type"),
    ]
    for call, error, rule in cases:
        with pytest.raises(error, match=rule):
            call()
    op = define()
    with pytest.raises(ArgumentError, match="an operator is not defined multiple times"):
        custom_ops.custom_op(f"{NS}::foo", "(Tensor x) -> Tensor")
    with pytest.raises(ArgumentError, match=r"a second cpu impl .* it already has a cpu impl"):
        custom_ops.impl(f"{NS}::foo", func=torch.sin)
    with pytest.raises(ArgumentError, match=r"we only support device_type in \['cpu', 'cuda'\]"):
        custom_ops.impl(f"{NS}::foo", device_types="hip")
    with pytest.raises(UnsupportedOperator, match="register_fake"):
        op(torch.ones(1, device="meta"))
    library = Library(NS, "FRAGMENT")
    library.impl("foo", torch.sin, "Meta")
    with pytest.raises(ArgumentError, match="the operator already has a DispatchKey::Meta implementation"):
        custom_ops.impl_abstract(f"{NS}::foo", func=torch.sin)
    library._destroy()


def optional_items(x: torch.Tensor, y: list[Optional[int]]) -> torch.Tensor:  # noqa: UP045  as annotations are written
    return x


def test_schemas_beside_functions_have_their_parameters() -> None:
    cases: list[tuple[Any, str, str]] = [
        (lambda x: x, "(Tensor y) -> Tensor", "we expect `func`'s signature to match the schema"),
        (lambda x, y: x, "(Tensor x, *, Tensor y) -> Tensor", "we expect `func`'s signature to match the schema"),
        (
            lambda x, *, y, z: x,
            "(Tensor x, *, Tensor z, Tensor y) -> Tensor",
            "we expect `func`'s signature to match the schema",
        ),
        (lambda *args: args, "(Tensor x) -> Tensor", "positional-only args, varargs, and kwargs are not supported"),
        (
            lambda x, *, y=1: x,
            "(Tensor x, *, Tensor y) -> Tensor",
            "neither func nor the schema should have default arguments",
        ),
        (
            optional_items,
            "(Tensor x, int[] y) -> Tensor",
            "with a schema, we expect `func` to have no type annotations",
        ),
    ]
    for function, text, rule in cases:
        with pytest.raises(ArgumentError, match=rule):
            checks.validate_function_matches_schema(checks.parse_functional("foo", text), function)
    checks.validate_function_matches_schema(
        checks.parse_functional("foo", "(Tensor x, *, Tensor y) -> Tensor"), lambda x, *, y: x
    )


def test_questions_about_schemas() -> None:
    for text, functional in [
        ("foo(Tensor x) -> Tensor", True),
        ("foo(Tensor(a) x) -> Tensor", True),
        ("foo(Tensor(a!) x) -> Tensor", False),
        ("foo(Tensor(a) x) -> Tensor(a)", False),
        ("foo(Tensor x) -> ()", False),
    ]:
        assert utils.is_functional_schema(text) is functional
    assert utils.lookup_op("aten::sin") is torch.ops.aten.sin.default
    for kind, text in infer_schema.SUPPORTED_PARAM_TYPES.items():

        def function(x: Any, y: Any) -> Any:
            return x

        function.__annotations__ = {"x": torch.Tensor, "y": kind, "return": torch.Tensor}
        assert infer_schema.infer_schema(function) == f"(Tensor x, {text} y) -> Tensor"
    assert infer_schema.SUPPORTED_RETURN_TYPES[list[torch.Tensor]] == "Tensor[]"
