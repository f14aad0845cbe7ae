"""Groups, state and messages of optimizers."""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn, optim
from tensocket.errors import ArgumentError, ArgumentTypeError, DtypeError, StateDictError
from tensocket.optim import optimizer as optimizer_module


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


KINDS = [getattr(optim, name) for name in optim.__all__
         if name not in ("LBFGS", "Optimizer", "SparseAdam") and isinstance(getattr(optim, name), type)]


@pytest.mark.parametrize("kind", KINDS)
def test_state_goes_on_where_it_stopped(kind):
    options = {"lr": 0.1, "momentum": 0.9} if kind is optim.SGD else {"lr": 0.1}
    a, b = (nn.Parameter(torch.tensor([[1.0, 2.0]])) for _ in range(2))
    first, second = kind([a], **options), kind([b], lr=0.7)
    for k in range(6):
        a.grad = torch.tensor([[0.5 * k, 1.0]])
        first.step()
        if k == 2:
            with torch.no_grad():
                b.copy_(a)
            second.load_state_dict(first.state_dict())
        elif k > 2:
            b.grad = torch.tensor([[0.5 * k, 1.0]])
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
    assert state["step"].item() == 1
    assert second.state_dict()["param_groups"][0]["params"] == [0]


@pytest.mark.parametrize("count", [4, torch.tensor(4.0), torch.tensor(4)])
def test_step_counts_become_tensors_of_float32(count):
    a = parameter(1.0)
    optimizer = optim.Adam([a])
    stepped(optimizer, a)
    state = optimizer.state_dict()
    state["state"][0]["step"] = count
    optimizer.load_state_dict(state)
    assert optimizer.state[a]["step"].item() == 4
    assert optimizer.state[a]["step"].dtype is torch.float32


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
    with pytest.raises(ValueError, match="both are needed"):
        optimizer.load_state_dict([])


def test_state_of_the_optimizer_as_a_whole_is_kept():
    optimizer = optim.SGD([parameter()])
    optimizer.load_state_dict({**optimizer.state_dict(), "state": {"calls": 7}})
    assert optimizer.state_dict()["state"] == {"calls": 7}


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
    with pytest.raises(ArgumentError, match="a group with names and one without — all groups have names, or none has"):
        optimizer.add_param_group({"params": [("a", parameter())]})
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
    (optim.SGD, {"foreach": True, "fused": True}, "foreach=True, fused=True — there is one implementation at a time"),
    (optim.SGD, {"fused": True, "differentiable": True}, "differentiable=True — fused steps are not differentiable"),
    (optim.Adam, {"lr": torch.ones(2)}, r"lr of shape \(2,\) — a tensor as option has one element"),
    (optim.Adam, {"lr": torch.ones(()), "foreach": True}, "a tensor as learning rate with foreach needs capturable"),
    (optim.Rprop, {"etas": (1.5, 2)}, "the first of etas is between 0 and 1, the second above 1"),
    (optim.Adafactor, {"d": 0.5}, r"\[Adafactor\] d=0.5 — d is at least 1"),
    (optim.Adafactor, {"beta2_decay": 0.5}, r"-beta2_decay=-0.5 — -beta2_decay is not negative"),
    (optim.Adadelta, {"rho": 1.5}, r"rho=1.5 — rho is from 0 to less than 1"),
    (optim.LBFGS, {"line_search_fn": "x"}, "line_search_fn='x' — the line search is 'strong_wolfe' or None"),
    (optim.Adam, {"betas": (1.0, 0.9)}, r"\[Adam\] betas\[0\]=1.0 — betas\[0\] is from 0 to less than 1"),
    (optim.Adam, {"eps": -1}, r"\[Adam\] eps=-1 — eps is not negative"),
    (optim.AdamW, {"weight_decay": -1}, r"\[AdamW\] weight_decay=-1 — weight_decay is not negative"),
])
def test_options_out_of_range(kind, options, message):
    with pytest.raises(ArgumentError, match=message):
        kind([parameter()], **options)


def test_options_are_numbers():
    with pytest.raises(ArgumentTypeError, match=r"\[SGD\] lr as str — lr is a number"):
        optim.SGD([parameter()], lr="0.1")


def test_a_class_of_ones_own_needs_only_step():
    class Sign(optim.Optimizer):
        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.add_(p.grad.sign(), alpha=-group["lr"])

    a = parameter(1.0)
    stepped(Sign([a], {"lr": 0.5}), a)
    assert a.item() == 0.5


def test_an_option_without_default_is_needed():
    defaults = {"lr": optimizer_module.required, "eps": 1}
    with pytest.raises(ArgumentError, match="a group without lr — an option without default is set by every group"):
        optim.Optimizer([parameter()], defaults)
    assert optim.Optimizer([{"params": [parameter()], "lr": 3}], defaults).param_groups[0]["eps"] == 1


def test_the_group_is_the_dict_that_was_given():
    group = {"params": parameter(), "mine": 1}
    optimizer = optim.SGD([group], lr=0.5)
    assert optimizer.param_groups[0] is group
    assert (group["lr"], group["mine"]) == (0.5, 1)


def test_duplicates_in_a_group_warn():
    a = parameter()
    with pytest.warns(UserWarning, match="optimizer contains a parameter group with duplicate parameters"):
        optim.SGD([a, a])


def test_names_are_for_all_or_none():
    with pytest.raises(ArgumentError, match="all parameters of a group have names, or none has"):
        optim.SGD([parameter(), ("b", parameter())])


def test_hooks_around_a_step():
    a, calls = parameter(), []
    optimizer = optim.SGD([a], lr=0.5)
    handles = [
        optimizer_module.register_optimizer_step_pre_hook(lambda o, args, kwargs: calls.append("all before")),
        optimizer.register_step_pre_hook(lambda o, args, kwargs: calls.append(("before", args[0] is o, kwargs))),
        optimizer.register_step_post_hook(lambda o, args, kwargs: calls.append(("after", a.item()))),
        optimizer_module.register_optimizer_step_post_hook(lambda o, args, kwargs: calls.append("all after")),
    ]
    stepped(optimizer, a)
    assert calls == ["all before", ("before", True, {}), ("after", 0.5), "all after"]
    for handle in handles:
        handle.remove()
    stepped(optimizer, a)
    assert len(calls) == 4


def test_a_hook_may_change_the_arguments_of_a_step():
    optimizer = optim.SGD([parameter()])
    with optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: "loss"), {})):
        assert optimizer.step() == "loss"
    with optimizer.register_step_pre_hook(lambda o, args, kwargs: 3), \
            pytest.raises(ArgumentError, match=r"a hook before the step returns None or new \(args, kwargs\)"):
        optimizer.step()


def test_hooks_around_saving_and_loading():
    optimizer, calls = optim.SGD([parameter()], lr=0.5), []
    optimizer.register_state_dict_pre_hook(lambda o: calls.append("saving"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "extra": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: {k: state[k] for k in ("state", "param_groups")})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: calls.append(("loading", "extra" in state)),
                                                prepend=True)
    optimizer.register_load_state_dict_post_hook(lambda o: calls.append("loaded"))
    state = optimizer.state_dict()
    assert state["extra"] == 1
    optimizer.load_state_dict(state)
    assert calls == ["saving", ("loading", True), "loaded"]


@pytest.mark.parametrize("copy", [deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies_go_on_alone(copy):
    a = parameter(1.0)
    optimizer = optim.Adam([a], lr=0.1)
    stepped(optimizer, a)
    twin = copy(optimizer)
    b = twin.param_groups[0]["params"][0]
    assert twin.state[b]["step"].item() == 1
    stepped(twin, b)
    assert a.item() > b.item()
    assert optimizer.state[a]["step"].item() == 1


def test_a_tensor_as_rate():
    a, rate = parameter(1.0), torch.tensor(0.25)
    optimizer = optim.SGD([a], lr=rate)
    stepped(optimizer, a)
    rate.fill_(0.5)
    stepped(optimizer, a)
    assert a.item() == 0.25


@pytest.mark.parametrize(("kind", "options"), [
    (optim.SGD, {"momentum": 0.9, "nesterov": True}), (optim.Adam, {"amsgrad": True}), (optim.Adam, {}),
    (optim.AdamW, {"weight_decay": 0.1}), (optim.NAdam, {}), (optim.RAdam, {}), (optim.Adamax, {}), (optim.Adagrad, {}),
    (optim.Adadelta, {}), (optim.RMSprop, {"centered": True, "momentum": 0.5}), (optim.ASGD, {}), (optim.Rprop, {}),
], ids=lambda part: getattr(part, "__name__", ""))
def test_gradients_through_two_steps(kind, options):
    """Against central differences of the place after the steps by the factor of the gradient."""
    def after(factor):
        x = torch.tensor([0.7, -1.3], dtype=torch.float64, requires_grad=True).clone()
        optimizer = kind([x], lr=0.1, differentiable=True, **options)
        for k in range(2):
            x.grad = (factor + 0.1 * k) * torch.tensor([1.0, 2.0], dtype=torch.float64) + 0.3 * factor**2
            optimizer.step()
        return (x * torch.tensor([1.0, 3.0], dtype=torch.float64)).sum()

    factor = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)
    after(factor).backward()
    with torch.no_grad():
        expected = (after(torch.tensor(0.9 + 1e-5, dtype=torch.float64))
                    - after(torch.tensor(0.9 - 1e-5, dtype=torch.float64))).item() / 2e-5
    assert factor.grad.item() == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_gradients_reach_the_rate():
    rate = torch.tensor(0.1, requires_grad=True)
    x = torch.tensor([1.0, 2.0], requires_grad=True).clone()
    optimizer = optim.SGD([x], lr=rate, differentiable=True)
    x.grad = torch.tensor([3.0, 5.0])
    optimizer.step()
    x.sum().backward()
    assert rate.grad.item() == -8.0


def test_sparse_adam_needs_sparse_gradients():
    a = parameter()
    optimizer = optim.SparseAdam([a])
    assert optimizer.step(lambda: 3) == 3
    with pytest.raises(ArgumentError, match=r"a dense gradient of shape \(1,\) — "
                                            "SparseAdam does not support dense gradients"):
        stepped(optimizer, a)


def test_adafactor_is_for_real_parameters():
    with pytest.raises(DtypeError, match="Adafactor does not support complex parameters"):
        stepped(optim.Adafactor([a := nn.Parameter(torch.ones(2, dtype=torch.complex64))]), a)


def test_lbfgs_asks_for_one_group_and_a_closure():
    with pytest.raises(ArgumentError, match="2 groups — LBFGS has one group of parameters"):
        optim.LBFGS([{"params": [parameter()]}, {"params": [parameter()]}])
    with pytest.raises(TypeError, match="no closure — LBFGS evaluates the loss several times in a step"):
        optim.LBFGS([parameter()]).step()


def test_betas_that_are_tensors():
    beta = torch.tensor(0.9)
    with pytest.raises(ArgumentError, match="betas must be either both floats or both Tensors"):
        optim.Adam([torch.ones(2)], betas=(beta, 0.99))
    with pytest.raises(ArgumentError, match="a tensor as betas with foreach needs capturable"):
        optim.Adam([torch.ones(2)], betas=(beta, beta), foreach=True)


def test_groups_are_apart_in_the_repr():
    assert "weight_decay: 0\n\nParameter Group 1\n" in repr(optim.SGD([{"params": [torch.ones(2)]} for _ in range(2)]))


def test_loaded_names_replace_own_ones():
    optimizer = optim.SGD([("a", torch.ones(2))])
    optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0], "param_names": ["b"]}]})
    assert optimizer.param_groups[0]["param_names"] == ["b"]
    optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0]}]})
    assert optimizer.param_groups[0]["param_names"] == ["b"]


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_options_are_numbers_of_numpy(kind):
    weight = nn.Parameter(torch.tensor([4.0]))
    weight.grad = torch.tensor([1.0])
    optim.SGD([weight], lr=kind(2)).step()
    assert weight.tolist() == [2.0]


def test_gradients_reach_the_product_of_momenta():
    """The update is linear in 1 / (1 - product), whose derivative is known."""
    def after(product):
        parameter = torch.tensor([0.5], dtype=torch.float64, requires_grad=True).clone()
        optimizer = optim.NAdam([parameter], lr=0.1, differentiable=True)
        parameter.grad = torch.tensor([0.3], dtype=torch.float64)
        optimizer.state[parameter] = {
            "step": torch.tensor(3.0), "exp_avg": torch.tensor([0.2], dtype=torch.float64),
            "exp_avg_sq": torch.tensor([0.1], dtype=torch.float64), "mu_product": product * 1}
        optimizer.step()
        return parameter.sum()

    product = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    after(product).backward()
    with torch.no_grad():
        expected = (after(product + 1e-6) - after(product - 1e-6)) / 2e-6
    assert product.grad.item() == pytest.approx(expected.item(), rel=1e-6)
