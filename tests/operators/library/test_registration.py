"""Operators, kernels, gradients, decompositions and fallbacks that are added from outside."""

from __future__ import annotations

import gc
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.fallback import DECOMPOSITIONS, FALLBACKS
from tensocket_core.dispatch.modes import STATE, thread_state
from tensocket_core.dispatch.protocol import TorchDispatchMode
from tensocket_core.dispatch.registry import OPERATORS, clear_tables
from tensocket_core.dispatch.schema import parse_schema
from tensocket_core.keys import AUTOGRAD, WRAPPER
from tensocket_core.transforms.reverse import grad
from tensocket_operators import Tensor, library
from tensocket_operators import functions as F
from tensocket_operators.library import Library, custom_op
from tensocket_operators.library.libraries import place_of
from tensocket_operators.library.operators import fake_kernel
from tensocket_operators.namespaces import ops
from tensocket_operators.transforms import vmap
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    AutogradError,
    MissingDataError,
    UnsupportedOperator,
)


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """Check that a test's registrations go with it."""
    before, tables = dict(OPERATORS), (dict(DECOMPOSITIONS), dict(FALLBACKS))
    yield
    gc.collect()
    for name in OPERATORS.keys() - before.keys():
        del OPERATORS[name]
    assert tables == (DECOMPOSITIONS, FALLBACKS)
    clear_tables()


@pytest.fixture
def lib() -> Iterator[Library]:
    library_ = Library("probe", "DEF")
    yield library_
    library_._destroy()


def f64(*values: float, grad: bool = True) -> Any:
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=grad)


def make_cube() -> Any:
    @custom_op("probe::cube", mutates_args=())
    def cube(x: Tensor) -> Tensor:
        """x * x * x."""
        return x * x * x

    cube.register_fake(lambda x: torch.empty_like(x))

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        assert ctx.needs_input_grad == (True,)
        ctx.save_for_backward(inputs[0])

    cube.register_autograd(lambda ctx, g: 3 * g * ctx.saved_tensors[0].square(), setup_context=setup)
    return cube


# ---------------------------------------------------------------------------------------------------------- schemas


def test_schemas_of_pytorch_are_parsed() -> None:
    text = ('ns::f.ov(Tensor x, Tensor(a!)? y, SymInt[2] dim=[0, 1], float eps=1e-5, *, str mode="mean", Tensor?[] ix, '
            "MemoryFormat format=contiguous_format) -> (Tensor out, Tensor(a!))")
    schema = parse_schema(text)
    x, y, dim, eps, mode, ix, form = schema.parameters
    assert (schema.name, schema.names[0], schema.tensors) == ("ns::f.ov", "x", (0, 1, 5))
    assert (x.mutated, y.mutated, y.optional, y.type) == (False, True, True, "Tensor")
    assert (dim.type, dim.default, eps.default) == ("int[]", "(0, 1)", "1e-5")
    assert (mode.default, mode.keyword_only, ix.type) == ('"mean"', True, "Tensor?[]")
    assert form.default == "'contiguous_format'"
    assert schema.results == ("Tensor", "Tensor")
    assert schema.is_mutable
    assert parse_schema("f(Scalar s, ScalarType? t=None) -> ()").results == ()
    assert parse_schema("f(Tensor[] xs) -> Tensor[]").results == ("Tensor[]",)
    with pytest.raises(ValueError, match="not a parameter in the schema of f: 'Tensr x': unknown type specifier"):
        parse_schema("f(Tensr x) -> Tensor")


def test_schemas_follow_from_annotations() -> None:
    def function(x: Tensor, xs: list[Tensor], n: int, sizes: Sequence[int], *, t: Tensor | None = None, s: float = 0.5,
                 mode: str = "mean", flag: bool = True, number: int | float = 1, d: Optional[int] = None,  # noqa: UP045
                 ) -> tuple[Tensor, int]:
        raise NotImplementedError

    assert library.infer_schema(function, mutates_args={"x", "xs"}) == (
        '(Tensor(a0!) x, Tensor(a1!)[] xs, SymInt n, SymInt[] sizes, *, Tensor? t=None, float s=0.5, '
        'str mode="mean", bool flag=True, Scalar number=1, SymInt? d=None) -> (Tensor, SymInt)')

    def unknown(x: Tensor, n: int) -> None: ...

    assert library.infer_schema(unknown, mutates_args="unknown", op_name="f") == "f(Tensor(a0!) x, SymInt n) -> ()"


def bare(x) -> Tensor: ...


def silent(x: Tensor): ...


def odd(x: dict) -> Tensor: ...


def mixed(x: Tensor | int) -> Tensor: ...


def many(*xs: Tensor) -> Tensor: ...


def listed(x: Tensor, n: list[int] = [1]) -> Tensor: ...  # noqa: B006


def unreadable(x: "Tenzor") -> Tensor: ...  # noqa: F821, UP037


@pytest.mark.parametrize(("function", "mutates", "message"), [
    (bare, (), "the annotation None of x"), (silent, (), "no annotation of the result"),
    (odd, (), "the annotation <class 'dict'> of x"), (mixed, (), "of x"), (many, (), "the parameter *xs"),
    (listed, (), "the default [1] of n"), (unreadable, (), "an annotation that cannot be read"),
    (listed, {"y"}, "{'y'} in mutates_args were not found"), (listed, {"n"}, "mutates_args with n, no tensor"),
])  # fmt: skip
def test_annotations_without_a_counterpart(function: Any, mutates: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(message)):
        library.infer_schema(function, mutates_args=mutates)


# --------------------------------------------------------------------------------------------------------- custom_op


def test_a_function_becomes_an_operator() -> None:
    cube = make_cube()
    x = f64(1, 2)
    y = cube(x)
    assert y.tolist() == [1.0, 8.0]
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]
    assert ops.probe.cube.default is cube.operator is OPERATORS["probe::cube"]
    assert ops.probe.cube(x=x).tolist() == [1.0, 8.0]
    assert cube(torch.zeros(3, device="meta")).shape == (3,)
    assert torch.registrations("ref")["probe::cube"] == "registered"
    assert "cube" in dir(ops.probe)
    assert "probe" in dir(ops)
    assert (repr(cube), cube.__name__, cube.__doc__) == ("<CustomOpDef(probe::cube)>", "cube", "x * x * x.")
    assert library.opcheck(cube, (x,)) == dict.fromkeys(
        ["test_schema", "test_autograd_registration", "test_faketensor", "test_gradcheck"], "SUCCESS")


def test_operators_from_outside_are_transformed_like_others() -> None:
    cube = make_cube()
    x = f64(1, 2, 3, grad=False)
    assert grad(lambda x: cube(x).sum())(x).tolist() == [3.0, 12.0, 27.0]
    assert grad(lambda x: grad(lambda x: cube(x).sum())(x).sum())(x).tolist() == [6.0, 12.0, 18.0]
    with pytest.warns(UserWarning, match="vmap has no rule for probe::cube"):
        assert vmap(cube)(x.reshape(3, 1)).tolist() == [[1.0], [8.0], [27.0]]
    calls = []

    @cube.register_vmap
    def batched(info: Any, in_dims: Any, x: Any) -> Any:
        calls.append((info.batch_size, in_dims))
        return cube(x), in_dims[0]

    assert vmap(cube)(x.reshape(3, 1)).tolist() == [[1.0], [8.0], [27.0]]
    assert calls == [(3, (0,))]
    assert vmap(grad(lambda x: cube(x)))(x).tolist() == [3.0, 12.0, 27.0]


def test_operators_from_outside_are_seen_by_modes_and_classes() -> None:
    cube = make_cube()
    seen = []

    class Logged(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **kwargs)

    x = f64(2)
    with Logged():
        cube(x)
    assert seen == [ops.probe.cube.default]  # the mode does not see what its own call does
    cube.register_torch_dispatch(Logged, lambda mode, func, types, args, kwargs: func(*args, **kwargs) + 1)
    seen.clear()
    with Logged():
        assert cube(x).tolist() == [9.0]
    assert seen == []

    class Sub(Tensor):
        pass

    assert type(cube(Sub([1.0]))) is Sub


def test_several_results_keyword_arguments_and_lists() -> None:
    @custom_op("probe::scaled", mutates_args=())
    def scaled(xs: list[Tensor], n: int = 2, *, factor: float = 1.0) -> tuple[Tensor, Tensor]:
        return xs[0] * factor, xs[1] * n

    def setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        assert ctx.needs_input_grad == ([True, True], False, False)
        ctx.n, ctx.factor = inputs[1], keyword_only_inputs["factor"]

    scaled.register_autograd(lambda ctx, a, b: ([a * ctx.factor, b * ctx.n], None), setup_context=setup)
    x, y = f64(1, 2), f64(3)
    a, b = scaled([x, y], factor=3.0)
    assert (a.tolist(), b.tolist()) == ([3.0, 6.0], [6.0])
    (a.sum() + 10 * b.sum()).backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([3.0, 3.0], [20.0])
    scaled.register_autograd(lambda ctx, a, b: (None,), setup_context=setup)
    with pytest.raises(AutogradError, match="1 gradients from probe::scaled for 2 arguments"):
        scaled([x, y], 5)[0].sum().backward()


def test_arguments_that_are_written_to() -> None:
    @custom_op("probe::grow", mutates_args={"x"})
    def grow(x: Tensor, by: float) -> None:
        with torch.no_grad():
            x.detach().add_(by)

    x = torch.zeros(2)
    assert grow(x, 2.0) is None
    assert x.tolist() == [2.0, 2.0]
    version = x._version
    grow(x, 1.0)
    assert x._version > version
    assert grow(torch.zeros(2, device="meta"), 1.0) is None
    assert library.opcheck(grow, (x, 1.0))["test_schema"] == "SUCCESS"
    with pytest.raises(AutogradError, match=r"\[probe::grow\] an argument 'x' that requires grad"):
        grow(f64(1), 1.0)
    with pytest.raises(ArgumentError, match="probe::grow, which writes to an argument"):
        grow.register_autograd(lambda ctx, g: g)


def test_without_a_gradient_going_back_is_an_error() -> None:
    @custom_op("probe::opaque", mutates_args=())
    def opaque(x: Tensor) -> Tensor:
        return x.clone()

    y = opaque(f64(1))
    assert y.requires_grad
    with pytest.raises(AutogradError, match="a result of probe::opaque — it has no autograd formula"):
        y.sum().backward()
    assert not opaque(f64(1, grad=False)).requires_grad
    with pytest.raises(UnsupportedOperator, match="a call on meta — no function tells shapes of its results"):
        opaque(torch.zeros(1, device="meta"))
    with pytest.raises(ArgumentTypeError, match=re.escape("[probe::opaque] x of type float — the schema is ")):
        opaque(1.0)


def test_results_that_are_arguments_are_refused() -> None:
    @custom_op("probe::same", mutates_args=())
    def same(x: Tensor) -> Tensor:
        return x.view(-1)

    with pytest.raises(ArgumentError, match=r"\[probe::same\] a result in the memory of an argument"):
        same(torch.zeros(2))


def test_kernels_of_devices() -> None:
    @custom_op("probe::where", mutates_args=(), device_types="ref")
    def where(x: Tensor) -> int:
        return 1

    @where.register_kernel("plain")
    def on_plain(x: Tensor) -> int:
        return 2

    assert (where(torch.zeros(1)), where(torch.zeros(1, device="plain"))) == (1, 2)
    with pytest.raises(UnsupportedOperator, match="a call on meta"):
        where(torch.zeros(1, device="meta"))
    library.impl("probe::where", "default", lambda x: 3)
    assert (where(torch.zeros(1)), where(torch.zeros(1, device="plain"))) == (1, 2)
    library.register_kernel(where, ("ref", "plain"), lambda x: 4)
    assert (where(torch.zeros(1)), where(torch.zeros(1, device="plain"))) == (4, 4)

    @custom_op("probe::nothing", mutates_args=(), device_types="ref")
    def nothing(n: int) -> Tensor:
        return torch.zeros(n)

    assert nothing(3).shape == (3,)  # on the default device

    @custom_op("probe::elsewhere", mutates_args=(), device_types="plain")
    def elsewhere(x: Tensor) -> Tensor:
        return x + 1

    with pytest.raises(UnsupportedOperator, match="a call on ref — no kernel is registered for this device"):
        elsewhere(torch.zeros(1))
    library.register_decomposition(elsewhere, lambda x: x + 2)
    assert (elsewhere(torch.zeros(1)).item(), elsewhere(torch.zeros(1, device="plain")).item()) == (2.0, 1.0)
    DECOMPOSITIONS.pop("probe::elsewhere")


def test_a_name_has_a_namespace_and_can_be_defined_again() -> None:
    with pytest.raises(ArgumentError, match="the name 'cube'"):
        custom_op("cube", lambda x: x, mutates_args=())
    first = custom_op("probe::f", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    second = custom_op("probe::f", lambda x: x + 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    assert ops.probe.f.default is second.operator is not first.operator


def test_the_context_of_fake_functions() -> None:
    sizes = []

    @custom_op("probe::unknown_size", mutates_args=())
    def unknown_size(x: Tensor) -> Tensor:
        return x[x > 0]

    @unknown_size.register_fake
    def fake(x: Tensor) -> Tensor:
        sizes.append(library.get_ctx())
        return x.new_empty(library.get_ctx().new_dynamic_size())

    with pytest.raises(MissingDataError, match=r"\[probe::unknown_size\] a size that depends on data"):
        unknown_size(torch.zeros(1, device="meta"))
    assert len(sizes) == 1
    with pytest.raises(ArgumentTypeError, match="a call outside of a fake function"):
        library.get_ctx()
    assert fake_kernel("f", lambda: fake_kernel("g", library.get_ctx)() is not library.get_ctx())()


# ----------------------------------------------------------------------------------------------------------- opcheck


def checked(name: str, function: Any, args: Any, schema: str = "(Tensor x) -> Tensor", fake: Any = None) -> Any:
    op = custom_op(f"probe::{name}", function, mutates_args=(), schema=schema)
    if fake is not None:
        op.register_fake(fake)
    return {k: str(v) for k, v in library.opcheck(op, args, raise_exception=False).items()}


def test_opcheck_finds_results_that_are_views(lib: Library) -> None:
    lib.define("aliased(Tensor x) -> Tensor")
    lib.impl("aliased", lambda x: x.view(-1), "CompositeExplicitAutograd")
    with pytest.raises(AutogradError, match="a result that shares memory with an argument — results are new tensors"):
        library.opcheck(getattr(ops, lib.ns).aliased, (torch.ones(2),))


def test_opcheck_finds_what_does_not_fit() -> None:
    x = torch.tensor([1.0, 2.0])
    found = checked("a", lambda x: x.add_(1) * 1, (x,))["test_schema"]
    assert "argument 'x' changed — only what the schema marks is written to" in found
    assert "2 results — the schema returns Tensor" in checked("b", lambda x: (x * 1, x * 2), (x,))["test_schema"]
    assert "a result of type int — the schema returns Tensor" in checked("c", lambda x: 1, (x,))["test_schema"]
    assert "shapes of results are known on meta" in checked("d", lambda x: x * 1, (x,))["test_faketensor"]
    wrong = checked("e", lambda x: x * 1, (x,), fake=lambda x: x.new_empty(3))
    assert "shape [3], dtype float32, strides (1,) on meta instead of [2]" in wrong["test_faketensor"]
    assert "meta tells the truth" in wrong["test_faketensor"]
    wrong = checked("f", lambda x: x * 1, (x,), fake=lambda x: (x, x))
    assert "results tuple(*, *) on meta instead of * — results have one structure" in wrong["test_faketensor"]
    wrong = checked("g", lambda x: x * 1, (f64(1),))
    assert "a gradient is registered" in wrong["test_autograd_registration"]
    assert wrong["test_schema"] == "SUCCESS"
    cube = make_cube()
    cube.register_autograd(lambda ctx, g: g, setup_context=None)
    with pytest.raises(AutogradError):
        library.opcheck(cube, (f64(2),), test_utils="test_gradcheck")
    with pytest.raises(ArgumentError, match="checks test_x"):
        library.opcheck(cube, (x,), test_utils="test_x")
    with pytest.raises(ArgumentError, match="the built-in operator add"):
        library.opcheck("aten::add", (x, x))


# ---------------------------------------------------------------------------------------------------------- libraries


def test_a_library_defines_and_implements(lib: Library) -> None:
    assert lib.define("twice(Tensor x, int n=2, *, bool flag=False) -> Tensor") == "twice"
    lib.impl("twice", lambda x, n, *, flag: x * n if flag else x + n, "CompositeExplicitAutograd")
    assert ops.probe.twice(torch.ones(1), flag=True).tolist() == [2.0]
    assert ops.probe.twice(torch.ones(1), 5).tolist() == [6.0]
    assert repr(lib) == "Library(kind=DEF, ns=probe, dispatch_key=)"
    with pytest.raises(TypeError, match="argument 'x' is missing"):
        ops.probe.twice()


def test_what_a_library_registers_goes_with_it() -> None:
    add = OPERATORS["add"]
    x = torch.ones(2)
    temporary = Library("passing", "DEF")
    temporary.define("f(Tensor x) -> Tensor")
    patch = Library("aten", "IMPL", "ref")
    patch.impl("add.Tensor", lambda input, other: input * 10)
    assert (x + 1).tolist() == [10.0, 10.0]
    assert add.overrides
    assert torch.registrations("ref")["add"] == "override"
    del temporary, patch
    gc.collect()
    assert (x + 1).tolist() == [2.0, 2.0]
    assert add.overrides == {}
    assert "passing::f" not in OPERATORS
    Library("passing", "DEF")._destroy()  # the namespace is free again


def test_overloads(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    lib.define("f.scaled(Tensor x, float by) -> Tensor")
    lib.impl("f", lambda x: x + 1)
    lib.impl("f.scaled", lambda x, by: x * by)
    assert ops.probe.f(torch.ones(1)).item() == 2.0
    assert ops.probe.f.scaled(torch.ones(1), 5.0).item() == 5.0
    lib.define("g.only(Tensor x) -> Tensor")
    lib.impl("g.only", lambda x: x - 1)
    assert ops.probe.g.only(torch.ones(1)).item() == 0.0


def test_implicit_composites_are_seen_through(lib: Library) -> None:
    names = []

    class Logged(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(func.name)
            return func(*args, **kwargs)

    lib.define("implicit(Tensor x) -> Tensor")
    lib.impl("implicit", lambda x: x.exp() * 2)
    lib.define("explicit(Tensor x) -> Tensor")
    lib.impl("explicit", lambda x: x.exp() * 2, "CompositeExplicitAutograd")
    x = f64(0)
    with Logged():
        y = ops.probe.implicit(x)
        ops.probe.explicit(x)
    assert names == ["exp", "mul", "probe::explicit"]
    y.sum().backward()
    assert x.grad.item() == 2.0
    assert torch.registrations("ref")["probe::implicit"] == "composite"
    assert ops.probe.implicit.default in library.decompositions()
    assert OPERATORS["exp"] not in library.decompositions()


def test_kernels_of_the_autograd_layer(lib: Library) -> None:
    seen = []
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x * 2, "ref")
    lib.impl("f", lambda x: x * 3, "Meta")

    def above(x: Any) -> Any:
        seen.append(STATE.grad_enabled)
        with thread_state(exclude=STATE.exclude | AUTOGRAD):
            return ops.probe.f(x)

    lib.impl("f", above, "Autograd")
    assert ops.probe.f(f64(1)).item() == 2.0
    assert not ops.probe.f(f64(1)).requires_grad
    assert ops.probe.f(f64(1, grad=False)).item() == 2.0
    lib.impl("f", lambda x: "special", "AutogradRef")
    assert ops.probe.f(f64(1)) == "special"
    lib.impl("f", library.fallthrough_kernel, "AutogradRef", allow_override=True)
    assert ops.probe.f(f64(1)).item() == 2.0
    assert seen == [True, True]
    with thread_state(exclude=WRAPPER):
        assert ops.probe.f(f64(1, grad=False)).item() == 2.0


def test_kernels_of_layers_of_built_in_operators() -> None:
    patch = Library("aten", "IMPL")
    patch.impl("exp", lambda x: "above", "Autograd")
    assert f64(1).exp() == "above"
    assert f64(0, grad=False).exp().item() == 1.0
    patch._destroy()
    assert f64(0).exp().requires_grad
    patch.impl("exp", library.fallthrough_kernel, "Autograd")
    y = f64(0).exp()
    assert not y.requires_grad
    patch._destroy()


def test_wrong_libraries(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    with pytest.raises(ArgumentError, match="a second owner of namespace 'probe'"):
        Library("probe", "DEF")
    with pytest.raises(ArgumentError, match="a second owner of namespace 'aten'"):
        Library("aten", "DEF")
    with pytest.raises(ArgumentError, match="kind 'NEW'"):
        Library("probe", "NEW")
    with pytest.raises(ArgumentError, match="probe::f, which exists"):
        lib.define("f(Tensor x) -> Tensor")
    with pytest.raises(ArgumentError, match="the name 'a::f'"):
        lib.define("a::f(Tensor x) -> Tensor")
    with pytest.raises(ArgumentError, match="a definition in Library"):
        Library("probe", "IMPL").define("g(Tensor x) -> Tensor")
    with pytest.raises(ArgumentError, match="operator 'probe::g' — the operator is defined first"):
        lib.impl("g", lambda x: x)
    lib.impl("f", lambda x: x, "CPU")
    with pytest.raises(ArgumentError, match="a second kernel of probe::f for cpu"):
        lib.impl("f", lambda x: x, "CPU")
    lib.impl("f", lambda x: x)
    with pytest.raises(ArgumentError, match="a second kernel of probe::f for all devices"):
        lib.impl("f", lambda x: x, "CompositeExplicitAutograd")
    with pytest.raises(ArgumentError, match="with_keyset=True"):
        lib.impl("f", lambda x: x, "CUDA", with_keyset=True)
    with pytest.raises(ArgumentError, match="a kernel of add for all devices"):
        Library("aten", "IMPL").impl("add", lambda x: x)
    with pytest.raises(ArgumentError, match="the built-in operator add — operators of libraries are completed"):
        library.register_autograd("aten::add", lambda ctx, g: g)
    with pytest.raises(ArgumentError, match="the name 'f'"):
        library.define("f", "(Tensor x) -> Tensor")


@pytest.mark.parametrize(("key", "place"), [("CPU", "cpu"), ("Meta", "meta"), ("my_chip", "my_chip"),
                                            ("Autograd", "Autograd"), ("AutogradCUDA", "Autograd:cuda"),
                                            ("AutocastCPU", "Autocast:cpu")])
def test_keys_of_kernels(key: str, place: str) -> None:
    assert place_of(key) == place


@pytest.mark.parametrize("key", ["", "C", "Compositeness", "Autograd-", "a b"])
def test_other_keys_are_refused(key: str) -> None:
    with pytest.raises(ArgumentError, match="a key is a device, a layer"):
        place_of(key)


def test_free_functions_with_a_library(lib: Library) -> None:
    library.define("probe::h", "(Tensor x) -> Tensor", lib=lib)
    library.impl("probe::h", "ref", lib=lib)(lambda x: x.exp())
    library.register_fake("probe::h", lib=lib)(lambda x: torch.empty_like(x))
    library.register_autograd("probe::h", lambda ctx, g: g * ctx.y, lib=lib,
                              setup_context=lambda ctx, inputs, output: setattr(ctx, "y", output.detach()))
    library.register_vmap("probe::h", lambda info, in_dims, x: (x.exp(), in_dims[0]), lib=lib)
    library.register_torch_dispatch("probe::h", TorchDispatchMode, lambda *given: torch.zeros(1), lib=lib)
    x = f64(0.0, 1.0)
    ops.probe.h(x).sum().backward()
    assert x.grad.tolist() == pytest.approx([1.0, math.e])
    assert library.opcheck("probe::h", (x,), test_utils=("test_faketensor",)) == {"test_faketensor": "SUCCESS"}
    assert vmap(ops.probe.h)(x.detach()).tolist() == pytest.approx([1.0, math.e])
    x = x.detach()
    with TorchDispatchMode():
        assert ops.probe.h(x).shape == (1,)
    lib._destroy()
    assert "probe::h" not in OPERATORS


# ---------------------------------------------------------------------------------------------------------- fallbacks


def test_decompositions_serve_devices_that_lack_an_operator(make_plain: Any) -> None:
    from tensocket_plugins.contract.registry import registry

    registry().add(make_plain("lacks_exp", frozenset({"exp"})), name="lacks_exp", distribution="a test")
    x = torch.tensor([0.0, 1.0], device="lacks_exp")
    with pytest.raises(UnsupportedOperator, match="exp"):
        x.exp()
    helper = Library("aten", "IMPL")
    library.register_decomposition("exp", lambda x: (x * 0 + math.e) ** x, lib=helper)
    assert x.exp().tolist() == pytest.approx([1.0, math.e])
    assert torch.tensor([0.0]).exp().item() == 1.0
    assert OPERATORS["exp"] in library.decompositions()
    helper._destroy()
    with pytest.raises(UnsupportedOperator):
        x.exp()

    @library.register_fallback("lacks_exp", lib=helper)
    def boxed(operator: Any, *args: Any) -> Any:
        return operator.name, len(args)

    assert x.exp() == ("exp", 1)
    assert (x + 1).tolist() == [1.0, 2.0]
    helper._destroy()
    with pytest.raises(UnsupportedOperator):
        x.exp()
    registry().remove("lacks_exp")


def test_a_boxed_fallback_of_a_layer_sees_all_operators() -> None:
    seen = []
    helper = Library("aten", "IMPL")

    def boxed(operator: Any, *args: Any) -> Any:
        seen.append(operator.name)
        with thread_state(exclude=STATE.exclude | AUTOGRAD):
            return operator(*args)

    helper.fallback(boxed, "Autograd")
    y = f64(1) * 2 + 1
    assert y.tolist() == [3.0]
    assert seen == ["mul"]  # the product requires no grad: nothing recorded it
    helper._destroy()
    assert (f64(1) * 2).requires_grad
    helper.fallback(library.fallthrough_kernel, "Autograd")
    assert not (f64(1) * 2).requires_grad
    helper._destroy()
    assert F.exp(f64(0)).requires_grad
