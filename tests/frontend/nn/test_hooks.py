"""Hooks of modules: on calls, on gradients, on registration, for one module and for all."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections import OrderedDict

import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ArgumentError, ArgumentTypeError, AutogradError
from tensocket.nn.modules import module as M
from tensocket.utils.hooks import RemovableHandle


class Product(nn.Module):
    """Of two tensors, times a number."""

    def forward(self, first, second, factor=1):
        return first * second * factor


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


def test_hooks_of_all_modules_run_before_those_of_one():
    log = []
    module = nn.Sequential(nn.Identity())
    module.register_forward_pre_hook(lambda m, args: log.append("own"))
    module.register_forward_hook(lambda m, args, out: log.append("own after"))
    with M.register_module_forward_pre_hook(lambda m, args: log.append(type(m).__name__) or (args[0] + 1,)), \
            M.register_module_forward_hook(lambda m, args, out: out * 2):
        assert module(torch.tensor(1.0)).item() == 12.0
    assert log == ["Sequential", "own", "Identity", "own after"]
    assert module(torch.tensor(1.0)).item() == 1.0


def test_hooks_that_are_always_called_see_failures():
    class Failing(nn.Module):
        def forward(self, input):
            raise ArithmeticError("no")

    seen = []
    module = Failing()
    module.register_forward_hook(lambda m, args, out: seen.append("usual"))
    module.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    with pytest.raises(ArithmeticError):
        module(1)
    assert seen == [None]
    module.register_forward_hook(lambda m, args, out: 1 / 0, always_call=True)
    with pytest.warns(UserWarning, match="silenced as another error was raised in forward: division by zero"), \
            pytest.raises(ArithmeticError, match="no"):
        module(1)


def test_hooks_that_are_always_called_run_once():
    seen = []
    module = nn.Identity()
    module.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    module.register_forward_hook(lambda m, args, out: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        module(3)
    assert seen == [3]


def test_global_hooks_get_keyword_arguments():
    seen = []
    with M.register_module_forward_hook(lambda m, args, kwargs, out: seen.append(kwargs), with_kwargs=True):
        Product()(torch.ones(1), torch.ones(1), factor=2)
    assert seen == [{"factor": 2}]


def test_a_hook_with_keyword_arguments_returns_both():
    module = Product()
    module.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
    rule = r"forward pre-hook must return None or a tuple of \(new_args, new_kwargs\)"
    with pytest.raises(ArgumentError, match=rule):
        module(1)


def test_full_backward_hooks_see_gradients_of_inputs_and_outputs():
    module, seen = Product(), []
    module.register_full_backward_hook(lambda m, inputs, outputs: seen.append((m, inputs, outputs)))
    a, b = leaf(2.0, 3.0), leaf(5.0, 7.0)
    module(a, b, factor=10).backward(torch.tensor([1.0, 2.0]))
    ((found, inputs, outputs),) = seen
    assert found is module
    assert [gradient.tolist() for gradient in inputs] == [[50.0, 140.0], [20.0, 60.0]]
    assert outputs[0].tolist() == [1.0, 2.0]
    assert a.grad.tolist() == [50.0, 140.0]


def test_full_backward_hooks_replace_gradients_in_order():
    module = Product()
    module.register_full_backward_hook(lambda m, inputs, outputs: (inputs[0] + 1, None, None))
    module.register_full_backward_hook(lambda m, inputs, outputs: (inputs[0] * 2, None, None), prepend=True)
    module.register_full_backward_pre_hook(lambda m, outputs: outputs[0] * 10)
    a, b = leaf(2.0), leaf(3.0)
    module(a, b, 1).backward()
    assert a.grad.tolist() == [61.0]
    assert b.grad is None


def test_positions_without_tensors_have_no_gradient():
    seen = []
    module = Product()
    module.register_full_backward_hook(lambda m, inputs, outputs: seen.extend(inputs))
    module(leaf(2.0), torch.tensor([3.0]), 4).backward()
    assert seen[0].tolist() == [12.0]
    assert seen[1:] == [None, None]


def test_backward_hooks_of_results_with_several_parts():
    class Two(nn.Module):
        def forward(self, x):
            return x * 2, "text", x * 3

    seen = []
    module = Two()
    module.register_full_backward_hook(lambda m, inputs, outputs: seen.append((inputs, outputs)))
    x = leaf(1.0)
    first, text, second = module(x)
    assert text == "text"
    (first + second * 5).backward()
    ((inputs, outputs),) = seen
    assert inputs[0].tolist() == [17.0]
    assert [outputs[0].tolist(), outputs[1], outputs[2].tolist()] == [[1.0], None, [5.0]]


def test_backward_hooks_fire_without_gradients_of_inputs():
    module, seen = nn.Linear(2, 1), []
    module.register_full_backward_hook(lambda m, inputs, outputs: seen.append(inputs))
    result = module(torch.ones(1, 2))
    with pytest.warns(UserWarning, match="Full backward hook is firing"):
        result.sum().backward()
    assert seen == [(None,)]
    module.register_full_backward_hook(lambda m, inputs, outputs: (torch.ones(1, 2),))
    with pytest.warns(UserWarning, match="Full backward hook is firing"), \
            pytest.raises(AutogradError, match="the hook returns None or a tuple of None"):
        module(torch.ones(1, 2)).sum().backward()


def test_backward_hooks_return_as_many_gradients():
    module = Product()
    module.register_full_backward_hook(lambda m, inputs, outputs: (None,))
    with pytest.raises(AutogradError, match="1 gradients from a hook for 2 in grad_input — "
                                            "a hook returns as many gradients as it is given"):
        module(leaf(1.0), leaf(2.0)).backward()


def test_backward_hooks_of_all_modules():
    seen = []
    a = leaf(2.0)
    with M.register_module_full_backward_hook(lambda m, inputs, outputs: seen.append(type(m).__name__)), \
            M.register_module_full_backward_pre_hook(lambda m, outputs: seen.append("before")):
        nn.Sequential(nn.Tanh())(a).backward()
    assert seen == ["before", "before", "Tanh", "Sequential"]
    with M.register_module_backward_hook(lambda m, inputs, outputs: seen.append(outputs[0].item())), \
            pytest.warns(FutureWarning, match="the forward contains multiple autograd Nodes"):
        nn.Tanh()(a).backward()
    assert seen[-1] == 1.0


def test_regular_backward_hooks_watch_the_last_operator():
    class Nested(nn.Module):
        def forward(self, x):
            return [{"number": 1, "value": x * x * 3}]

    module, seen = Nested(), []
    module.register_backward_hook(lambda m, inputs, outputs: seen.append(outputs[0].item()))
    x = leaf(2.0)
    with pytest.warns(FutureWarning, match="does not return a single Tensor or a tuple of Tensors"):
        (module(x)[0]["value"] * 5).backward()
    assert seen == [5.0]
    assert x.grad.tolist() == [60.0]
    module.forward = lambda x: "text"
    with pytest.raises(ArgumentTypeError, match="a regular backward hook watches a tensor in the result"):
        module(x)


@pytest.mark.parametrize("names", [("register_backward_hook", "register_full_backward_hook"),
                                   ("register_full_backward_hook", "register_backward_hook")])
def test_kinds_of_backward_hooks_do_not_mix(names):
    module = nn.Identity()
    getattr(module, names[0])(print)
    with pytest.raises(AutogradError, match="Cannot use both regular backward hooks and full backward hooks"):
        getattr(module, names[1])(print)


def test_hooks_without_gradients_do_nothing():
    module = Product()
    module.register_full_backward_hook(lambda m, inputs, outputs: pytest.fail("called"))
    with torch.no_grad():
        assert module(leaf(2.0), leaf(3.0)).tolist() == [6.0]


@pytest.mark.parametrize(("kind", "register"), [
    ("parameter", lambda m: m.register_parameter("x", nn.Parameter(torch.ones(1)))),
    ("buffer", lambda m: m.register_buffer("x", torch.ones(1))), ("module", lambda m: m.add_module("x", nn.ReLU()))])
def test_hooks_on_registration(kind, register):
    seen = []
    other = {"parameter": nn.Parameter(torch.zeros(1)), "buffer": torch.zeros(1), "module": nn.Tanh()}[kind]
    hook = getattr(M, f"register_module_{kind}_registration_hook")
    with hook(lambda m, name, value: seen.append((name, value)) or other):
        module = nn.Module()
        register(module)
    assert module.x is other
    assert seen[0][0] == "x"
    assert seen[0][1] is not other


def test_copies_and_pickles_keep_hooks():
    module = nn.Identity()
    module.register_forward_hook(_double)
    assert copy.deepcopy(module)(2) == 4
    assert pickle.loads(pickle.dumps(module))(2) == 4


def _double(module, args, out):
    return out * 2


def test_old_pickles_get_the_tables_they_lack():
    module = nn.Identity()
    state = {name: value for name, value in vars(module).items() if "hook" not in name}
    other = nn.Identity.__new__(nn.Identity)
    other.__setstate__(state)
    assert other(3) == 3
    assert other._is_full_backward_hook is None


def test_tables_hold_the_hooks_themselves():
    module = nn.Identity()
    handle = module.register_forward_pre_hook(_double, with_kwargs=True)
    assert dict(module._forward_pre_hooks) == {handle.id: _double}
    handle.remove()
    assert not module._forward_pre_hooks
    assert not module._forward_pre_hooks_with_kwargs


def test_hooks_and_handles_are_pickled_with_their_module():
    layer = nn.Linear(1, 1)
    layer.handle = layer.register_forward_hook(_twice)
    found = pickle.loads(pickle.dumps(layer))
    found.register_forward_hook(_twice)
    x = torch.ones(1, 1)
    plain = nn.functional.linear(x, layer.weight, layer.bias).item()
    assert found(x).item() == pytest.approx(4 * plain)
    found.handle.remove()
    assert found(x).item() == pytest.approx(2 * plain)
    assert layer(x).item() == pytest.approx(2 * plain)
    layer.handle.remove()
    handle = pickle.loads(pickle.dumps(layer.handle))
    handle.remove()


def _twice(module, args, output):
    return 2 * output


def of(forward):
    module = nn.Module()
    module.forward = forward
    return module


@pytest.mark.parametrize(("forward", "given", "said"), [
    (lambda xs: (xs[0].clone(), xs[1].clone()), lambda a, b: ([a, b],), "does not take as input a single Tensor"),
    (lambda x, y: [x.clone(), y.clone()], lambda a, b: (a, b), "does not return a single Tensor"),
    (lambda x, y: (x.clone(), y.clone()), lambda a, b: (a, b), "outputs are generated by different autograd Nodes"),
    (lambda x, y: x * y * 2, lambda a, b: (a * 1, b * 1), "the forward contains multiple autograd Nodes"),
])
def test_regular_backward_hooks_warn_of_what_they_do_not_see(forward, given, said):
    module = of(forward)
    module.register_backward_hook(lambda m, inputs, outputs: None)
    with pytest.warns(FutureWarning, match=said):
        module(*given(leaf(1.0), leaf(2.0)))


def test_regular_backward_hooks_of_one_operator_see_all():
    module, seen = of(lambda x, y: x * y), []
    module.register_backward_hook(lambda m, inputs, outputs: seen.append([g.item() for g in inputs]))
    module(leaf(3.0) * 1, leaf(5.0) * 1).backward()
    assert seen == [[5.0, 3.0]]


def test_full_backward_hooks_warn_of_results_that_are_not_tensors():
    module = of(lambda x: {"y": x * 2})
    module.register_full_backward_hook(lambda m, inputs, outputs: 1 / 0)
    with pytest.warns(UserWarning, match="should be a Tensor or a tuple of Tensors but received <class 'dict'>"):
        result = module(leaf(1.0))
    result["y"].backward()


def test_handles_know_their_tables():
    module = nn.Linear(1, 1)
    handle = module.register_forward_hook(lambda m, inputs, output: None, always_call=True)
    assert list(handle.hooks_dict_ref()) == [handle.id]
    (flags,) = handle.extra_dict_ref
    assert list(flags()) == [handle.id]
    handle.remove()
    assert not handle.hooks_dict_ref()
    assert not flags()
    table, more = OrderedDict(), OrderedDict()
    handle = RemovableHandle(table, extra_dict=more)
    table[handle.id] = more[handle.id] = 1
    handle.remove()
    assert not table
    assert not more


def test_hooks_on_loading_do_not_keep_their_module():
    module = nn.Linear(1, 1)
    module._register_load_state_dict_pre_hook(keep_hook, with_module=True)
    (hook,) = module._load_state_dict_pre_hooks.values()
    copied = copy.deepcopy(module)
    copied.load_state_dict(module.state_dict())
    known = weakref.ref(module)
    gc.collect()
    gc.disable()
    try:
        del module
        assert known() is None
    finally:
        gc.enable()
    with pytest.raises(RuntimeError, match="You are trying to call the hook of a dead Module!"):
        hook({}, "")


def keep_hook(*args):
    pass
