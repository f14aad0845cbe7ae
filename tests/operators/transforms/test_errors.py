"""Errors of the transforms: class, PyTorch's class behind it, form, and what works afterwards."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_core import pytree
from tensocket_core.transforms import batching, tangents
from tensocket_operators import transforms as t
from tensocket_operators.autograd import Function, functional
from tensocket_operators.differentiation import dual_levels as fwd
from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.dtypes import int32
from tensocket_plugins.contract.errors import (
    ArgumentError,
    AutogradError,
    DimensionError,
    ShapeError,
    TensocketError,
    TransformError,
)

ONE, THREE = torch.tensor(1.0, device="ref"), torch.tensor([1.0, 2.0, 3.0], device="ref")
KEPT: list[Any] = []


def total(x: Any) -> Any:
    return x.sum()


class Joined(Function):
    """Without setup_context."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2


class Both(Function):
    """With two rules for batches."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return x, 0


def typed_leaf(x: Any) -> Any:
    x.clone().requires_grad = True


def inner_leaf(x: Any) -> Any:
    torch.zeros(2).requires_grad_()
    return x.sum()


def keeping(x: Any) -> Any:
    (x * 1).retain_grad()
    return x.sum()


def inner_pass(x: Any) -> Any:
    torch.zeros((), requires_grad=True).sin().backward()
    return x.sum()


def inner_jacobian(x: Any) -> Any:
    return functional.jacobian(total, x).sum()


TRANSFORMS: list[Callable[[Any], Any]] = [
    lambda f: t.grad(f)(THREE), lambda f: t.vmap(f)(THREE), lambda f: t.jvp(f, (THREE,), (THREE,)),
    lambda f: t.functionalize(f)(THREE)]


def returning(made: Any) -> Any:
    """A function whose rule for batches returns something."""

    class Returning(Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            return made

    return Returning


def escaped() -> Any:
    t.vmap(lambda x: KEPT.append(x) or x)(THREE)
    return KEPT.pop() + 1


def quiet(function: Callable[[], Any]) -> Callable[[], Any]:
    """Without the warning of operators that are called once per example."""

    def run() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function()

    return run


def contained(tests: Any) -> Any:
    return torch.functions.isin(THREE, tests)


def second_level() -> Any:
    with fwd.dual_level():
        fwd.enter_dual_level()


def dual_of(what: str) -> Any:
    with fwd.dual_level():
        dual = fwd.make_dual(ONE, ONE)
        return fwd.make_dual(*((dual, ONE) if what == "primal" else (ONE, dual)))


def typed_view(x: Any) -> Any:
    torch.functions.view_as_real(x).mul_(2)
    return x


def differing_rows() -> Any:
    operator = SimpleNamespace(name="rows", kind="custom")
    info = SimpleNamespace(operator=operator, batch_size=2)
    return t.batching_rules._stacked(info.operator.name, [THREE, THREE[:2]])


def retyped_view() -> Any:
    operator = SimpleNamespace(name="bits", view=lambda array: DeviceArray(None, int32, array.shape, array.strides, 0))
    return t.batching_rules.view(SimpleNamespace(operator=operator), (0,), THREE)


Case = tuple[Callable[[], Any], type[TensocketError], type[Exception], str, str]
COMPLEX = torch.tensor([1 + 2j], device="ref")
#: The failing call, the class, PyTorch's class, the operator that the message names, and the rule.
CASES: list[Case] = [
    (escaped, TransformError, RuntimeError, "add", "tensors of a transform are used while it runs and at its level"),
    (lambda: t.vmap(lambda x: x.data_ptr())(THREE), TransformError, RuntimeError, "data_ptr",
     "tensors of transforms have no memory of their own"),
    (lambda: t.grad(lambda x: THREE.add_(x).sum())(ONE), TransformError, RuntimeError, "add_",
     "a transformed function modifies only what it is given or has made: it can not mutate a captured Tensor"),
    (lambda: t.vmap(lambda x: torch.zeros(()).add_(x))(THREE), TransformError, RuntimeError, "add_",
     "a result that differs between examples is not written into one tensor"),
    (lambda: t.vmap(typed_leaf)(THREE), AutogradError, RuntimeError, "requires_grad",
     "tensors of a batch record gradients where the batch does"),
    *[(lambda make=make: make(inner_leaf), AutogradError, RuntimeError, "Tensor.requires_grad_()",
       "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) inside "
       "of a function being transformed by a functorch transform, which says itself what requires a gradient")
      for make in TRANSFORMS],
    (lambda: t.grad(keeping)(THREE), AutogradError, RuntimeError, "Tensor.retain_grad()",
     "You are attempting to call Tensor.retain_grad() (or perhaps using torch.autograd.functional.* APIs) inside "
     "of a function being transformed by a functorch transform, which says itself what requires a gradient"),
    *[(lambda make=make: make(inner_pass), AutogradError, RuntimeError, "backward",
       "backward() called inside a functorch transform. This is not supported") for make in TRANSFORMS],
    (lambda: t.grad(inner_jacobian)(THREE), AutogradError, RuntimeError, "Tensor.requires_grad_()",
     "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) inside "
     "of a function being transformed by a functorch transform, which says itself what requires a gradient"),
    (lambda: t.jacrev(total)(COMPLEX), AutogradError, RuntimeError, "jacrev",
     "jacrev: Expected all inputs to be real but received complex tensor at flattened input idx: 0"),
    (lambda: t.jacfwd(total)(COMPLEX), AutogradError, RuntimeError, "jacfwd",
     "jacfwd: Expected all inputs to be real but received complex tensor at flattened input idx: 0"),
    (lambda: t.jacrev(lambda x: x * 1j)(THREE), AutogradError, RuntimeError, "jacrev",
     "jacrev: Expected all outputs to be real but received complex tensor at flattened input idx: 0"),
    (lambda: t.jacfwd(lambda x: x * 1j)(THREE), AutogradError, RuntimeError, "jacfwd",
     "jacfwd: Expected all outputs to be real but received complex tensor at flattened input idx: 0"),
    (lambda: t.jacrev(total, chunk_size=0), ArgumentError, ValueError, "jacrev",
     "jacrev: `chunk_size` should be greater than 0."),
    (lambda: t.vjp(lambda x: (x > 0).long(), THREE), AutogradError, RuntimeError, "vjp",
     f"vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype {torch.int64!r}"),
    *[(lambda made=made: t.vjp(lambda x: made, THREE), AutogradError, RuntimeError, "vjp(f, *primals)",
       "vjp(f, *primals): Expected f to be a function that has non-empty output") for made in (None, ())],
    *[(lambda made=made: t.jvp(lambda x: made, (THREE,), (THREE,)), AutogradError, RuntimeError,
       "jvp(f, primals, tangents)", "jvp(f, primals, tangents): Expected f to be a function that has non-empty output")
      for made in (None, ())],
    *[(lambda aux=aux: t.grad(lambda x: (x.sum(), aux), has_aux=True)(THREE), AutogradError, RuntimeError,
       "grad_and_value(f)(*args)", "Expected tensors, got unsupported type <class 'float'>") for aux in (1.0, [1.0])],
    (lambda: t.vmap(lambda x: torch.rand(2))(THREE), TransformError, RuntimeError, "rand",
     "with randomness='error', functions of examples draw nothing"),
    (lambda: t.vmap(lambda x: x.item())(THREE), TransformError, RuntimeError, "item",
     "calling .item() on a batch has no one value"),
    (lambda: t.vmap(lambda x: x if x else -x)(THREE), TransformError, RuntimeError, "bool",
     "control flow does not depend on the data of a batch"),
    (lambda: number_of(THREE), TransformError, RuntimeError, "item", "calling .item() on a batch has no one value"),
    (lambda: t.vmap(lambda x: x.unique())(THREE.reshape(1, 3)), TransformError, RuntimeError, "unique",
     "shapes of results do not depend on the data of a batch"),
    (quiet(lambda: t.vmap(contained)(torch.zeros(0, 1 << 14, device="ref"))), TransformError, RuntimeError, "isin",
     "an operator without batching rule is called once per example at least"),
    (differing_rows, TransformError, RuntimeError, "rows", "all examples have results of one shape"),
    (retyped_view, TransformError, RuntimeError, "bits", "views of batches keep the dtype"),
    (lambda: t.batching_rules._stacked("count", [1, 1]), TransformError, RuntimeError, "count",
     "results of batched calls are tensors"),
    (lambda: t.functionalize(typed_view)(COMPLEX.clone()), TransformError, RuntimeError, "functionalize",
     "views that are modified have the dtype of what they are a view of"),
    (lambda: t.vmap(total, randomness="often"), ArgumentError, RuntimeError, "vmap",
     "Only allowed values for randomness are 'error', 'different', or 'same'"),
    (lambda: t.vmap(total, chunk_size=0), ArgumentError, ValueError, "vmap",
     "vmap: chunk_size should be None or greater than 0."),
    (lambda: t.vmap(total)(), ArgumentError, ValueError, "vmap",
     "vmap(total)(<inputs>): got no inputs; a batched function has batches among its positional arguments"),
    (lambda: t.vmap(total)(x=THREE), ArgumentError, ValueError, "vmap",
     "vmap(total)(<inputs>): got no inputs; a batched function has batches among its positional arguments"),
    (lambda: t.vmap(total, in_dims="a")(THREE), ArgumentError, ValueError, "vmap",
     "expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs"),
    (lambda: t.vmap(total, in_dims=[0])(THREE), ArgumentError, ValueError, "vmap",
     "expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs"),
    (lambda: t.vmap(total, in_dims=(0, 0))(THREE), ArgumentError, ValueError, "vmap",
     "in_dims is not compatible with the structure of `inputs`: in_dims has structure tuple(*, *) but inputs has "
     "structure tuple(*)"),
    (lambda: t.restore_vmap(total, (0, 0), 3, "error")(THREE), ArgumentError, ValueError, "vmap",
     "in_dims is not compatible with the structure of `inputs`: in_dims has structure tuple(*, *) but inputs has "
     "structure tuple(*)"),
    (lambda: t.vmap(total, in_dims=(None,))(THREE), ArgumentError, ValueError, "vmap",
     "vmap: Expected at least one Tensor to vmap over"),
    (lambda: t.vmap(total)(1.0), ArgumentError, ValueError, "vmap",
     "Got in_dim=0 for an input but the input is of type <class 'float'>; only tensors are batched"),
    (lambda: t.vmap(total, in_dims=2)(THREE), ArgumentError, ValueError, "vmap",
     "Got in_dim=2 for some input, but that input is a Tensor of dimensionality 1 so expected in_dim to satisfy -1 <= "
     "in_dim < 1"),
    (lambda: t.vmap(total, in_dims=(0.5,))(THREE), ArgumentError, ValueError, "vmap",
     "Got in_dim=0.5 for an input but in_dim must be either an integer dimension or None"),
    (lambda: t.vmap(lambda x, y: x)(THREE, THREE[:2]), ArgumentError, ValueError, "vmap",
     "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes [3, 2] for the mapped "
     "dimension"),
    (lambda: t.vmap(total, out_dims=(0, 0))(THREE), ArgumentError, ValueError, "vmap",
     "out_dims is not compatible with the structure of `outputs`: out_dims has structure tuple(*, *) but outputs has "
     "structure *"),
    (lambda: t.vmap(total, out_dims="x")(THREE), ArgumentError, ValueError, "vmap",
     "`out_dims` must be an int, None or a python collection of ints representing where in the outputs the vmapped "
     "dimension should appear"),
    (lambda: t.vmap(lambda x: 1.0)(THREE), ArgumentError, ValueError, "vmap",
     "`<lambda>` must only return Tensors, got type <class 'float'>"),
    (lambda: t.vmap(total, out_dims=None)(THREE), ArgumentError, ValueError, "vmap",
     "`total` can not return a BatchedTensor when out_dim is None"),
    (lambda: t.vmap(total, out_dims=3)(THREE), DimensionError, IndexError, "vmap",
     "Dimension out of range (expected to be in range of [-1, 0], but got 3)"),
    (lambda: t.grad(total)(1.0), ArgumentError, ValueError, "grad", "what is differentiated is a tensor"),
    (lambda: t.grad(lambda x: x)(THREE), AutogradError, RuntimeError, "grad",
     "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with 1 dims"),
    (lambda: t.grad(lambda x: [x.sum()])(THREE), AutogradError, RuntimeError, "grad",
     "grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got <class 'list'>"),
    (lambda: t.grad(lambda x: 1.0)(THREE), AutogradError, RuntimeError, "grad",
     "grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got <class 'float'>"),
    (lambda: t.grad(total, argnums=2)(THREE), AutogradError, RuntimeError, "grad",
     "Got argnum=2, but only 1 positional inputs"),
    (lambda: t.grad(total, argnums=(0, 0))(THREE), AutogradError, RuntimeError, "grad",
     "argnums elements must be unique, got (0, 0)"),
    (lambda: t.grad(total, argnums="x")(THREE), AutogradError, RuntimeError, "grad",
     "argnums must be int or Tuple[int, ...], got: <class 'str'>"),
    (lambda: t.grad(total, argnums=())(THREE), AutogradError, RuntimeError, "grad", "argnums must be non-empty"),
    (lambda: t.grad(total, has_aux=True)(THREE), AutogradError, RuntimeError, "grad_and_value(f)(*args)",
     "grad_and_value(f)(*args): output of function f should be a tuple: (output, aux) if has_aux is True"),
    (lambda: t.vjp(total, THREE)[1]((ONE, ONE)), AutogradError, RuntimeError, "vjp",
     "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
     "cotangents: tuple(*, *), primal output: *"),
    (lambda: t.vjp(total, THREE)[1](THREE), ShapeError, RuntimeError, "vjp",
     "a cotangent is a tensor of its result's shape"),
    (lambda: t.jvp(total, THREE, THREE), AutogradError, RuntimeError, "jvp",
     "jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals)"),
    (lambda: t.jvp(total, (THREE,), (THREE, THREE)), AutogradError, RuntimeError, "jvp",
     "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure"),
    (lambda: t.jvp(total, (), ()), AutogradError, RuntimeError, "jvp",
     "jvp(f, primals, tangents): Expected primals to contain at least one Tensor"),
    (lambda: t.jvp(lambda x: 1.0, (THREE,), (THREE,)), AutogradError, RuntimeError, "jvp(f, primals, tangents)",
     "jvp(f, primals, tangents): expected f(*primals) to return only tensors, got unsupported type <class 'float'>"),
    (lambda: t.jvp(lambda x: ONE, (THREE,), (THREE,), strict=True), AutogradError, RuntimeError, "jvp",
     "with strict=True, all results do"),
    (lambda: t.jvp(total, (THREE,), (1.0,)), ArgumentError, RuntimeError, "jvp", "primals and tangents are tensors"),
    (lambda: t.jvp(total, (THREE.long(),), (THREE,)), ArgumentError, ValueError, "jvp",
     "floating-point and complex tensors have tangents"),
    (lambda: t.jvp(total, (THREE,), (ONE,)), ShapeError, RuntimeError, "jvp", "a tangent has its primal's shape"),
    (lambda: t.jacfwd(total)(()), AutogradError, RuntimeError, "jacfwd", "what is differentiated is a tensor"),
    (lambda: t.linearize(torch.sin, THREE)[1](THREE, THREE), AutogradError, RuntimeError, "linearize",
     "tangents have the structure of the primals"),
    (lambda: t.functionalize(total, remove="views"), ArgumentError, RuntimeError, "functionalize",
     "what is removed is 'mutations' or 'mutations_and_views'"),
    (lambda: t.trace(total)(THREE).replay(THREE, 1), ArgumentError, ValueError, "replay",
     "a graph runs on arguments of the structure that was traced"),
    (lambda: fwd.make_dual(ONE, ONE), AutogradError, RuntimeError, "make_dual", "tangents live in a dual level"),
    (fwd.exit_dual_level, AutogradError, RuntimeError, "exit_dual_level", "the open level is closed"),
    (second_level, AutogradError, RuntimeError, "enter_dual_level", "dual levels do not nest"),
    *[(partial(dual_of, what), AutogradError, RuntimeError, "make_dual", "a level has first derivatives only")
      for what in ("primal", "tangent")],
    (lambda: t.grad(lambda x: Joined.apply(x).sum())(THREE), TransformError, RuntimeError, "Joined",
     "transforms call forward and setup_context separately"),
    *[(lambda made=made: t.vmap(returning(made).apply)(THREE), TransformError, RuntimeError, "Returning",
       "Expected the vmap staticmethod to have two returns, an output and out_dims") for made in (ONE, (ONE, 0, 0))],
    *[(lambda made=made: t.vmap(returning(made).apply)(THREE), TransformError, RuntimeError, "Returning",
       "The vmap staticmethod returned an incompatible (output, out_dims) pair")
      for made in ((THREE, (0,)), ([THREE], (0,)), ((THREE, THREE), (0, 0, 0)))],
    (lambda: t.vmap(lambda p: torch.zeros(2, device="ref").bernoulli_(p), randomness="same")(THREE / 4),
     TransformError, RuntimeError, "bernoulli_", "with randomness='same', all examples draw the same numbers"),
    (lambda: t.vmap(Both.apply)(THREE), TransformError, RuntimeError, "Both", "there is one rule for batches"),
    (lambda: tangents.inplace_tangent(SimpleNamespace(name="unknown_"), (THREE,), (THREE,)), TransformError,
     RuntimeError, "unknown_",
     "the operator has no rule for tangents of what it modifies"),
    (lambda: pytree.register_pytree_node(tuple, list, list), ArgumentError, ValueError, "register_pytree_node",
     "a class is registered once"),
    (lambda: pytree.tree_unflatten([1], pytree.tree_structure((1, 2))), ArgumentError, ValueError, "tree_unflatten",
     "there are as many leaves as the structure has"),
    (lambda: pytree.tree_map(max, (1,), [1]), ArgumentError, ValueError, "tree_map", "all trees have one structure"),
]


def number_of(x: Any) -> Any:
    """Call an operator for the number, not the tensor."""
    operator = batching.RULES["_local_scalar_dense"]
    return operator(SimpleNamespace(args=(x[0],)), (0,), x)


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{case[3]}" for k, case in enumerate(CASES)])
def test_class_form_and_what_follows(case: Case, check_error: Callable[[Case], None]) -> None:
    check_error(case)
    assert torch.is_grad_enabled()
