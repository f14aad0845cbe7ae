"""state_dict and load_state_dict."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ArgumentTypeError, StateDictError


def make():
    return nn.Sequential(OrderedDict(first=nn.Linear(2, 3), last=nn.Linear(3, 1, bias=False)))


def test_state_is_ordered_shared_and_detached():
    model = make()
    state = model.state_dict()
    assert list(state) == ["first.weight", "first.bias", "last.weight"]
    assert isinstance(state, OrderedDict)
    assert not state["first.bias"].requires_grad
    with torch.no_grad():
        model.first.bias.fill_(7)
    assert state["first.bias"].tolist() == [7.0, 7.0, 7.0]
    assert model.state_dict(keep_vars=True)["first.bias"] is model.first.bias
    assert list(model.state_dict(prefix="net.")) == ["net.first.weight", "net.first.bias", "net.last.weight"]


def test_state_adds_to_a_destination():
    destination = OrderedDict(before=1)
    assert make().state_dict(destination=destination, prefix="m.") is destination
    assert list(destination)[:2] == ["before", "m.first.weight"]


def test_loading_copies_values():
    source, target = make(), make()
    kept = target.first.weight
    found = target.load_state_dict(source.state_dict())
    assert repr(found) == "<All keys matched successfully>"
    assert target.first.weight is kept
    assert target.first.weight.tolist() == source.first.weight.tolist()
    with torch.no_grad():
        source.first.weight.fill_(0)
    assert target.first.weight.tolist() != source.first.weight.tolist()


def test_loading_by_assignment_takes_the_tensors():
    target = make()
    state = {name: torch.full_like(value, 2.0) for name, value in target.state_dict().items()}
    target.load_state_dict(state, assign=True)
    assert isinstance(target.first.weight, nn.Parameter)
    assert target.first.weight.requires_grad
    with torch.no_grad():
        state["first.weight"].fill_(5)
    assert target.first.weight.tolist() == [[5.0, 5.0]] * 3


def test_message_names_everything_that_does_not_fit():
    state = {"first.wieght": torch.zeros(3, 2), "first.bias": torch.zeros(4), "last.weight": [1.0]}
    with pytest.raises(StateDictError) as caught:
        make().load_state_dict(state)
    assert str(caught.value) == (
        "[load_state_dict] state dict for Sequential: missing 'first.weight'; unexpected 'first.wieght' (did you mean "
        "'first.weight'?); 'first.bias' has shape (4,) but the module's has (3,); 'last.weight' is a list, not a "
        "tensor — names and shapes must be the module's own — load the state of a module with the same architecture, "
        "or pass strict=False to skip missing and unexpected names")
    assert isinstance(caught.value, RuntimeError)


def test_nothing_is_loaded_if_anything_does_not_fit():
    model = make()
    before = model.first.weight.tolist()
    state = {**make().state_dict(), "last.weight": torch.zeros(5)}
    with pytest.raises(StateDictError, match=r"'last.weight' has shape \(5,\) but the module's has \(1, 3\)"):
        model.load_state_dict(state, strict=False)
    assert model.first.weight.tolist() == before


def test_not_strict_reports_names_and_loads_the_rest():
    model = make()
    found = model.load_state_dict({"first.bias": torch.ones(3), "other": torch.zeros(1)}, strict=False)
    assert found.missing_keys == ["first.weight", "last.weight"]
    assert found.unexpected_keys == ["other"]
    assert repr(found) == ("IncompatibleKeys(missing_keys=['first.weight', 'last.weight'], unexpected_keys=['other'])")
    assert model.first.bias.tolist() == [1.0, 1.0, 1.0]


def test_the_state_is_a_mapping():
    with pytest.raises(ArgumentTypeError, match=r"\[load_state_dict\] a list — "
                                                "state_dict is a mapping of names to tensors"):
        make().load_state_dict([1])


def test_dtypes_are_converted():
    model = make()
    model.load_state_dict({name: value.double() for name, value in make().state_dict().items()})
    assert model.first.weight.dtype is torch.float32


def test_tied_parameters_appear_under_both_names():
    module = nn.Module()
    module.a = nn.Linear(2, 2, bias=False)
    module.b = module.a
    assert list(module.state_dict()) == ["a.weight", "b.weight"]
    module.load_state_dict(module.state_dict())
