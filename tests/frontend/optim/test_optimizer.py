"""Groups, state and messages of optimizers."""

from __future__ import annotations

import pytest

import tensocket as torch
from tensocket import nn, optim
from tensocket.errors import ArgumentError, ArgumentTypeError, StateDictError


def parameter(*values):
    return nn.Parameter(torch.tensor(values or (1.0,)))


def stepped(optimizer, *parameters):
    for p in parameters:
        p.grad = torch.ones_like(p)
    optimizer.step()


def test_groups_have_options_of_their_own():
    a, b = parameter(1.0), parameter(1.0)
    optimizer = optim.SGD([{"params": a, "lr": 0.5}, {"params": [b]}], lr=0.25)
    stepped(optimizer, a, b)
    assert (a.item(), b.item()) == (0.5, 0.75)
    assert [group["momentum"] for group in optimizer.param_groups] == [0, 0]


def test_named_parameters_keep_their_names():
    model = nn.Linear(2, 2)
    optimizer = optim.SGD(model.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.param_groups[0]["params"][0] is model.weight


def test_parameters_without_gradient_stay():
    a = parameter(1.0)
    optim.Adam([a]).step()
    assert a.item() == 1.0


def test_steps_record_no_gradient_and_change_in_place():
    a = parameter(1.0)
    alias = a.detach()
    stepped(optim.AdamW([a], lr=0.1), a)
    assert a.is_leaf
    assert alias.item() == a.item() != 1.0


def test_zero_grad():
    a = parameter(1.0)
    optimizer = optim.SGD([a])
    a.grad = torch.ones(1)
    optimizer.zero_grad(set_to_none=False)
    assert a.grad.item() == 0.0
    optimizer.zero_grad()
    assert a.grad is None


def test_a_closure_is_called_with_gradients_and_its_loss_returned():
    a = parameter(3.0)
    optimizer = optim.SGD([a], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (a * a).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert optimizer.step(closure).item() == 9.0
    assert a.item() == pytest.approx(3.0 - 0.1 * 6.0)


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW])
def test_state_goes_on_where_it_stopped(kind):
    options = {"lr": 0.1, "momentum": 0.9} if kind is optim.SGD else {"lr": 0.1}
    a, b = parameter(1.0, 2.0), parameter(1.0, 2.0)
    first, second = kind([a], **options), kind([b], lr=0.7)
    for k in range(6):
        a.grad = torch.tensor([0.5 * k, 1.0])
        first.step()
        if k == 2:
            with torch.no_grad():
                b.copy_(a)
            second.load_state_dict(first.state_dict())
        elif k > 2:
            b.grad = torch.tensor([0.5 * k, 1.0])
            second.step()
    assert b.tolist() == a.tolist()


def test_loaded_state_is_a_copy_in_the_dtype_of_the_parameter():
    a, b = parameter(1.0), nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    first, second = optim.Adam([a]), optim.Adam([b])
    stepped(first, a)
    second.load_state_dict(first.state_dict())
    state = second.state[b]
    assert state["exp_avg"].dtype is torch.float64
    stepped(first, a)
    assert state["step"] == 1
    assert second.state_dict()["param_groups"][0]["params"] == [0]


def test_step_counts_of_other_libraries_may_be_tensors():
    a = parameter(1.0)
    optimizer = optim.Adam([a])
    stepped(optimizer, a)
    state = optimizer.state_dict()
    state["state"][0]["step"] = torch.tensor(4.0)
    optimizer.load_state_dict(state)
    assert optimizer.state[a]["step"] == 4


def test_loading_what_does_not_fit_changes_nothing():
    a = parameter(1.0)
    optimizer = optim.SGD([a], lr=0.1)
    other = optim.SGD([parameter(), parameter()], lr=0.2).state_dict()
    with pytest.raises(StateDictError, match=r"\[SGD.load_state_dict\] groups of \[2\] parameters — the optimizer has "
                                             r"groups of \[1\] parameters"):
        optimizer.load_state_dict(other)
    assert optimizer.param_groups[0]["lr"] == 0.1
    with pytest.raises(StateDictError, match=r"\[SGD.load_state_dict\] a dict without 'state' and 'param_groups' — "
                                             "both are needed"):
        optimizer.load_state_dict({})
    with pytest.raises(StateDictError, match=r"state for parameters \[7\] — no group has these parameters"):
        optimizer.load_state_dict({**optimizer.state_dict(), "state": {7: {}}})


def test_printing():
    text = repr(optim.SGD([parameter()], lr=0.1))
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0\n")
    assert "    lr: 0.1\n" in text


def test_new_groups():
    a, b = parameter(), parameter()
    optimizer = optim.SGD([a], lr=0.1)
    optimizer.add_param_group({"params": [b], "lr": 0.2})
    assert optimizer.param_groups[1]["lr"] == 0.2
    with pytest.raises(ArgumentError, match=r"\[SGD\] parameter 0 of shape \(1,\) a second time — "
                                            "a parameter is in one group once"):
        optimizer.add_param_group({"params": [a]})
    with pytest.raises(ArgumentTypeError, match=r"\[SGD\] params as a set — parameters are ordered"):
        optimizer.add_param_group({"params": {a}})
    with pytest.raises(ArgumentTypeError, match=r"\[SGD\] group list — a group is a dict with 'params'"):
        optimizer.add_param_group([a])
    assert len(optimizer.param_groups) == 2


@pytest.mark.parametrize(("params", "error", "message"), [
    (torch.ones(1), ArgumentTypeError, r"\[SGD\] params as Tensor — params is an iterable of tensors or of dicts"),
    ([], ArgumentError, r"\[SGD\] an empty parameter list — an optimizer needs parameters"),
    ([1.0], ArgumentTypeError, r"\[SGD\] parameter 0 as float — parameters are tensors"),
    ([torch.ones(2, requires_grad=True) * 2], ArgumentError, r"parameter 0 of shape \(2,\), which was computed — "
                                                             "parameters are leaves of the gradient graph"),
])
def test_parameters_that_cannot_be_optimized(params, error, message):
    with pytest.raises(error, match=message):
        optim.SGD(params)


@pytest.mark.parametrize(("kind", "options", "message"), [
    (optim.SGD, {"lr": -1}, r"\[SGD\] lr=-1 — lr is not negative"),
    (optim.SGD, {"lr": float("nan")}, r"\[SGD\] lr=nan — lr is not negative"),
    (optim.SGD, {"momentum": -0.1}, r"momentum=-0.1 — momentum is not negative"),
    (optim.SGD, {"nesterov": True}, r"nesterov with momentum=0 and dampening=0 — "
                                    "Nesterov momentum needs a momentum and no dampening"),
    (optim.SGD, {"differentiable": True}, r"differentiable=True — differentiable is not supported"),
    (optim.Adam, {"betas": (1.0, 0.9)}, r"\[Adam\] betas\[0\]=1.0 — betas\[0\] is from 0 to less than 1"),
    (optim.Adam, {"eps": -1}, r"\[Adam\] eps=-1 — eps is not negative"),
    (optim.AdamW, {"weight_decay": -1}, r"\[AdamW\] weight_decay=-1 — weight_decay is not negative"),
    (optim.Adam, {"capturable": True}, r"capturable=True — capturable is not supported"),
])
def test_options_out_of_range(kind, options, message):
    with pytest.raises(ArgumentError, match=message):
        kind([parameter()], **options)


def test_options_are_numbers():
    with pytest.raises(ArgumentTypeError, match=r"\[SGD\] lr as str — lr is a Python number"):
        optim.SGD([parameter()], lr="0.1")


def test_a_class_of_ones_own_needs_only_step():
    class Sign(optim.Optimizer):
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.add_(p.grad.sign(), alpha=-group["lr"])

    a = parameter(1.0)
    stepped(Sign([a], {"lr": 0.5}), a)
    assert a.item() == 0.5
