"""Loss scaling: arithmetic, skipped steps, growth, order of calls, state."""

from __future__ import annotations

import doctest
import pickle
from collections import namedtuple
from collections.abc import Iterable

import pytest

import tensocket as torch
from tensocket import nn
from tensocket.amp import GradScaler, grad_scaler


def pair(rate: float = 0.5, **settings: float) -> tuple[nn.Parameter, torch.optim.Optimizer, GradScaler]:
    p = nn.Parameter(torch.ones(2))
    return p, torch.optim.SGD([p], lr=rate), GradScaler("cpu", **settings)


def test_doctests() -> None:
    assert doctest.testmod(grad_scaler).failed == 0


def test_a_step_is_that_of_unscaled_gradients() -> None:
    p, optimizer, scaler = pair()
    loss = scaler.scale((p * torch.tensor([1.0, 3.0])).sum())
    assert loss.item() == 4 * 65536.0
    loss.backward()
    assert p.grad.tolist() == [65536.0, 3 * 65536.0]
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [1.0, 3.0]
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0.5, -0.5]
    assert scaler.get_scale() == 65536.0


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.Adam(p, lr=0.1), lambda p: torch.optim.AdamW(p, lr=0.1, foreach=False),
    lambda p: torch.optim.RMSprop(p), lambda p: torch.optim.Adagrad(p),
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
])  # fmt: skip
def test_trajectories_are_those_without_a_scaler(make: object) -> None:
    plain, scaled = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    first, second, scaler = make([plain]), make([scaled]), GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    for _ in range(5):
        for p, optimizer in ((plain, first), (scaled, second)):
            optimizer.zero_grad()
            loss = (p.square() * torch.tensor([1.0, 2.0, 3.0])).sum()
            (scaler.scale(loss) if p is scaled else loss).backward()
        first.step()
        scaler.step(second)
        scaler.update()
    assert scaler.get_scale() == 4096.0
    assert (plain - scaled).abs().max().item() < 1e-6


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_bad_gradients_skip_the_step_and_shrink_the_scale(bad: float) -> None:
    p, optimizer, scaler = pair()
    scaler.scale((p * bad).sum()).backward()
    assert scaler.step(optimizer) is None
    scaler.update()
    assert p.tolist() == [1.0, 1.0]
    assert scaler.get_scale() == 32768.0


def test_the_scale_grows_after_good_steps() -> None:
    p, optimizer, scaler = pair(0.0, growth_interval=3, init_scale=4.0, growth_factor=8.0)
    scales = []
    for k in range(7):
        optimizer.zero_grad()
        scaler.scale((p * (float("inf") if k == 4 else 1.0)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [4.0, 4.0, 32.0, 32.0, 16.0, 16.0, 16.0]
    assert scaler.state_dict() == {"scale": 16.0, "growth_factor": 8.0, "backoff_factor": 0.5, "growth_interval": 3,
                                   "_growth_tracker": 2}


def test_the_scale_stays_finite() -> None:
    p, optimizer, scaler = pair(0.0, growth_interval=1, init_scale=3e38)
    scaler.scale((p * 0.0).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == pytest.approx(3e38)


def test_several_optimizers_share_a_scale() -> None:
    p, first, scaler = pair()
    q = nn.Parameter(torch.ones(2))
    second = torch.optim.SGD([q], lr=0.5)
    scaler.scale(p.sum() + (q * float("inf")).sum()).backward()
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert p.tolist() == [0.5, 0.5]
    assert q.tolist() == [1.0, 1.0]
    assert scaler.get_scale() == 32768.0


def test_sparse_gradients_are_unscaled() -> None:
    p = nn.Parameter(torch.zeros(4, 2))
    optimizer, scaler = torch.optim.SGD([p], lr=1.0), GradScaler("cpu", init_scale=8.0)
    scaler.scale(torch.ones(1))
    p.grad = torch.sparse_coo_tensor([[1, 1, 3]], torch.full((3, 2), 8.0), (4, 2))
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [[0.0, 0.0], [-2.0, -2.0], [0.0, 0.0], [-1.0, -1.0]]


def test_structures_are_scaled() -> None:
    scaler, point = GradScaler("cpu", init_scale=2.0), namedtuple("point", "x y")
    a, b = scaler.scale([torch.ones(1), (torch.ones(1),)])
    assert a.item() == b[0].item() == 2.0
    assert type(b) is tuple
    assert scaler.scale(point(torch.ones(1), torch.ones(1))).y.item() == 2.0
    lazy: Iterable[torch.Tensor] = scaler.scale(t for t in [torch.ones(1)])
    assert [t.item() for t in lazy] == [2.0]
    with pytest.raises(TypeError, match="a tensor or an iterable of tensors is scaled"):
        scaler.scale(3)


def test_optimizers_that_unscale_themselves() -> None:
    class Own(torch.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None):  # type: ignore[no-untyped-def]
            self.seen = self.grad_scale.item(), self.found_inf.item()
            return "stepped"

    class Given(Own):
        def step(self, closure=None, *, grad_scaler=None):  # type: ignore[no-untyped-def]
            self.seen = grad_scaler.get_scale()

    p, _, scaler = pair(init_scale=8.0)
    scaler.scale((p * float("nan")).sum()).backward()
    own, given = Own([p], lr=1.0), Given([p], lr=1.0)
    assert scaler.step(own) == "stepped"
    assert own.seen == (8.0, 1.0)
    assert not hasattr(own, "grad_scale")
    scaler.step(given)
    assert given.seen == 8.0
    scaler.update()
    assert scaler.get_scale() == 4.0


def test_order_of_calls() -> None:
    p, optimizer, scaler = pair()
    with pytest.raises(AssertionError, match="the loss of the iteration is scaled first"):
        scaler.update()
    scaler.scale(p.sum())
    with pytest.raises(AssertionError, match="at least one parameter has a gradient"):
        scaler.step(optimizer)
    with pytest.raises(AssertionError, match="an optimizer stepped since the last update"):
        scaler.update()
    p, optimizer, scaler = pair()
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="gradients are unscaled once between two calls of update, before step"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="there is one step between two calls of update"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="a scaler is pickled between iterations"):
        pickle.dumps(scaler)
    scaler.update()
    with pytest.raises(RuntimeError, match="gradients of a step are computed once"):
        scaler.step(optimizer, closure=lambda: None)


def test_settings() -> None:
    with pytest.raises(AssertionError, match="the scale grows by more than 1"):
        GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(AssertionError, match="the scale shrinks by less than 1"):
        GradScaler("cpu", backoff_factor=1.0)
    scaler = GradScaler("cpu")
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(5)
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (3.0, 0.25, 5)
    scaler.scale(torch.ones(1))
    scaler.update(torch.tensor(5.0))
    assert scaler.get_scale() == 5.0
    with pytest.raises(ValueError, match="a new scale is one float32 number without gradient"):
        scaler.update(torch.ones(2))


def test_half_parameters_are_refused() -> None:
    p = nn.Parameter(torch.ones(2).half())
    optimizer, scaler = torch.optim.SGD([p], lr=1.0), GradScaler("cpu")
    scaler.scale(p.float().sum()).backward()
    with pytest.raises(RuntimeError, match="gradients are unscaled in float32"):
        scaler.step(optimizer)


def test_state_goes_on() -> None:
    p, optimizer, scaler = pair(growth_interval=7)
    scaler.scale(p.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    copy, restored = pickle.loads(pickle.dumps(scaler)), GradScaler("cpu")
    restored.load_state_dict(scaler.state_dict())
    assert copy.state_dict() == restored.state_dict() == scaler.state_dict()
    copy.scale(torch.ones(1))
    copy.load_state_dict({**scaler.state_dict(), "scale": 2.0})
    assert copy.get_scale() == 2.0
    with pytest.raises(RuntimeError, match="the state is that of an enabled scaler"):
        scaler.load_state_dict({})


def test_switched_off() -> None:
    p, optimizer, _ = pair()
    with pytest.warns(FutureWarning, match=r"`torch.cpu.amp.GradScaler\(args...\)` is deprecated"):
        scaler = torch.cpu.amp.GradScaler(enabled=False)
    loss = p.sum()
    assert scaler.scale(loss) is loss
    assert scaler.scale(3) == 3
    assert not scaler.is_enabled()
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    scaler.load_state_dict({})
    assert p.tolist() == [0.5, 0.5]
    assert scaler.get_scale() == 1.0
    assert scaler.state_dict() == {}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_missing_devices_switch_off() -> None:
    with pytest.warns(UserWarning, match="no device of type 'cuda'"):
        assert not GradScaler().is_enabled()
    with pytest.warns(UserWarning, match="no device of type 'cuda'"), pytest.warns(FutureWarning, match="deprecated"):
        assert not torch.cuda.amp.GradScaler().is_enabled()
