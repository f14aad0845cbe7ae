"""Which views may be modified in place, as PyTorch documents it: where they were made, and of what."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

import tensocket_operators as tc
from tensocket_core.autograd.view_history import LostHistory
from tensocket_operators import inference_mode, no_grad
from tensocket_operators.autograd import Function
from tensocket_plugins.contract.errors import AutogradError


class Same(Function):
    """Returns a view of its argument."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return 3 * grad


def made_without(mode: Any) -> Callable[[Any], Any]:
    def make(base: Any) -> Any:
        with mode():
            return base[:]

    return make


def made_before(base: Any) -> Any:
    plain = tc.tensor([1.0, 2.0])
    view = plain[:]
    plain.requires_grad_()
    return view


#: Views that are not to be modified while gradients are recorded, and what errors say about them.
FIXED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no_grad": (made_without(no_grad), "A view was created in no_grad mode"),
    "inference": (made_without(inference_mode), "A view was created in inference mode"),
    "unbind": (lambda base: base.view(1, 2).unbind()[0], "an output of unbind, which returns multiple views"),
    "split": (lambda base: base.split(2)[0], "an output of split, which returns multiple views"),
    "function": (Same.apply, "a view made by a custom function"),
    "view of a fixed view": (lambda base: made_without(no_grad)(base)[:], "A view was created in no_grad mode"),
}
CHANGES: dict[str, Callable[[Any], Any]] = {
    "mul_": lambda t: t.mul_(2), "item": lambda t: t.__setitem__(0, 5.0), "copy_": lambda t: t.copy_(tc.ones(2)),
    "t_": lambda t: t.t_(), "squeeze_": lambda t: t.squeeze_(), "unsqueeze_": lambda t: t.unsqueeze_(0),
    "as_strided_": lambda t: t.as_strided_((1,), (1,)), "transpose_": lambda t: t.transpose_(0, 0),
    "set_": lambda t: t.set_(tc.ones(2)), "with a gradient": lambda t: t.add_(tc.ones(2, requires_grad=True)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", FIXED)
def test_fixed_views_are_not_modified_where_gradients_are_recorded(kind: str, change: str) -> None:
    make, message = FIXED[kind]
    base = tc.tensor([1.0, 2.0], requires_grad=True) * 1
    view = make(base)
    assert view.requires_grad
    with pytest.raises(AutogradError) as caught:
        CHANGES[change](view)
    assert message in str(caught.value)
    assert base.tolist() == [1.0, 2.0]


SAME: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda t: t.contiguous(), "to": lambda t: t.to(t.dtype), "real": lambda t: t.real,
    "conj": lambda t: t.conj(), "flatten": lambda t: t.flatten(),
    "index_put_": lambda t: tc.zeros(2).index_put_((tc.tensor([0, 1]),), t),
    "broadcast_tensors": lambda t: tc.functions.broadcast_tensors(t, t),
}


@pytest.mark.parametrize("use", SAME)
@pytest.mark.parametrize("mode", [no_grad, inference_mode])
def test_a_view_stays_recorded_where_functions_without_gradients_return_it(use: str, mode: Any) -> None:
    view, factor = tc.tensor([1.0, 2.0])[:], tc.tensor([3.0, 4.0], requires_grad=True)
    with mode():
        SAME[use](view)
    view.mul_(factor).sum().backward()
    assert factor.grad.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("kind", ["unbind", "split", "function", "inference", "no_grad", "view of a fixed view"])
def test_fixed_views_of_plain_tensors_take_no_gradients(kind: str) -> None:
    make, message = FIXED[kind]
    view = make(tc.tensor([1.0, 2.0]))
    view.mul_(2)
    assert view.tolist() == [2.0, 4.0]
    with pytest.raises(AutogradError) as caught:
        view.add_(tc.ones(2, requires_grad=True))
    assert message in str(caught.value)


@pytest.mark.parametrize("change", [name for name in CHANGES if name != "set_"])
@pytest.mark.parametrize("make", [lambda x: x[:], lambda x: x.view(2), made_before], ids=["part", "view", "before"])
def test_views_of_leaves_are_not_modified(make: Callable[[Any], Any], change: str) -> None:
    view = make(tc.tensor([1.0, 2.0], requires_grad=True))
    assert view.requires_grad
    with pytest.raises(AutogradError, match="a view of a leaf tensor that requires grad"):
        CHANGES[change](view)
    assert view.tolist() == [1.0, 2.0]


def test_views_of_views_that_are_leaves_are_not_modified() -> None:
    view = tc.zeros(2)[:].requires_grad_()
    with pytest.raises(AutogradError, match="a view of a leaf tensor"):
        view.view(2).mul_(2)


@pytest.mark.parametrize("kind", FIXED)
def test_fixed_views_lose_their_history_when_their_base_changes(kind: str) -> None:
    make, message = FIXED[kind]
    x = tc.tensor([1.0, 2.0], requires_grad=True)
    base = x * 1
    view = make(base)
    base.mul_(4)
    uses: list[Callable[[], Any]] = [lambda: view.grad_fn, lambda: view * 2, lambda: view.sum().backward(),
                                     lambda: view.register_hook(id)]
    for use in uses:
        with pytest.raises(AutogradError) as caught:
            use()
        assert str(caught.value).startswith(f"[grad_fn] {message}")
        assert "inplace — such a view does not follow recorded changes of its base" in str(caught.value)
    assert isinstance(view._grad_fn, LostHistory)
    assert view.detach().tolist() == [4.0, 8.0]
    assert "grad_fn=<Invalid>" in repr(view)
    base.sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


@pytest.mark.parametrize("make", [made_without(no_grad), made_without(inference_mode), made_before])
def test_gradients_of_views_without_history_lead_nowhere(make: Callable[[Any], Any]) -> None:
    base = tc.tensor([1.0, 2.0], requires_grad=True)
    view = make(base)
    assert view.requires_grad
    assert view.is_leaf
    (view * 2).sum().backward()
    assert view.grad is None
    assert base.grad is None


def test_tensors_that_nobody_has_views_of_look_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    base = tc.ones(3)
    base.add_(1)

    def refuse(*objects: Any) -> Any:
        raise AssertionError("asked the garbage collector")

    monkeypatch.setattr(gc, "get_referrers", refuse)
    part = base.detach()
    part.requires_grad_()
    other = base.detach()
    other.requires_grad = True
    third = base.detach().requires_grad_()
    assert third.requires_grad
    assert part.requires_grad
    assert not base.requires_grad


def test_a_kept_gradient_is_that_of_the_new_value() -> None:
    x = tc.ones(4, requires_grad=True)
    y = x * 1
    view = y[:2]
    view.retain_grad()
    view.mul_(2)
    (view * tc.tensor([1.0, 2.0])).sum().backward(retain_graph=True)
    assert view.grad.tolist() == [1.0, 2.0]
    assert x.grad.tolist() == [2.0, 4.0, 0.0, 0.0]
    (y * tc.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert view.grad.tolist() == [1.0, 2.0]
    assert x.grad.tolist() == [4.0, 8.0, 3.0, 4.0]


def test_hooks_stay_with_the_value_before_a_change() -> None:
    seen: list[str] = []
    base = tc.tensor([1.0], requires_grad=True).clone()
    view, other = base[:], base[:]
    view.register_hook(lambda grad: seen.append("view"))
    other.register_hook(lambda grad: seen.append("other"))
    view.mul_(2)
    other.register_hook(lambda grad: seen.append("new"))
    (view + other).sum().backward()
    assert seen == ["new"]


@pytest.mark.parametrize("mode", [no_grad, inference_mode])
@pytest.mark.parametrize("change", [lambda t: t.as_strided_((2,), (1,)), lambda t: t.unsqueeze_(0),
                                    lambda t: t.t_()], ids=["as_strided_", "unsqueeze_", "t_"])
def test_views_that_turn_where_nothing_is_recorded_stay_parts_of_their_base(mode: Any, change: Any) -> None:
    x = tc.tensor([1.0, 2.0, 3.0], requires_grad=True)
    view = (x * 2)[:]
    with mode():
        change(view)
    view.sum().backward()
    assert x.grad.tolist()[:2] == [2.0, 2.0]
    assert x.grad.tolist()[2] == (2.0 if view.numel() == 3 else 0.0)


def test_out_changes_its_size_where_nothing_is_recorded() -> None:
    out = tc.ones(2, requires_grad=True)
    with no_grad(), pytest.warns(UserWarning, match="was resized"):
        tc.mul(tc.ones(3), 2.0, out=out)
    assert out.tolist() == [2.0, 2.0, 2.0]
    assert out._version == 1


@pytest.mark.parametrize("value", [True, False])
def test_only_leaves_change_whether_they_require_gradients(value: bool) -> None:
    y = tc.ones(2, requires_grad=True) * 2
    with pytest.raises(AutogradError, match="you can only change requires_grad flags of leaf variables"):
        y.requires_grad = value
    assert y.requires_grad_() is y


def test_views_are_not_detached_in_place() -> None:
    view = tc.ones(2)[:]
    with pytest.raises(AutogradError, match="Can't detach views in-place: a view has the history of its base"):
        view.detach_()
    with inference_mode():
        assert view.detach_() is view


def test_arguments_stay_normal_tensors_in_inference_mode() -> None:
    x = tc.ones(2, 3)
    with inference_mode():
        x.resize_(2, 3)
        x.transpose_(0, 1)
        view = x[:]
        made = tc.ones(2)
    assert not x.is_inference()
    assert view._is_view()
    assert not view.is_inference()
    assert made[:].is_inference()
    assert not made[:]._is_view()


def test_results_of_functions_that_are_their_arguments_are_detached_where_nothing_is_recorded() -> None:
    x = tc.ones(2, requires_grad=True) * 2
    with no_grad():
        y = Same.apply(x).detach()
        parts = x.unsafe_chunk(2)
    assert not y.requires_grad
    assert not parts[0].requires_grad
    parts[0].mul_(2)
    assert x.tolist() == [4.0, 2.0]


@pytest.mark.parametrize("mode", [no_grad, inference_mode])
def test_views_made_without_recording_do_not_follow_later_changes_of_plain_bases(mode: Any) -> None:
    base, change = tc.tensor([1.0, 2.0]), tc.ones(2, requires_grad=True)
    view = made_without(mode)(base)
    base.mul_(change)
    assert view.requires_grad
    with pytest.raises(AutogradError, match="does not follow recorded changes"):
        _ = view * 2
    assert view.tolist() == [1.0, 2.0]


OVERWRITES: dict[str, Callable[[Any, Any], Any]] = {
    "copy_": lambda x, w: x.copy_(w), "fill_": lambda x, w: x.fill_(w[0]), "constant": lambda x, w: x.copy_(w.detach()),
    "view": lambda x, w: x.view(2).copy_(w), "composite": lambda x, w: x.masked_fill_(tc.tensor([True, True]), w[0]),
}


@pytest.mark.parametrize("kind", list(OVERWRITES))
def test_overwritten_values_have_gradients_of_zero(kind: str) -> None:
    start, change = tc.tensor([1.0, 2.0], requires_grad=True), tc.ones(2, requires_grad=True)
    value = start * 3
    OVERWRITES[kind](value, change)
    value.sum().backward()
    assert start.grad.tolist() == [0.0, 0.0]


def test_a_view_that_was_overwritten_passes_zeros_on() -> None:
    start, change = tc.tensor([1.0, 2.0], requires_grad=True), tc.ones(2, requires_grad=True)
    view = (start * 3).view(2)
    view.copy_(change)
    (view * 5).sum().backward()
    assert start.grad.tolist() == [0.0, 0.0]
    assert change.grad.tolist() == [5.0, 5.0]


NO_VIEWS: dict[str, Callable[[Any], Any]] = {
    "median": lambda x: x.median(-1).values, "kthvalue": lambda x: x.kthvalue(1, -1).values,
    "masked_select": lambda x: x[x > 0], "linear": lambda x: tc.matmul(x, x), "roll": lambda x: x.roll(1),
}


@pytest.mark.parametrize("kind", list(NO_VIEWS))
def test_new_tensors_made_without_recording_may_be_modified(kind: str) -> None:
    x, factor = tc.tensor([[1.0, 2.0], [3.0, 4.0]]), tc.tensor(2.0, requires_grad=True)
    with no_grad():
        result = NO_VIEWS[kind](x)
    before = result.clone()
    assert not result._is_view()
    result.mul_(factor)
    result.sum().backward()
    assert factor.grad.item() == before.sum().item()


def test_views_that_operators_return_as_they_are_stay_views() -> None:
    base = tc.tensor([1.0, 2.0, 3.0])
    view = base[1:]
    with no_grad():
        assert view.mul_(2)._base is base
        assert view.contiguous()._base is base
        assert view.squeeze_()._base is base
    assert base.tolist() == [1.0, 4.0, 6.0]
