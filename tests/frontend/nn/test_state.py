"""state_dict and load_state_dict."""

from __future__ import annotations

import pickle
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
        "[load_state_dict] Error(s) in loading state_dict for Sequential:\n"
        '\tMissing key(s) in state_dict: "first.weight". \n'
        '\tUnexpected key(s) in state_dict: "first.wieght". \n'
        "\tsize mismatch for first.bias: copying a param with shape tensocket.Size([4]) from checkpoint, the shape in "
        "current model is tensocket.Size([3]).\n"
        '\tWhile copying the parameter named "last.weight", expected torch.Tensor or Tensor-like object from '
        "checkpoint but received <class 'list'> — names and shapes must be the module's own — load the state of a "
        "module with the same architecture ('first.wieght' may be 'first.weight'), or pass strict=False to skip "
        "missing and unexpected names")
    assert isinstance(caught.value, RuntimeError)


def test_nothing_is_loaded_if_anything_does_not_fit():
    model = make()
    before = model.first.weight.tolist()
    state = {**make().state_dict(), "last.weight": torch.zeros(5)}
    with pytest.raises(StateDictError, match=r"size mismatch for last.weight: .*Size\(\[5\]\)"):
        model.load_state_dict(state, strict=False)
    assert model.first.weight.tolist() == before


def test_not_strict_reports_names_and_loads_the_rest():
    model = make()
    found = model.load_state_dict({"first.bias": torch.ones(3), "other": torch.zeros(1)}, strict=False)
    assert found.missing_keys == ["first.weight", "last.weight"]
    assert found.unexpected_keys == ["other"]
    assert repr(found) == ("_IncompatibleKeys(missing_keys=['first.weight', 'last.weight'], unexpected_keys=['other'])")
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


class Counted(nn.Module):
    """Has a version, a state of its own and a buffer that older versions called otherwise."""

    _version = 2

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.tensor(1.0))
        self.steps = 3

    def get_extra_state(self):
        return {"steps": self.steps}

    def set_extra_state(self, state):
        self.steps = state["steps"]

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        if local_metadata.get("version", 1) < 2:
            state_dict[prefix + "total"] = state_dict.pop(prefix + "sum")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


def test_state_has_versions():
    state = nn.Sequential(Counted(), nn.Linear(1, 1)).state_dict(prefix="m.")
    assert state._metadata == OrderedDict({"m": {"version": 1}, "m.0": {"version": 2}, "m.1": {"version": 1}})


def test_extra_state_is_saved_and_loaded():
    module = nn.Sequential(Counted())
    state = module.state_dict()
    assert state["0._extra_state"] == {"steps": 3}
    state["0._extra_state"] = {"steps": 7}
    assert str(module.load_state_dict(state)) == "<All keys matched successfully>"
    assert module[0].steps == 7
    del state["0._extra_state"]
    assert module.load_state_dict(state, strict=False).missing_keys == ["0._extra_state"]
    found = nn.Sequential(nn.Identity()).load_state_dict({"0._extra_state": 1}, strict=False)
    assert found.unexpected_keys == ["0._extra_state"]
    for call in (nn.Module().get_extra_state, lambda: nn.Module().set_extra_state(1)):
        with pytest.raises(NotImplementedError, match="the class defines no extra state"):
            call()


def test_older_states_are_converted():
    module = nn.Sequential(Counted())
    old = OrderedDict({"0.sum": torch.tensor(5.0), "0._extra_state": {"steps": 0}})
    assert module.load_state_dict(old).missing_keys == []
    assert module[0].total.item() == 5.0


def test_hooks_on_saving():
    module, seen = make(), []
    module.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append((prefix, keep)))
    module.first.register_state_dict_post_hook(lambda m, state, prefix, metadata: state.__delitem__(prefix + "bias"))
    assert list(module.state_dict(prefix="a.")) == ["a.first.weight", "a.last.weight"]
    assert seen == [("a.", False)]
    module._register_state_dict_hook(lambda m, state, prefix, metadata: OrderedDict(replaced=metadata["version"]))
    assert module.state_dict() == {"replaced": 1}
    module.register_state_dict_post_hook(lambda m, state, prefix, metadata: 1)
    with pytest.raises(StateDictError, match="a int from a hook — the hook returns None"):
        module.state_dict()


def test_hooks_on_loading():
    module, seen = make(), []
    state = {name.replace("first", "old"): value for name, value in module.state_dict().items()}

    def rename(m, values, prefix, metadata, strict, missing, unexpected, errors):
        seen.append((m, prefix, strict))
        for name in [name for name in values if "old" in name]:
            values[name.replace("old", "first")] = values.pop(name)

    def forgive(m, found):
        found.missing_keys.clear()

    with module.register_load_state_dict_pre_hook(rename):
        module.load_state_dict(state)
    assert seen == [(module, "", True)]
    del state["last.weight"]
    with module.register_load_state_dict_pre_hook(rename), module.register_load_state_dict_post_hook(forgive):
        module.load_state_dict(state)
    with module.register_load_state_dict_post_hook(lambda m, found: 1), \
            pytest.raises(StateDictError, match="the hook returns None"):
        module.load_state_dict(module.state_dict())


def test_failures_while_copying_are_listed():
    module = make()
    module.last.register_load_state_dict_pre_hook(lambda *_: None)
    state = {**module.state_dict(), "last.weight": torch.empty(1, 3, device="meta")}
    with pytest.raises(StateDictError, match=r'copying the parameter named "last.weight", whose dimensions in the '
                                             r"model are .* an exception occurred"):
        module.load_state_dict(state)


def test_numbers_may_have_been_saved_as_vectors():
    module = nn.Module()
    module.register_buffer("number", torch.tensor(0.0))
    module.load_state_dict({"number": torch.tensor([4.0])})
    assert module.number.item() == 4.0


def test_copying_into_meta_warns():
    with torch.device("meta"):
        module = nn.Linear(2, 1, bias=False)
    values = {"weight": torch.ones(1, 2)}
    with pytest.warns(UserWarning, match="which is a no-op"):
        module.load_state_dict(values)
    module.load_state_dict(values, assign=True)
    assert module.weight.tolist() == [[1.0, 1.0]]


def test_arguments_by_position_are_deprecated():
    with pytest.warns(FutureWarning, match="use kwargs"):
        state = make().state_dict(OrderedDict(), "p.")
    assert next(iter(state)) == "p.first.weight"


def test_the_report_of_a_load_has_its_name():
    found = nn.Linear(2, 2).load_state_dict({}, strict=False)
    assert type(found).__name__ == "_IncompatibleKeys"
    assert pickle.loads(pickle.dumps(found)) == found
