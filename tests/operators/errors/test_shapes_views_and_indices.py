"""Errors of shapes, views, memory and positions: class, form, and a device that works afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_operators import functions as F
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    AutogradError,
    DeviceMismatch,
    DimensionError,
    DtypeError,
    IndexDtypeError,
    IndexOutOfRange,
    ShapeError,
    TensocketError,
)


def f(*shape: int) -> Any:
    return torch.ones(*shape)


def i(*values: int) -> Any:
    return torch.tensor(list(values))


def leaf(*shape: int) -> Any:
    return torch.ones(*shape, requires_grad=True)


def modified() -> None:
    y = leaf(2) * 1
    z = y * y
    y.add_(1)
    z.sum().backward()


Case = tuple[Callable[[], Any], type[TensocketError], type[Exception], str, str]
#: The failing call, the class, PyTorch's class, the operator that the message names, and the rule.
CASES: list[Case] = [
    # shapes and views
    (lambda: f(4).reshape(3), ShapeError, RuntimeError, "reshape",
     "the sizes multiply to the number of elements, with at most one -1"),
    (lambda: f(4).reshape("x"), ArgumentTypeError, TypeError, "shape", "sizes and dims are integers"),
    (lambda: f(2, 3).t().view(6), ShapeError, RuntimeError, "view",
     "a view needs merged dimensions to be adjacent in memory"),
    (lambda: f(2, 3).permute(0, 0), ShapeError, RuntimeError, "permute", "every dim appears exactly once"),
    (lambda: f(2, 3).expand(3), ShapeError, RuntimeError, "expand",
     "a new leading dimension has a size, and no dimension is dropped"),
    (lambda: f(2, 3).expand(3, 3), ShapeError, RuntimeError, "expand",
     "only dimensions of size 1 can be expanded, and to a size"),
    (lambda: F.cat([torch.tensor(1.0)]), ShapeError, RuntimeError, "cat", "only tensors with dimensions are joined"),
    (lambda: F.cat([f(2), f(2, 2)]), ShapeError, RuntimeError, "cat", "all sizes but that of dim 0 are equal"),
    (lambda: F.cat([f(2), f(2)], None), ArgumentTypeError, TypeError, "cat", "a dim is an integer"),
    (lambda: F.stack([f(2), f(3)]), ShapeError, RuntimeError, "stack", "all tensors have one shape"),
    (lambda: f(2).repeat(-1), ShapeError, RuntimeError, "repeat",
     "there is a repeat for every dimension, not negative"),
    (lambda: F.movedim(f(2, 3), (0, 0), (0, 1)), ShapeError, RuntimeError, "movedim",
     "as many distinct dims move as there are places"),
    (lambda: f(1, 1, 1).t(), ShapeError, RuntimeError, "t", "t() takes at most 2 dimensions"),
    (lambda: F.flatten(f(2, 3), 1, 0), ShapeError, RuntimeError, "flatten", "start_dim does not come after end_dim"),
    (lambda: torch.tensor(1.0).select(0, 0), DimensionError, IndexError, "select",
     "the tensor has at least one dimension"),
    (lambda: f(2).narrow(0, 1, 2), IndexOutOfRange, RuntimeError, "narrow", "the range lies within the dimension"),
    (lambda: f(2).split(0), ArgumentError, RuntimeError, "split", "a split size is positive"),
    (lambda: f(2).split([1, 2]), ShapeError, RuntimeError, "split", "sections add up to the size"),
    (lambda: f(2).chunk(0), ArgumentError, RuntimeError, "chunk", "there is at least one chunk"),
    (lambda: f(2).mT, ShapeError, RuntimeError, "mT", "matrices have at least 2 dimensions"),
    # indexing
    (lambda: f(2)[0, 0], DimensionError, IndexError, "index", "there is at most one index per dimension"),
    (lambda: f(2)[2], IndexOutOfRange, IndexError, "index", "an index lies between -2 and 1"),
    (lambda: f(2)[::-1], ArgumentError, ValueError, "index", "slice steps are positive"),
    (lambda: f(2)["0"], ArgumentTypeError, TypeError, "index",
     "an index is made of ints, slices, None, Ellipsis, lists and tensors"),
    (lambda: f(2)[{}], IndexDtypeError, IndexError, "index",
     "an index is made of ints, slices, None, Ellipsis, lists and tensors"),
    (lambda: f(2).__setitem__(0, "1"), ArgumentTypeError, TypeError, "setitem",
     "elements are set to a number or a tensor"),
    (lambda: f(2)[i(2)], IndexOutOfRange, IndexError, "index", "an index lies between -2 and 1"),
    (lambda: f(2)[f(1)], IndexDtypeError, IndexError, "index", "tensors that index are of integers or bools"),
    (lambda: f(2, 2)[i(0, 1), i(0, 1, 0)], IndexOutOfRange, IndexError, "index",
     "index tensors broadcast to one shape"),
    (lambda: f(2)[f(3) > 0], IndexOutOfRange, IndexError, "index",
     "a mask has the shape of the dimensions that it indexes"),
    (lambda: f(2)[i(0), i(0)], DimensionError, IndexError, "index", "there is at most one index per dimension"),
    (lambda: f(2).gather(0, f(2)), DtypeError, RuntimeError, "gather", "indices are integers"),
    (lambda: f(2).gather(0, torch.zeros(2, 1, dtype=torch.int64)), ShapeError, RuntimeError, "gather",
     "index has as many dimensions as input, and is nowhere larger except along dim"),
    (lambda: f(2).scatter_add(0, i(0), i(1)), DtypeError, RuntimeError, "scatter_add", "src and input have one dtype"),
    (lambda: f(2).index_select(0, torch.zeros(1, 1, dtype=torch.int64)), DimensionError, IndexError, "index_select",
     "the index is a vector"),
    (lambda: f(2).index_put((i(0),), i(1)), DtypeError, RuntimeError, "index_put", "values and input have one dtype"),
    (lambda: f(2).index_put((), f(1)), IndexOutOfRange, IndexError, "index_put", "there is at least one"),
    (lambda: f(2).index_put_([None], f(1)), IndexOutOfRange, IndexError, "index_put", "there is at least one"),
    # geometry, memory, and writing at positions
    (lambda: "a" in f(2), ArgumentError, RuntimeError, "contains", "elements are numbers or tensors"),
    (lambda: (leaf(2) * 2)[:1].detach_(), AutogradError, RuntimeError, "detach_",
     "Can't detach views in-place: a view has the history of its base"),
    (lambda: setattr(leaf(2), "data", i(1, 2)), AutogradError, RuntimeError, "data",
     "only floating-point and complex tensors have gradients"),
    (lambda: torch.empty(2, memory_format=torch.preserve_format), ArgumentError, RuntimeError, "empty",
     "there is no tensor whose format could be kept"),
    (lambda: torch.empty_strided((2, 3), (1,)), ShapeError, RuntimeError, "empty_strided",
     "every size has a stride, which is not negative"),
    (lambda: torch.empty_permuted((2, 3), (1, 1)), ShapeError, RuntimeError, "empty_permuted",
     "the layout lists every dimension once"),
    (lambda: f(2, 3).contiguous(memory_format=torch.channels_last), ShapeError, RuntimeError, "clone",
     "this format has 4 dimensions"),
    (lambda: f(2, 3).t().contiguous(memory_format=torch.preserve_format), ArgumentError, RuntimeError, "contiguous",
     "a format says how elements lie in memory"),
    (lambda: f(2, 3).contiguous(memory_format=3), ArgumentTypeError, TypeError, "contiguous",
     "a memory format is one of the four objects of that class"),
    (lambda: torch.ones(()).view(torch.uint8), ShapeError, RuntimeError, "view",
     "a dtype of another size needs a dimension"),
    (lambda: f(2, 3).t().view(torch.uint8), ShapeError, RuntimeError, "view",
     "the last dimension is contiguous for a dtype of another size"),
    (lambda: i(1, 2, 3).int().view(torch.int64), ShapeError, RuntimeError, "view",
     "size, strides and offset are multiples of 2"),
    (lambda: F.scatter(f(2), 0, i(0)), ArgumentTypeError, TypeError, "scatter", "what is written is given"),
    (lambda: F.scatter(f(2), 0, i(0), f(1), reduce="mean"), ArgumentError, RuntimeError, "scatter",
     "reduce is 'add' or 'multiply'"),
    (lambda: leaf(2).resize_(3), AutogradError, RuntimeError, "resize_", "a resized tensor has no history"),
    (lambda: f(2).resize_(-3), ShapeError, RuntimeError, "resize_", "sizes are not negative"),
    (lambda: F.isclose(f(2), i(1, 2)), DtypeError, RuntimeError, "isclose", "both tensors have one dtype"),
    (lambda: F.isclose(f(2), f(2), rtol=-1), ShapeError, RuntimeError, "isclose", "tolerances are not negative"),
    (lambda: f(2).unfold(0, 3, 1), ShapeError, RuntimeError, "unfold",
     "a window fits the dimension, and steps are positive"),
    (lambda: torch.ones(()).index_select(0, i(0, 0)), ShapeError, RuntimeError, "index_select",
     "a 0-dimensional tensor has one position"),
    (lambda: F.unflatten(f(6), 0, (4, -1)), ShapeError, RuntimeError, "unflatten",
     "the sizes multiply to the dimension's, with at most one -1"),
    (lambda: f(2, 3).sum_to_size(2, 2), ShapeError, RuntimeError, "sum_to_size",
     "the size broadcasts to the tensor's shape"),
    (lambda: F.select_scatter(f(2, 3), f(2), 0, 0), ShapeError, RuntimeError, "select_scatter",
     "src has the shape of the part"),
    (lambda: torch.broadcast_shapes((2, -1)), ShapeError, ValueError, "broadcast_shapes", "sizes are not negative"),
    (lambda: f(1).as_strided((1,) * 65, (1,) * 65), ShapeError, RuntimeError, "as_strided",
     "tensors have up to 64 of them"),
    (lambda: F.tensor_split(f(2), 0), ArgumentError, RuntimeError, "tensor_split", "there is at least one section"),
    (lambda: F.tensor_split(torch.ones(()), 1), ShapeError, RuntimeError, "tensor_split",
     "the tensor has at least one dimension"),
    (lambda: F.hsplit(f(3), 2), ShapeError, RuntimeError, "hsplit", "the size is a multiple of the number of sections"),
    (lambda: F.dsplit(f(3), 2), ShapeError, RuntimeError, "dsplit", "the tensor has at least 3 dimensions"),
    (lambda: leaf(2, 3).t_(), AutogradError, RuntimeError, "t_",
     "a leaf that requires grad is not modified while gradients are recorded"),
    (lambda: F.index_add(f(2), 0, i(0), i(1)), DtypeError, RuntimeError, "index_add",
     "source and input have one dtype"),
    (lambda: F.index_copy(f(2, 2), 0, i(0), f(2, 2)), DimensionError, IndexError, "index_copy",
     "source has the input's shape, with a place for every position along dim"),
    (lambda: F.index_copy(f(2, 2), 0, i(0), f(1, 3)), ShapeError, RuntimeError, "index_copy",
     "source has the input's shape, with a place for every position along dim"),
    (lambda: F.index_add(f(2, 2), 0, i(0), f(2, 2)), ShapeError, RuntimeError, "index_add",
     "source has the input's shape, with a place for every position along dim"),
    (lambda: F.narrow_copy(f(2, 2), 2, 0, 1), ShapeError, RuntimeError, "narrow_copy",
     "there is such a dimension"),
    (lambda: F.topk(f(3), 1, out=(f(1), f(1))), DtypeError, RuntimeError, "topk", "out has the result's dtype"),
    (lambda: F.index_fill(f(2), 0, f(1), 1), DimensionError, IndexError, "index_fill", "positions are int64"),
    (lambda: F.index_fill(f(2), 0, i(0), f(1)), ShapeError, RuntimeError, "index_fill",
     "the value is a number or a 0-dimensional tensor"),
    (lambda: F.put(f(2), i(0), i(1)), DtypeError, RuntimeError, "put", "source and input have one dtype"),
    (lambda: F.put(f(2), i(0), f(2)), DimensionError, IndexError, "put", "there is an element for every position"),
    (lambda: F.masked_select(f(2), f(2)), DtypeError, RuntimeError, "masked_select", "a mask is of bools"),
    (lambda: F.masked_scatter(f(2), f(2) > 0, i(1, 2)), DtypeError, RuntimeError, "masked_scatter",
     "source and input have one dtype"),
    (lambda: F.masked_scatter(f(2), f(2) > 0, f(1)), ShapeError, RuntimeError, "masked_scatter",
     "source has an element for every place of the mask"),
    (lambda: F.scatter_reduce(f(2), 0, i(0), f(1), "median"), ArgumentError, RuntimeError, "scatter_reduce",
     "reduce is one of sum, prod, mean, amax, amin"),
    (lambda: F.scatter_reduce(f(2), 0, i(0), i(1), "sum"), DtypeError, RuntimeError, "scatter_reduce",
     "src and input have one dtype"),
    (lambda: F.index_reduce(f(2), 0, i(0), f(1), "sum"), ArgumentError, RuntimeError, "index_reduce",
     "reduce is one of prod, mean, amax, amin"),
    (lambda: torch.set_printoptions(profile="long"), ArgumentError, RuntimeError, "set_printoptions",
     "the profile is 'default', 'short' or 'full'"),
    (lambda: f(2).set_([1.0]), ArgumentTypeError, TypeError, "set_", "the source is a tensor or a storage"),
    (lambda: f(2).set_(f(2).untyped_storage(), 1, (2,)), ArgumentError, RuntimeError, "set_",
     "a tensor stays within its storage"),
    (lambda: f(2).set_(torch.ones(2, device="ref:1")), DeviceMismatch, RuntimeError, "set_",
     "the storage is on the tensor's device"),
    (lambda: f(2).set_(i(1, 2)), DtypeError, RuntimeError, "set_", "the source has the tensor's dtype"),
    (lambda: f(2).type(3), ArgumentTypeError, TypeError, "type", "a type is a dtype, a class of tensors or its name"),
    (lambda: f(2).type("tensocket.Parameter"), ArgumentError, ValueError, "type",
     "a name is like 'tensocket.FloatTensor'"),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{case[3]}" for k, case in enumerate(CASES)])
def test_class_form_and_what_follows(case: Case, check_error: Callable[[Case], None]) -> None:
    check_error(case)
