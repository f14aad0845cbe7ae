"""Members, tree, hooks, modes and conversion of modules."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import (
    ArgumentError,
    ArgumentTypeError,
    MemberNameError,
    ModuleAttributeError,
    UnsupportedOperator,
)


class Scale(nn.Module):
    """A parameter, a buffer that is saved and one that is not."""

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor([2.0, 3.0]))
        self.register_buffer("count", torch.tensor(0))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)

    def forward(self, input):
        return input * self.factor


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.low = Scale()
        self.high = nn.Sequential(nn.Linear(2, 3), nn.ReLU())

    def forward(self, input):
        return self.high(self.low(input))


def names(pairs):
    return [name for name, _ in pairs]


def test_members_are_found_by_kind_and_in_order():
    tower = Tower()
    assert names(tower.named_parameters()) == ["low.factor", "high.0.weight", "high.0.bias"]
    assert names(tower.named_buffers()) == ["low.count", "low.scratch"]
    assert names(tower.named_children()) == ["low", "high"]
    assert names(tower.named_modules()) == ["", "low", "high", "high.0", "high.1"]
    assert list(tower.children()) == [tower.low, tower.high]
    assert [p.shape for p in tower.parameters()] == [(2,), (3, 2), (3,)]
    assert names(tower.named_parameters(prefix="top", recurse=False)) == []
    assert names(tower.low.named_parameters(prefix="top", recurse=False)) == ["top.factor"]


def test_shared_members_are_given_once_unless_asked():
    module = nn.Module()
    module.first = nn.Linear(2, 2)
    module.second = module.first
    assert names(module.named_parameters()) == ["first.weight", "first.bias"]
    assert names(module.named_parameters(remove_duplicate=False)) == [
        "first.weight", "first.bias", "second.weight", "second.bias"]
    assert len(list(module.modules())) == 2


def test_lookup_by_dotted_name():
    tower = Tower()
    assert tower.get_submodule("high.0") is tower.high[0]
    assert tower.get_submodule("") is tower
    assert tower.get_parameter("high.0.weight") is tower.high[0].weight
    assert tower.get_buffer("low.count") is tower.low.count


@pytest.mark.parametrize(("get", "target", "message"), [
    ("submodule", "low.b", "'low.b' in Tower — Scale has no attribute `b` — named_modules() lists them"),
    ("submodule", "low.count", "`count` is not an nn.Module — named_modules() lists them"),
    ("parameter", "low.q", "Scale has no attribute `q` — named_parameters() lists them"),
    ("parameter", "low.count", "`count` is not an nn.Parameter — named_parameters() lists them"),
    ("buffer", "low.q", "Scale has no attribute `q` — named_buffers() lists them"),
    ("buffer", "low.factor", "`factor` is not a buffer — named_buffers() lists them"),
    ("parameter", "q.q", "Tower has no attribute `q`")])
def test_lookup_of_what_is_not_there(get, target, message):
    with pytest.raises(ModuleAttributeError, match=re.escape(message)):
        getattr(Tower(), f"get_{get}")(target)


def test_missing_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'Scale' object has no attribute 'factr'"):
        _ = Scale().factr
    assert not hasattr(Scale(), "factr")


def test_assignment_moves_a_name_between_kinds():
    module = Scale()
    module.factor = None
    assert module.factor is None
    assert names(module.named_parameters()) == []
    module.note = "plain"
    module.note = nn.Parameter(torch.zeros(2))
    assert "note" not in vars(module)
    assert names(module.named_parameters()) == ["note"]
    module.note = nn.ReLU()
    assert names(module.named_parameters()) == []
    assert names(module.named_children()) == ["note"]
    module.note = nn.Buffer(torch.ones(1), persistent=False)
    assert names(module.named_buffers()) == ["count", "scratch", "note"]
    assert "note" not in module.state_dict()


def test_deleting_members():
    module = Scale()
    del module.scratch
    del module.factor
    assert names(module.named_buffers()) == ["count"]
    assert list(module.parameters()) == []
    module.register_buffer("scratch", torch.zeros(1))
    assert "scratch" in module.state_dict()
    with pytest.raises(AttributeError):
        del module.nothing


def test_a_buffer_may_be_replaced_by_a_tensor_only():
    module = Scale()
    module.count = torch.tensor(5)
    assert module.state_dict()["count"].item() == 5
    with pytest.raises(ArgumentTypeError, match=r"\[Scale\] a int as buffer 'count' — a buffer is a Tensor or None"):
        module.count = 5


def test_a_parameter_may_not_be_replaced_by_a_plain_tensor():
    with pytest.raises(ArgumentTypeError, match=r"\[Scale\] a Tensor as parameter 'factor' — a parameter is a Param"):
        Scale().factor = torch.zeros(2)


def test_a_submodule_may_not_be_replaced_by_a_value():
    with pytest.raises(ArgumentTypeError, match=r"\[Tower\] a int as submodule 'low'"):
        Tower().low = 3


@pytest.mark.parametrize(("name", "rule"), [
    ("", r"names are not empty and have no '\.'"), ("a.b", r"names are not empty and have no '\.'"),
    ("training", "an attribute of this name exists"), ("forward", "an attribute of this name exists")])
@pytest.mark.parametrize("method", ["register_parameter", "register_buffer", "add_module"])
def test_names_that_cannot_be_taken(method, name, rule):
    with pytest.raises(MemberNameError, match=rf"^\[Module\] .* — {rule} — choose another name"):
        getattr(nn.Module(), method)(name, None)
    with pytest.raises(KeyError):
        getattr(nn.Module(), method)(name, None)


def test_names_are_strings():
    with pytest.raises(ArgumentTypeError, match=r"\[Module\] 3 as name of a parameter — names are strings"):
        nn.Module().register_parameter(3, None)


@pytest.mark.parametrize(("method", "rule"), [
    ("register_parameter", "a parameter is a nn.Parameter or None"),
    ("register_buffer", "a buffer is a tensor or None"),
    ("add_module", "a submodule is a nn.Module or None")])
def test_members_of_the_wrong_type(method, rule):
    with pytest.raises(ArgumentTypeError, match=rf"\[{method}\] a str as 'x' — {rule}"):
        getattr(nn.Module(), method)("x", "text")


def test_a_parameter_is_a_leaf():
    computed = nn.Parameter(torch.ones(1), requires_grad=False)
    computed.mul_(torch.ones(1, requires_grad=True))
    with pytest.raises(ArgumentError, match=r"\[register_parameter\] 'x', which was computed from other tensors — "
                                            "a parameter is a leaf of the gradient graph"):
        nn.Module().register_parameter("x", computed)


def test_members_need_an_initialised_module():
    class Hasty(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(torch.zeros(1))

    with pytest.raises(ModuleAttributeError) as caught:
        Hasty()
    assert str(caught.value) == ("[Hasty] parameter 'weight' before Module.__init__() — members are registered in an "
                                 "initialised module — call super().__init__() first")
    assert isinstance(caught.value, AttributeError)


def test_calling_runs_forward():
    assert Scale()(torch.tensor([1.0, 1.0])).tolist() == [2.0, 3.0]


def test_forward_must_be_defined():
    class Empty(nn.Module):
        pass

    message = (r"\[Empty.forward\] a call of Empty — "
               r"a module computes with forward\(\), which this class does not define — define Empty.forward")
    with pytest.raises(UnsupportedOperator, match=message):
        Empty()(1)
    with pytest.raises(NotImplementedError):
        Empty()(1)


def test_hooks_change_arguments_and_results_in_order():
    module = Scale()
    log = []
    module.register_forward_pre_hook(lambda m, args: log.append("pre") or (args[0] + 1,))
    module.register_forward_pre_hook(lambda m, args: log.append("first"), prepend=True)
    module.register_forward_hook(lambda m, args, out: log.append(("post", args[0].tolist())) or out * 10)
    handle = module.register_forward_hook(lambda m, args, kwargs, out: log.append(kwargs), with_kwargs=True)
    assert module(torch.tensor([0.0, 0.0])).tolist() == [20.0, 30.0]
    assert log == ["first", "pre", ("post", [1.0, 1.0]), {}]
    handle.remove()
    handle.remove()
    log.clear()
    module(torch.tensor([0.0, 0.0]))
    assert log == ["first", "pre", ("post", [1.0, 1.0])]


def test_hooks_with_keyword_arguments():
    class Power(nn.Module):
        def forward(self, input, exponent=1):
            return input**exponent

    module = Power()
    with module.register_forward_pre_hook(lambda m, args, kwargs: (args, {"exponent": 3}), with_kwargs=True):
        assert module(torch.tensor(2.0), exponent=2).item() == 8.0
    assert module(torch.tensor(2.0), exponent=2).item() == 4.0
    module.register_forward_pre_hook(lambda m, args: torch.tensor(5.0))
    assert module(torch.tensor(2.0), exponent=2).item() == 25.0


def test_training_mode_reaches_the_whole_tree():
    tower = Tower()
    assert all(module.training for module in tower.modules())
    assert tower.eval() is tower
    assert not any(module.training for module in tower.modules())
    tower.train()
    assert tower.high[1].training
    with pytest.raises(ArgumentError, match=r"\[train\] mode 1 — mode is a bool"):
        tower.train(1)


def test_apply_visits_children_first():
    seen = []
    tower = Tower()
    assert tower.apply(lambda module: seen.append(type(module).__name__)) is tower
    assert seen == ["Scale", "Linear", "ReLU", "Sequential", "Tower"]


def test_gradients_are_dropped_or_cleared():
    module = Scale()
    module(torch.ones(2)).sum().backward()
    assert module.factor.grad.tolist() == [1.0, 1.0]
    module.zero_grad(set_to_none=False)
    assert module.factor.grad.tolist() == [0.0, 0.0]
    module.zero_grad()
    assert module.factor.grad is None


def test_requires_grad_of_all_parameters():
    tower = Tower().requires_grad_(False)
    assert not any(p.requires_grad for p in tower.parameters())
    tower.requires_grad_()
    assert all(p.requires_grad for p in tower.parameters())


def test_conversion_keeps_parameters_integers_and_gradients():
    module = Scale()
    module(torch.ones(2)).sum().backward()
    before = module.factor
    assert module.double() is module
    assert module.factor is before
    assert module.factor.dtype is torch.float64
    assert module.factor.grad.dtype is torch.float64
    assert module.factor.requires_grad
    assert module.count.dtype is torch.int64
    assert module.scratch.dtype is torch.float64
    for name, dtype in (("half", torch.float16), ("bfloat16", torch.bfloat16), ("float", torch.float32)):
        getattr(module, name)()
        assert module.factor.dtype is dtype
    assert module.factor.tolist() == [2.0, 3.0]


@pytest.mark.parametrize(("args", "kwargs"), [
    (("cpu",), {}), ((torch.device("cpu"), torch.float64), {}), ((torch.float64,), {}), ((), {"dtype": torch.float64}),
    ((torch.zeros(1, dtype=torch.float64),), {}), ((), {"device": "cpu", "dtype": torch.float64}),
    (("cpu", None, True), {}), ((torch.float64, True), {})])
def test_forms_of_to(args, kwargs):
    module = Scale().to(*args, **kwargs)
    wanted = torch.float32 if args in (("cpu",), ("cpu", None, True)) else torch.float64
    assert module.factor.dtype is wanted
    assert module.factor.device.type == "cpu"
    assert module.count.dtype is torch.int64


def test_to_refuses_integers_and_nonsense():
    with pytest.raises(ArgumentTypeError, match=r"\[Module.to\] dtype .*int64 — "
                                                "parameters are floating point or complex"):
        Scale().to(torch.int64)
    with pytest.raises(ArgumentTypeError, match=r"\[Module.to\] 'cpu', 'cpu' — "
                                                r"to\(\) takes a device, a dtype, both in this order, or a tensor"):
        Scale().to("cpu", "cpu")


def test_deep_copies_share_nothing():
    tower = Tower()
    other = copy.deepcopy(tower)
    with torch.no_grad():
        other.low.factor.fill_(9)
    assert tower.low.factor.tolist() == [2.0, 3.0]
    assert isinstance(other.low.factor, nn.Parameter)
    assert other.low.factor.requires_grad


def test_tied_parameters_stay_tied_in_copies():
    module = nn.Module()
    module.a = nn.Linear(2, 2)
    module.b = nn.Linear(2, 2)
    module.b.weight = module.a.weight
    other = copy.deepcopy(module)
    assert other.a.weight is other.b.weight
    assert other.a.weight is not module.a.weight


def test_printing_shows_the_tree():
    assert repr(Tower()) == (
        "Tower(\n"
        "  (low): Scale()\n"
        "  (high): Sequential(\n"
        "    (0): Linear(in_features=2, out_features=3, bias=True)\n"
        "    (1): ReLU()\n"
        "  )\n"
        ")")


def test_dir_lists_members():
    assert {"factor", "count", "forward"} <= set(dir(Scale()))


def test_submodules_are_replaced_by_dotted_name():
    tower = Tower()
    tower.set_submodule("high.1", nn.Tanh())
    assert isinstance(tower.high[1], nn.Tanh)
    tower.set_submodule("low.new", nn.ReLU())
    assert isinstance(tower.low.new, nn.ReLU)
    tower.set_submodule("low", nn.Tanh(), strict=True)
    assert isinstance(tower.low, nn.Tanh)


@pytest.mark.parametrize(("target", "module", "rule"), [
    ("", nn.Module(), "Cannot set the submodule without a target name"), ("x", 3, "a submodule is an nn.Module"),
    ("nothing.x", nn.Module(), "Tower has no attribute `nothing`"),
    ("nothing", nn.Module(), "Tower has no attribute `nothing`"),
    ("low.factor", nn.Module(), "what a submodule replaces is a submodule")])
def test_submodules_that_cannot_be_replaced(target, module, rule):
    with pytest.raises((ValueError, AttributeError), match=rule):
        Tower().set_submodule(target, module, strict=True)


def test_init_takes_no_arguments_unless_it_goes_on():
    with pytest.raises(ArgumentTypeError, match=r"Module.__init__\(\) takes no arguments"):
        nn.Module(3)

    class Named:
        def __init__(self, name):
            self.name = name

    class Both(nn.Module, Named):
        call_super_init = True

    assert Both("x").name == "x"


def test_conversions_go_through_submodules():
    class Guard(nn.Module):
        def _apply(self, fn, recurse=True):
            seen.append(recurse)
            return super()._apply(fn, recurse)

    seen = []
    nn.Sequential(Guard()).double()
    assert seen == [True]


def test_memory_formats_of_tensors_of_four_dimensions():
    module = nn.Module()
    module.kernel = nn.Parameter(torch.zeros(2, 3, 4, 5))
    module.bias = nn.Parameter(torch.zeros(2))
    module.to(memory_format=torch.channels_last)
    assert module.kernel.stride() == (60, 1, 15, 3)
    assert module.kernel.dtype is torch.float32


def test_uninitialised_memory_elsewhere():
    module = Tower().to_empty(device="meta")
    assert {p.device.type for p in module.parameters()} == {"meta"}
    module.to_empty(device="cpu", recurse=False)
    assert module.low.factor.is_meta
    assert module.share_memory() is module


def test_pickles_of_modules():
    tower = Tower()
    other = pickle.loads(pickle.dumps(tower))
    assert [p.tolist() for p in other.parameters()] == [p.tolist() for p in tower.parameters()]
    assert isinstance(other.low.factor, nn.Parameter)
    assert "scratch" in other.low._non_persistent_buffers_set


def test_what_a_call_does_may_be_replaced():
    class Shouting(nn.Linear):
        def _call_impl(self, *args, **kwargs):
            return "before", super()._call_impl(*args, **kwargs)

    assert Shouting(2, 3)(torch.ones(2))[0] == "before"
    assert Shouting(2, 3)(torch.ones(2))[1].shape == (3,)


def test_modules_that_appear_twice():
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, layer)
    assert list(model.modules()) == [model, layer]
    assert list(model.modules(remove_duplicate=False)) == [model, layer, layer]


@pytest.mark.parametrize("kind", ["ipu", "xpu", "mtia"])
def test_kinds_of_devices_that_are_not_there(kind):
    with pytest.raises(RuntimeError, match=kind):
        getattr(nn.Linear(2, 2), kind)(0)


def test_layouts_and_dtypes_of_modules_without_values():
    model = nn.Sequential(nn.LazyConv2d(3, 2), nn.LazyBatchNorm2d(), nn.LazyLinear(2))
    model.to(memory_format=torch.channels_last).double()
    assert model(torch.ones(2, 4, 5, 5, dtype=torch.float64)).dtype is torch.float64
    assert model[1].running_mean.dtype is torch.float64


def test_a_class_whose_to_moves_by_name():
    class Moves(nn.Linear):
        def cpu(self):
            self.moves = getattr(self, "moves", 0) + 1
            return super().cpu()

        def to(self, device):
            return self.cpu() if str(device) == "cpu" else self.cuda()

    module = Moves(2, 1)
    assert module.to("cpu") is module.cpu() is module
    assert module.moves == 2


def test_a_replica_shares_attributes_and_has_no_parameters():
    module = nn.BatchNorm1d(3)
    module.kept = {}
    replica = module._replicate_for_data_parallel()
    assert type(replica) is nn.BatchNorm1d
    assert replica.kept is module.kept
    assert replica.running_mean is module.running_mean
    assert list(replica.parameters()) == []
    replica.register_buffer("more", torch.ones(1))
    replica.inner = nn.ReLU()
    assert replica._is_replica
    assert len(list(module.parameters())) == 2
    assert not hasattr(module, "more")
    assert not hasattr(module, "inner")
