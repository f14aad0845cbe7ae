"""The dispatcher's public module: keys, listing, trace; overrides, trees and guards under PyTorch's names."""

from __future__ import annotations

import inspect
import io
from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import pytest

import tensocket as torch
from tensocket import dispatch, library
from tensocket.overrides import (
    BaseTorchFunctionMode,
    TorchFunctionMode,
    get_overridable_functions,
    handle_torch_function,
    has_torch_function,
    is_tensor_like,
    is_tensor_method_or_property,
    resolve_name,
    wrap_torch_function,
)
from tensocket.utils import _mode_utils, _python_dispatch, _pytree
from tensocket.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing


class Sub(torch.Tensor):
    pass


class Duck:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, args, kwargs


# ------------------------------------------------------------------------------------------------------------- keys


def test_keys_of_tensors():
    assert dispatch.priorities() == ("Python", "Autocast", "Autograd", "Conjugate", "device")
    assert dispatch.keys_of(torch.ones(1)) == ("cpu",)
    assert dispatch.keys_of(torch.ones(1, requires_grad=True)) == ("Autograd", "cpu")
    assert dispatch.keys_of(Sub([1.0]).requires_grad_()) == ("Python", "Autograd", "cpu")
    assert dispatch.keys_of(torch.nn.Parameter(torch.ones(1))) == ("Autograd", "cpu")
    assert dispatch.keys_of(torch.ones(1, dtype=torch.complex64).conj()) == ("Conjugate", "cpu")
    assert dispatch.keys_of(torch.ones(1, device="meta")) == ("meta",)


def test_layers_are_excluded_and_included():
    x = torch.ones(2, requires_grad=True)
    with dispatch.exclude_keys("Autograd"):
        assert dispatch.excluded_keys() == ("Autograd",)
        assert not (x * 2).requires_grad
        with dispatch.exclude_keys("Python"):
            assert dispatch.excluded_keys() == ("Python", "Autograd")
        assert not torch.is_grad_enabled()
    assert (x * 2).requires_grad
    with dispatch.exclude_keys("Python"):
        assert type(Sub([1.0]) + 1) is torch.Tensor
    with dispatch.include_keys("Autograd"):
        assert dispatch.included_keys() == ("Autograd",)
        assert (torch.ones(2) * 2).requires_grad
    assert dispatch.included_keys() == dispatch.excluded_keys() == ()
    with pytest.raises(ValueError, match=r"\[exclude_keys\] key 'autograd' — layers are Python, Autocast, Autograd"):
        dispatch.exclude_keys("autograd")


def test_a_guard_can_be_used_again():
    guard = dispatch.exclude_keys("Autograd")
    for _ in range(2):
        with guard:
            assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()


# ---------------------------------------------------------------------------------------------------------- listing


def test_registrations_say_how_and_what_else():
    lib = library.Library("aten", "IMPL")
    lib.impl("exp", lambda x: x, "CPU")
    lib.impl("exp", lambda x: x, "AutogradCPU")
    library.register_decomposition("sin", lambda x: x, lib=lib)
    library.register_torch_dispatch("sin", TorchDispatchMode, lambda *given: None, lib=lib)
    found = dispatch.registrations("cpu")
    assert (found["exp"].how, found["exp"].layers) == ("override", ("Autograd:cpu",))
    assert str(found["exp"]) == "exp: override (Autograd:cpu registered)"
    assert str(found["sin"]).endswith("(decomposition, TorchDispatchMode)")
    assert found["sin"].decomposition
    assert found["linear"].how == "host kernel"
    assert found["mse_loss"].how == "composite"
    assert found["add"].differentiable
    assert not found["isnan"].differentiable
    assert dispatch.registrations("ref")["exp"].layers == ()
    lib._destroy()
    assert dispatch.registrations("cpu")["exp"].layers == ()


# ------------------------------------------------------------------------------------------------------------ trace


def test_a_trace_is_collected_or_printed(capsys):
    x = torch.ones(2, requires_grad=True)
    with dispatch.trace(collect=True) as calls:
        (x * x).sum().backward()
    assert [c.name for c in calls if c.depth == 0 and c.kind != "factory"][:3] == ["mul", "sum", "SumBackward0"]
    assert capsys.readouterr().err == ""
    with dispatch.trace():
        x + 1
    assert capsys.readouterr().err.startswith("[call] op=[add] key=[float32 autograd number:int] path=[autograd > cpu ")
    out = io.StringIO()
    with dispatch.trace(out):
        torch.zeros(2)
    assert out.getvalue() == "[factory] op=[zeros] args=([2])\n"


# -------------------------------------------------------------------------------------------------------- overrides


def test_python_functions_can_be_overridden():
    @wrap_torch_function(lambda x, scale=1: (x,))
    def scaled(x, scale=1):
        return x * scale

    assert scaled(torch.ones(1), scale=2).tolist() == [2.0]
    duck = Duck()
    assert scaled(duck, scale=3) == ("scaled", (duck,), {"scale": 3})
    assert handle_torch_function(scaled, (duck,), duck, 1) == ("scaled", (duck, 1), {})
    assert has_torch_function((torch.ones(1), duck))
    assert not has_torch_function((torch.ones(1), 3))
    assert is_tensor_like(duck)
    assert is_tensor_like(torch.ones(1))
    assert not is_tensor_like(3)
    with TorchFunctionMode():
        assert has_torch_function(())


def test_names_of_functions():
    assert resolve_name(torch.add) == "torch.add"
    assert resolve_name(torch.nn.functional.linear) == "torch.nn.functional.linear"
    assert resolve_name(print) is None
    assert torch.add in get_overridable_functions()[torch]
    assert is_tensor_method_or_property(torch.Tensor.add_)
    assert not is_tensor_method_or_property(torch.nn.functional.linear)


def test_guards_under_pytorchs_names():
    with torch._C.DisableTorchFunctionSubclass():
        assert not torch._C._is_torch_function_enabled()
        assert type(Sub([1.0]) + 1) is torch.Tensor
    assert torch._C._is_torch_function_enabled()
    with torch._C._AutoDispatchBelowAutograd():
        assert not (torch.ones(1, requires_grad=True) * 2).requires_grad

    class Off(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl
        __torch_dispatch__ = torch._C._disabled_torch_dispatch_impl

    assert type(Off([1.0]) + 1) is torch.Tensor
    assert dispatch.keys_of(Off([1.0])) == ("cpu",)


def test_helpers_of_dispatching_classes():
    class Silent(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **kwargs)

    assert _python_dispatch._get_current_dispatch_mode() is None
    with Silent() as mode:
        assert _python_dispatch._get_current_dispatch_mode() is mode
        assert torch._C._get_dispatch_modes() == (mode,)
        with _python_dispatch._disable_current_modes() as modes:
            assert modes == (mode,)
            assert torch._C._get_dispatch_modes() == ()
    x, y = torch.ones(1), torch.zeros(1)
    assert return_and_correct_aliasing(torch.ops.aten.add_.Tensor, (x, 1), {}, y) is x
    assert return_and_correct_aliasing(torch.ops.aten.add_.Tensor, (), {"input": x, "other": 1}, y) is x
    assert return_and_correct_aliasing(torch.ops.aten.add.Tensor, (x, 1), {}, y) is y
    assert not _python_dispatch.is_traceable_wrapper_subclass(x)

    class Flat(torch.Tensor):
        def __tensor_flatten__(self): ...
        @staticmethod
        def __tensor_unflatten__(*parts): ...

    assert _python_dispatch.is_traceable_wrapper_subclass(Flat([1.0]))


# ------------------------------------------------------------------------------------------------------------ trees

Point = namedtuple("Point", ["x", "y"])


def test_trees_of_containers():
    tree = {"a": [1, (2.0, "b")], "c": Point(3, OrderedDict(d=4))}
    assert _pytree.tree_map_only(int, lambda n: -n, tree) == {"a": [-1, (2.0, "b")], "c": Point(-3, OrderedDict(d=-4))}
    assert _pytree.tree_map_only((int, float), lambda n: 0, [1, 2.0, "x"]) == [0, 0, "x"]
    assert _pytree.tree_map_only(lambda leaf: leaf == 1, lambda n: "one", [1, 2]) == ["one", 2]
    leaves, spec = _pytree.tree_flatten(tree)
    assert _pytree.tree_unflatten(leaves, spec) == tree
    assert _pytree.tree_all(lambda leaf: leaf is not None, tree)
    assert _pytree.tree_any(lambda leaf: leaf == "b", tree)
    assert _pytree.tree_all_only(int, lambda n: n > 0, tree)
    assert not _pytree.tree_any_only(float, lambda n: n > 5, tree)
    seen = []
    assert _pytree.tree_map_(seen.append, tree) is tree
    assert seen == leaves


def test_dataclasses_become_containers():
    @dataclass
    class Pair:
        first: int
        second: int

    @dataclass
    class Named:
        value: int
        name: str = "n"

    _pytree.register_dataclass(Pair)
    _pytree.register_dataclass(Named, field_names=["value"], drop_field_names=["name"])
    assert _pytree.tree_map(lambda n: n + 1, [Pair(1, 2)]) == [Pair(2, 3)]
    assert _pytree.tree_leaves(Named(5, "other")) == [5]


def test_names_evaluate_to_their_functions():
    for functions in get_overridable_functions().values():
        for function in functions:
            assert eval(resolve_name(function)) is function or eval(resolve_name(function)) == function
    assert resolve_name(torch.special.xlog1py) in ("torch.special.xlog1py", "torch.xlog1py")
    assert resolve_name(torch.fft.fft) == "torch.fft.fft"
    assert is_tensor_method_or_property(torch.Tensor.add_)
    assert not is_tensor_method_or_property(torch.add)


def test_overrides_for_tests_have_the_signatures():
    overrides = torch.overrides.get_testing_overrides()
    assert inspect.signature(overrides[torch.add]) == inspect.signature(torch.add)
    assert overrides[torch.add](1, 2) == -1
    ignored = torch.overrides.get_ignored_functions()
    assert torch.is_tensor in ignored
    assert torch.add not in ignored
    assert torch.overrides.get_default_nowrap_functions() is not None


def test_modes_that_are_on():
    first, second = BaseTorchFunctionMode(), BaseTorchFunctionMode()
    assert torch.overrides._get_current_function_mode() is None
    with first, second:
        assert torch.overrides._get_current_function_mode() is second
        assert torch.overrides._get_current_function_mode_stack() == [first, second]
    assert _mode_utils.all_same_mode([first, first])
    assert not _mode_utils.all_same_mode([first, second])


def test_arguments_that_may_override_come_in_a_sequence():
    with pytest.raises(TypeError, match="expected a sequence of arguments"):
        torch.overrides.has_torch_function(3)


def test_overriding_is_switched_on_again():
    class Sub(torch.Tensor):
        pass

    x = torch.ones(2).as_subclass(Sub)
    with torch._C.DisableTorchFunctionSubclass():
        guard = torch._C._EnableTorchFunction()
        assert type(x.sum()) is Sub
        del guard
        assert type(x.sum()) is torch.Tensor


def test_dispatch_is_switched_off():
    seen = []

    class Sees(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Sees():
        with _mode_utils.no_dispatch():
            assert torch.ones(2).exp().shape == (2,)
        assert seen == []
        torch.ones(2).exp()
    assert len(seen) == 2


class Like:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__


def test_parameters_of_distributions_may_be_like_tensors():
    from tensocket.distributions.utils import broadcast_all

    assert broadcast_all(Like(), 2.0) == "broadcast_all"


def test_reentrant_dispatch_records_as_outside():
    recorded = []

    class Looks(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            with torch.overrides.enable_reentrant_dispatch():
                recorded.append((args[0] * 2).requires_grad)
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, requires_grad=True)
    with Looks():
        x.exp()
        with torch.no_grad():
            x.exp()
    assert recorded == [True, False]


def test_views_of_a_dispatch_mode_are_recorded_as_outside():
    class Looks(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    w = torch.ones(2, requires_grad=True)
    with Looks():
        rows = torch.zeros(3, 2)[1:]
        first, _ = torch.zeros(4).split(2)
        rows += w
        rows.sum().backward()
        with pytest.raises(torch.errors.AutogradError, match="returns multiple views"):
            first += w
    assert w.grad.tolist() == [2.0, 2.0]


def test_stack_of_dispatch_modes():
    class Mode(TorchDispatchMode):
        pass

    first, second = Mode(), Mode()
    assert _python_dispatch._get_current_dispatch_mode_stack() == []
    with first, second:
        assert _python_dispatch._get_current_dispatch_mode_stack() == [first, second]


def test_libraries_for_a_block():
    with library._scoped_library("scoped", "DEF") as made:
        made.define("f(Tensor x) -> Tensor")
        made.impl("f", lambda x: x + 1)
        assert torch.ops.scoped.f(torch.ones(1)).item() == 2
    assert not hasattr(torch.ops.scoped, "f")


def test_leaves_of_arguments():
    assert _pytree.arg_tree_leaves(1, [2, (3,)], x={"y": 4}) == [1, 2, 3, 4]


def test_operators_by_name_take_keywords_of_their_functions():
    aten, x = torch.ops.aten, torch.tensor([1.0, 2.0])
    assert aten.add.Tensor(x, x, alpha=3).tolist() == [4, 8]
    assert aten.sub.Tensor(x, x, alpha=3).tolist() == [-2, -4]
    changed = x.clone()
    assert aten.add_.Tensor(changed, x, alpha=2) is changed
    assert changed.tolist() == [3, 6]
    assert aten.sub_.Tensor(changed, x, alpha=2).tolist() == [1, 2]
    out = torch.empty(2)
    assert aten.mul.out(x, x, out=out) is out
    assert out.tolist() == [1, 4]
    assert aten.sum.IntList_out(x, [0], out=torch.empty(())).item() == 3
    with pytest.raises(TypeError, match="unexpected keyword argument 'bogus'"):
        aten.add(x, x, bogus=1)


class ScaledSums(TorchDispatchMode):
    """Every sum takes its second operand twice."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func is torch.ops.aten.add.Tensor
        return func(*args, alpha=2)


def test_a_dispatch_mode_passes_a_scale_to_the_operator():
    x = torch.tensor([1.0, 2.0])
    with ScaledSums():
        assert (x + x).tolist() == [3, 6]


def test_operators_over_lists_by_name():
    aten, x = torch.ops.aten, torch.tensor([1.0, 2.0])
    assert [y.tolist() for y in aten._foreach_add.List([x, x], [x, x], alpha=2)] == [[3, 6], [3, 6]]
    assert [y.tolist() for y in aten._foreach_mul.ScalarList([x, x], [2, 3])] == [[2, 4], [3, 6]]
    changed = [x.clone()]
    aten._foreach_add_.Scalar(changed, 1)
    assert changed[0].tolist() == [2, 3]
    assert aten._foreach_sqrt.default([x * x])[0].tolist() == [1, 2]
    assert not hasattr(aten, "_foreach_nothing")
