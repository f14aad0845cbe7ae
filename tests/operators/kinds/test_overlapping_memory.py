"""Calls that fail as in PyTorch: overlapping operands, views that must not be modified, results that fit nowhere."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as F
from tensocket_operators.autograd import grad
from tensocket_operators.transforms import vmap
from tensocket_plugins.contract.errors import (
    ArgumentTypeError,
    AutogradError,
    DtypeError,
    ShapeError,
    TransformError,
)

SHARED = ("[{}] an operand in the memory of the tensor of shape {} that is written — "
          "an operand and what is written share no elements, or all of them one by one — clone() the operand first")
FIRST = lambda: tc.tensor([0, 1])


def line():
    return tc.arange(4.0)


#: Calls on a vector whose operands lie in the memory of what is written, and what the error begins with.
OVERLAPS = {
    "add_": (lambda x: x[1:].add_(x[:-1]), "add_", [3]),
    "mul_ by the transpose": (lambda x: x.view(2, 2).mul_(x.view(2, 2).t()), "mul_", [2, 2]),
    "copy_": (lambda x: x[1:].copy_(x[:-1]), "copy_", [3]),
    "addcmul_": (lambda x: x[1:].addcmul_(x[:-1], x[:-1]), "addcmul_", [3]),
    "scatter_": (lambda x: x.scatter_(0, FIRST(), x[:2]), "scatter_", [4]),
    "scatter_add_": (lambda x: x.scatter_add_(0, FIRST(), x[:2]), "scatter_add_", [4]),
    "scatter_reduce_": (lambda x: x.scatter_reduce_(0, FIRST(), x[:2], "sum"), "scatter_reduce_", [4]),
    "index_add_": (lambda x: x.index_add_(0, FIRST(), x[:2]), "index_add_", [4]),
    "index_copy_": (lambda x: x.index_copy_(0, FIRST(), x[1:3]), "index_copy_", [4]),
    "index_put_": (lambda x: x.index_put_((FIRST(),), x[1:3]), "index_put_", [4]),
    "setitem": (lambda x: x.__setitem__(FIRST(), x[1:3]), "index_put_", [4]),
    "put_": (lambda x: x.put_(FIRST(), x[1:3]), "put_", [4]),
    "add, out": (lambda x: F.add(x[1:], 1, out=x[:-1]), "add", [3]),
    "exp, out": (lambda x: F.exp(x[1:], out=x[:-1]), "exp", [3]),
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_operands_that_are_overwritten_while_they_are_read_are_refused(name):
    run, operator, shape = OVERLAPS[name]
    x = line()
    with pytest.raises(ShapeError) as caught:
        run(x)
    assert str(caught.value) == SHARED.format(operator, shape)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_joined_tensors_are_not_written_over_themselves():
    x = line()
    with pytest.raises(ShapeError, match=r"\[cat\] out of shape \[4\] within the memory of an operand"):
        F.cat([x[2:], x[:2]], out=x)


def test_overlaps_are_refused_after_many_calls_as_well():
    for _ in range(3000):
        x = line()
        x[1:].add_(tc.ones(3))
    with pytest.raises(ShapeError, match=r"\[add_\] an operand in the memory"):
        x[1:].add_(x[:-1])


@pytest.mark.parametrize("run", [lambda x: x.add_(x), lambda x: x.mul_(x.view(4)), lambda x: F.add(x, x, out=x),
                                 lambda x: x.copy_(x[...])])
def test_operands_that_are_what_is_written_are_fine(run):
    x = line() + 2
    run(x)
    assert x.tolist() in ([4.0, 6.0, 8.0, 10.0], [4.0, 9.0, 16.0, 25.0], [2.0, 3.0, 4.0, 5.0])


def test_operands_with_gaps_are_copied_first():
    x = tc.arange(6.0)
    x[1:4].add_(x[::2])
    assert x.tolist() == [0.0, 1.0, 4.0, 7.0, 4.0, 5.0]


def test_one_value_is_written_to_elements_that_share_memory():
    base = tc.ones(1)
    assert base.expand(3).fill_(2.0).tolist() == [2.0, 2.0, 2.0]
    assert base.tolist() == [2.0]
    assert base.expand(3).zero_().tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ShapeError, match=r"\[copy_\] an expanded tensor of shape \[2\]"):
        base.expand(3)[:2] = 5.0


# ------------------------------------------------------------------------------------------------------------- views


MANY = {
    "unbind": (lambda y: y.unbind()[0], "unbind"), "split": (lambda y: y.split(1)[0], "split"),
    "chunk": (lambda y: y.chunk(2)[1], "split"), "split_with_sizes": (lambda y: y.split_with_sizes([1, 1])[0], "split"),
    "rows of a loop": (lambda y: next(iter(y)), "unbind"), "a view of a part": (lambda y: y.unbind()[0][...], "unbind"),
}


@pytest.mark.parametrize("name", MANY)
def test_one_of_several_views_is_not_modified_while_gradients_are_recorded(name):
    part, function = MANY[name]
    x = tc.ones(2, requires_grad=True)
    view = part(x * 2)
    with pytest.raises(AutogradError) as caught:
        view.mul_(2)
    assert str(caught.value).startswith(f"[mul_] an output of {function}, which returns multiple views")
    with tc.no_grad():
        view.mul_(2)
    part(tc.ones(2)).mul_(2)


def test_parts_that_count_as_tensors_of_their_own_are_modified():
    x = tc.ones(2, requires_grad=True)
    parts = F.unsafe_split(x * 2, 1)
    parts[0].mul_(3)
    assert grad(parts[0].sum() + parts[1].sum(), x)[0].tolist() == [6.0, 2.0]


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x * 2], ids=["leaf", "result"])
def test_views_that_were_not_recorded_are_not_modified_where_gradients_are(make):
    base = make(tc.ones(2, requires_grad=True))
    with tc.no_grad():
        view = base[:1]
        rows = base.split(1)
        view.mul_(2)
    assert view.requires_grad
    assert view.is_leaf
    assert rows[1].requires_grad
    with pytest.raises(AutogradError, match=r"\[mul_\] A view was created in no_grad mode and is being modified"):
        view.mul_(2)
    assert base.tolist() == [2 * base[1].item(), base[1].item()]
    view.detach().mul_(2)


def test_views_of_what_has_no_gradient_are_free():
    with tc.no_grad():
        view = tc.ones(2)[:1]
    assert not view.requires_grad
    view.mul_(2)
    with tc.no_grad():
        whole = tc.ones(2, requires_grad=True) * 2
    assert not whole.requires_grad


# ----------------------------------------------------------------------------------------------------------- results


@pytest.mark.parametrize("name", ["all", "any"])
def test_truth_is_written_to_bools_and_bytes(name):
    run = getattr(F, name)
    for dtype in (tc.bool_, tc.uint8):
        assert run(tc.ones(3), out=tc.empty((), dtype=dtype)).item() == 1
    with pytest.raises(DtypeError, match=rf"\[{name}\] out of dtype float32 — out is of bools or uint8"):
        run(tc.ones(3), out=tc.empty(()))


def test_positions_are_written_to_int64():
    with pytest.raises(DtypeError, match=r"\[max\] a result of dtype int64 for out of dtype float32"):
        F.max(tc.ones(3), 0, out=(tc.ones(()), tc.ones(())))


def test_draws_are_written_to_any_dtype():
    assert tc.bernoulli(tc.ones(3), out=tc.empty(3, dtype=tc.int64)).tolist() == [1, 1, 1]


def test_flip_takes_dims():
    with pytest.raises(ArgumentTypeError, match=r"\[flip\] no dims"):
        tc.ones(3).flip()
    assert line().flip(()).tolist() == line().tolist()


@pytest.mark.parametrize("draw", [tc.bernoulli, tc.normal, tc.poisson, lambda x: tc.multinomial(x, 1),
                                  lambda x: tc.binomial(x, x)])
def test_examples_with_parameters_of_their_own_have_no_common_draw(draw):
    rows = tc.full((3, 4), 0.5)
    with pytest.raises(TransformError, match="a draw with parameters that differ between examples of vmap — "
                       "with randomness='same', all examples draw the same numbers — pass randomness='different'"):
        vmap(draw, randomness="same")(rows)
    assert vmap(draw, randomness="different")(rows).shape[0] == 3
    assert vmap(lambda _: draw(rows[0]), randomness="same")(rows).shape[0] == 3


def test_dimensions_of_one_element_make_no_difference():
    x = tc.ones(3)
    left, right = x.unsqueeze(0), x[None]
    left.add_(right)
    assert x.tolist() == [2.0, 2.0, 2.0]


def test_factors_do_not_hide_that_memory_is_shared():
    for change in (lambda x: x[1:].add_(x[:-1], alpha=2), lambda x: x[1:].sub_(x[:-1], alpha=2)):
        with pytest.raises(ShapeError, match="an operand in the memory of the tensor"):
            change(line())


def test_rows_that_are_written_over_rows_with_gaps_are_read_first():
    whole = tc.arange(12.0).reshape(3, 4)
    part = whole[:, 1:3]
    part[:, tc.tensor([1, 0])] = part
    assert whole.tolist() == [[0.0, 2.0, 1.0, 3.0], [4.0, 6.0, 5.0, 7.0], [8.0, 10.0, 9.0, 11.0]]
    with pytest.raises(ShapeError, match=r"\[index_put_\] an operand in the memory"):
        whole[tc.tensor([1, 0, 2])] = whole
    recorded = tc.ones(2, 2, requires_grad=True) * 2
    with pytest.raises(ShapeError, match=r"\[index_put_\] an operand in the memory"):
        recorded[tc.tensor([1, 0])] = recorded


def test_results_in_any_order_of_dimensions_have_bytes():
    x = tc.arange(24.0, dtype=tc.float64).reshape(2, 3, 4).permute(1, 0, 2).exp()
    storage = x.untyped_storage()
    assert storage.nbytes() == 24 * 8
    assert x.stride() == (4, 12, 1)
    assert tc.empty(0, dtype=tc.float64).set_(storage)[13].item() == pytest.approx(np.exp(13.0))
