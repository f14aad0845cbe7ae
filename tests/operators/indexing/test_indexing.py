"""``[]``, gather and scatter against NumPy; where NumPy and PyTorch differ, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    DimensionError,
    DtypeError,
    IndexOutOfRange,
    ShapeError,
)

VALUES = np.arange(60).reshape(3, 4, 5)


class Mark:
    """Builds an index for tensors or arrays: ``Mark(positions)`` is an index tensor or array."""

    def __init__(self, values, dtype="int64"):
        self.array = np.asarray(values, dtype)

    def tensor(self):
        return tc.tensor(self.array)


def of(index, kind):
    if isinstance(index, tuple):
        return tuple(of(part, kind) for part in index)
    return (
        getattr(index, kind)
        if isinstance(index, Mark) and kind == "array"
        else index.tensor()
        if isinstance(index, Mark)
        else index
    )


ALL = slice(None)
BASIC = [
    1,
    -1,
    np.int64(1),
    slice(1, None),
    slice(-2, None),
    slice(None, None, 2),
    slice(2, 1),
    slice(1, 100),
    None,
    ...,
    (..., 0),
    (0, ...),
    (0, ..., 1),
    (None, ..., None),
    (0, 1, 2),
    (slice(0, 2), 1, slice(None, None, 2)),
    (ALL, None, 1),
    (),
    (0, 1, 2, ...),
]
ADVANCED = [
    Mark([0, 2]),
    Mark([-1, 0]),
    Mark([[0, 1], [2, 0]]),
    Mark([0, 2], "int32"),
    Mark(np.zeros(0)),
    (Mark([0, 2]), Mark([1, 3])),
    (Mark([0, 2]), Mark([1, 3]), Mark([4, 0])),
    (Mark([[0], [2]]), Mark([1, 3])),
    (ALL, Mark([1, 3])),
    (ALL, ALL, Mark([1, 3])),
    (Mark([0, 2]), ALL, Mark([1, 3])),
    (Mark([0, 2]), slice(1, 3)),
    (..., Mark([1, 3])),
    (Mark([0, 1]), ...),
    (Mark([0, 1]), ..., Mark([0, 1])),
    (None, Mark([0, 2])),
    (Mark([0, 2]), None),
    (Mark([0, 2]), None, Mark([1, 3])),
    (ALL, None, Mark([0, 2])),
    (1, Mark([0, 2])),
    (Mark([0, 2]), 1),
    (ALL, 1, Mark([0, 2])),
    [0, 2],
    ([0, 1], [1, 2]),
    ([0, 2], slice(1, 2)),
    [True, False, True],
    Mark([True, False, True], bool),
    Mark(VALUES % 7 == 0, bool),
    Mark(VALUES[..., 0] % 2 == 0, bool),
    Mark([False] * 3, bool),
    (Mark([True, False, True], bool), slice(1, 3)),
    (ALL, Mark([True, False, True, False], bool)),
    (Mark([True, False, True], bool), Mark([0, 1])),
    (Mark([True, False, True], bool), Mark([True, False, False, True], bool)),
    (..., Mark([True, False, True, False, False], bool)),
    (ALL, Mark(VALUES[0] % 7 == 0, bool)),
    np.array([0, 2]),
    (ALL, Mark([[3, 0], [-1, 2]])),
    (ALL, Mark([3]), ALL),
    ([0, 2], Mark([1, 3])),
    (Mark([0, 2]), [1, 3], ALL),
]
IDS = {id(index): str(k) for k, index in enumerate([*BASIC, *ADVANCED])}


def base(dtype=tc.float32):
    return tc.arange(60, dtype=dtype).reshape(3, 4, 5)


@pytest.mark.parametrize("index", BASIC, ids=str)
def test_basic_indices_are_views(device, near, index):
    x = base()
    y = x[index]
    near(y, VALUES[index])
    x.fill_(-1)
    assert set(np.ravel(y.tolist())) <= {-1.0}


@pytest.mark.parametrize("index", range(len(ADVANCED)))
@pytest.mark.parametrize("layout", ["contiguous", "permuted"])
def test_index_tensors_copy(device, near, index, layout):
    x, values = base(), VALUES
    if layout == "permuted":
        x, values = tc.arange(60.0).reshape(5, 4, 3).permute(2, 1, 0), np.arange(60).reshape(5, 4, 3).transpose(2, 1, 0)
    y = x[of(ADVANCED[index], "tensor")]
    near(y, values[of(ADVANCED[index], "array")])
    x.fill_(-1)
    assert -1 not in np.ravel(y.tolist())


@pytest.mark.parametrize("name", ["bool", "uint8", "int16", "int64", "float16", "float64"])
def test_every_dtype_is_indexed(device, make, near, name):
    values = VALUES % 2 if name == "bool" else VALUES
    x = make(values, name)
    near(x[:, tc.tensor([3, 1])], values[:, [3, 1]].astype(bool if name == "bool" else int), dtype=name)
    x[tc.tensor([0, 2]), 1] = 1
    expected = values.copy()
    expected[[0, 2], 1] = 1
    near(x, expected.astype(bool if name == "bool" else int))


@pytest.mark.parametrize("index", [*BASIC, *ADVANCED], ids=lambda index: IDS[id(index)])
@pytest.mark.parametrize("value", [7.5, np.array([1.0, 2, 3, 4, 5])], ids=["number", "row"])
def test_items_are_set(device, near, index, value):
    x, expected = base(), VALUES.astype(np.float64)
    given = value if isinstance(value, float) else tc.tensor(value, dtype=tc.float32)
    try:
        expected[of(index, "array")] = value
    except ValueError:
        with pytest.raises(ShapeError, match=r"^\[\w+\] "):
            x[of(index, "tensor")] = given
        near(x, VALUES)
        return
    x[of(index, "tensor")] = given
    near(x, expected)


@pytest.mark.parametrize("index", range(len(ADVANCED)))
def test_items_of_other_layouts_are_set(device, near, index):
    x, expected = tc.zeros(5, 4, 3).permute(2, 1, 0), np.zeros((3, 4, 5))
    x[of(ADVANCED[index], "tensor")] = -1
    expected[of(ADVANCED[index], "array")] = -1
    near(x, expected)


def test_where_pytorch_differs_from_numpy(near):
    x = base()
    # Ints are applied first, so that a slice between an int and an index tensor moves nothing.
    near(x[1, :, tc.tensor([0, 2])], VALUES[1][:, [0, 2]])
    near(x[tc.tensor(1), :, tc.tensor([0, 2])], VALUES[1][:, [0, 2]])
    # A list with nested lists or tensors is a tuple.
    near(x[[[0, 1], [2, 0]]], VALUES[[0, 1], [2, 0]])
    near(x[[tc.tensor(0), tc.tensor(2)]], VALUES[0, 2])
    # uint8 is a mask.
    with pytest.warns(UserWarning, match=r"\[index\] a mask of dtype uint8 — .* are deprecated"):
        near(x[tc.tensor([0, 1, 1], dtype=tc.uint8)], VALUES[1:])
    # Of no dimensions, it is True or False.
    near(x[tc.tensor(2, dtype=tc.uint8)], VALUES[None])
    assert x[tc.tensor(0, dtype=tc.uint8)].shape == (0, 3, 4, 5)
    # Other sequences are index tensors.
    near(x[range(2), 1], VALUES[[0, 1], 1])
    near(x[(0, 2), ...], VALUES[[0, 2]])
    # A second Ellipsis takes nothing.
    near(x[..., ...], VALUES)


def test_truth_values_add_a_dimension(device, near):
    x = base()
    assert x[True].shape == (1, 3, 4, 5)
    assert x[False].shape == (0, 3, 4, 5)
    assert x[True, 0].shape == (1, 4, 5)
    assert x[0, True].shape == (1, 4, 5)
    assert x[tc.tensor(True), 1:].shape == (1, 2, 4, 5)
    y = tc.tensor(2.0)
    assert y[tc.tensor(False)].shape == (0,)
    y[tc.tensor(True)] = 5
    assert y.item() == 5.0
    x[False] = 9
    near(x, VALUES)


def test_zero_dimensional_tensors():
    x = tc.tensor(2.0)
    assert x[()].item() == x[...].item() == 2.0
    assert x[None].shape == (1,)
    x[()] = 3
    x[...] = x + 1
    assert x.item() == 4.0
    with pytest.raises(DimensionError, match=r"\[index\]"):
        x[0]


def test_tensors_without_elements(device):
    x = tc.zeros(0, 3)
    nothing = tc.zeros(0, dtype=tc.int64)
    assert x[nothing].shape == (0, 3)
    assert x[:, 1].shape == (0,)
    assert tc.zeros(3, 0)[tc.tensor([0, 2])].shape == (2, 0)
    assert tc.zeros(4)[nothing].shape == (0,)
    x[nothing] = 1
    with pytest.raises(IndexOutOfRange):
        x[tc.tensor([0])]


def test_set_from_itself(device, near):
    x = tc.arange(6.0)
    x[1:] = x[:-1].clone()
    assert x.tolist() == [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    with pytest.raises(ShapeError, match=r"\[copy_\] an operand in the memory of the tensor of shape \[5\]"):
        x[1:] = x[:-1]
    x[:3].add_(x[1::2])
    assert x.tolist() == [0.0, 2.0, 5.0, 2.0, 3.0, 4.0]
    x[tc.tensor([0, 1])] = x[tc.tensor([1, 0])]
    assert x.tolist()[:2] == [2.0, 0.0]


def test_values_are_converted_and_trimmed(device):
    x = tc.zeros(3, dtype=tc.int64)
    x[0] = 2.9
    x[1:] = tc.tensor([1.5, 2.5])
    assert x.tolist() == [2, 1, 2]
    x[tc.tensor([0])] = tc.tensor(7.0)
    x[:] = tc.ones(1, 1, 3)
    x[tc.tensor([1])] = tc.full((1, 1, 1), 9)
    assert x.tolist() == [1, 9, 1]


def test_writing_at_indices_does_not_copy_the_tensor(device):
    x = tc.zeros(4, 3)
    before = x.data_ptr()
    x[tc.tensor([1, 3])] = 1
    assert x.data_ptr() == before
    assert x._version == 1
    view = x[2:]
    view[tc.tensor([0])] = 5
    assert x.sum(1).tolist() == [0.0, 3.0, 15.0, 3.0]


def test_gather_and_scatter(device, near):
    x = VALUES[0].astype(float)
    index = np.array([[0, 3, 3], [1, 1, 4], [2, 0, 0], [4, 4, 4]])
    near(tc.gather(tc.tensor(x), 1, tc.tensor(index)), np.take_along_axis(x, index, 1))
    near(tc.tensor(x).gather(-2, tc.tensor(index[:2] % 4)), x[index[:2] % 4, np.arange(3)])
    places = np.array([[0, 3, 1], [1, 2, 4], [2, 0, 3], [4, 0, 1]])
    expected = x.copy()
    np.put_along_axis(expected, places, 7.0, 1)
    near(tc.tensor(x).scatter(1, tc.tensor(places), 7.0), expected)
    source = np.arange(12.0).reshape(4, 3)
    expected = x.copy()
    np.put_along_axis(expected, places, source, 1)
    y = tc.tensor(x)
    assert y.scatter_(1, tc.tensor(places), tc.tensor(source)) is y
    near(y, expected)


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"])
def test_duplicates_add_up(device, make, near, name):
    index = np.array([[0, 0, 1], [1, 1, 1], [2, 0, 2]])
    source = np.arange(9).reshape(3, 3)
    expected = np.ones((3, 4), int)
    for row in range(3):
        for column in range(3):
            expected[row, index[row, column]] += source[row, column]
    near(make(np.ones((3, 4)), name).scatter_add(1, make(index, "int64"), make(source, name)), expected, dtype=name)
    expected = np.zeros(4, int)
    np.add.at(expected, [1, 1, 3], [1, 2, 4])
    y = make(np.zeros(4), name)
    y.index_put_((make([1, 1, 3], "int64"),), make([1, 2, 4], name), accumulate=True)
    near(y, expected)


def test_index_select_and_put(device, near):
    x = tc.tensor(VALUES)
    near(x.index_select(1, tc.tensor([3, 0, 3])), VALUES[:, [3, 0, 3]])
    near(x.index_select(-1, tc.tensor(2)), VALUES[..., 2:3])
    assert tc.tensor(4).index_select(0, tc.tensor([0])).item() == 4
    expected = VALUES.copy()
    expected[[0, 2]] = 1
    near(x.index_put((tc.tensor([0, 2]),), tc.tensor(1)), expected)
    near(x, VALUES)


def test_nonzero(device):
    values = np.array([[0, 1, 0], [2, 0, 3]])
    assert tc.tensor(values).nonzero().tolist() == np.argwhere(values).tolist()
    assert [x.tolist() for x in tc.nonzero(tc.tensor(values), as_tuple=True)] == [
        x.tolist() for x in np.nonzero(values)
    ]
    assert tc.tensor(5).nonzero().shape == (1, 0)
    assert tc.tensor(0).nonzero().shape == (0, 0)
    assert tc.tensor(5).nonzero(as_tuple=True)[0].tolist() == [0]
    assert tc.zeros(0, 2).nonzero().shape == (0, 2)
    assert [x.tolist() for x in tc.where(tc.tensor([True, False, True]))] == [[0, 2]]


ERRORS = {
    "beyond": (lambda x: x[3], IndexOutOfRange),
    "before": (lambda x: x[-4], IndexOutOfRange),
    "too many": (lambda x: x[0, 0, 0, 0], DimensionError),
    "slices too many": (lambda x: x[:, :, :, :], DimensionError),
    "negative step": (lambda x: x[::-1], ArgumentError),
    "step 0": (lambda x: x[::0], ArgumentError),
    "tensor beyond": (lambda x: x[tc.tensor([0, 3])], IndexOutOfRange),
    "tensor before": (lambda x: x[tc.tensor([-4])], IndexOutOfRange),
    "float tensor": (lambda x: x[tc.tensor([0.0])], DtypeError),
    "shapes": (lambda x: x[tc.tensor([0, 1]), tc.tensor([0, 1, 2])], IndexOutOfRange),
    "tensors too many": (lambda x: x[tc.tensor([0]), 0, 0, tc.tensor([0])], DimensionError),
    "slices and a tensor too many": (lambda x: x[:, tc.tensor([0]), :, :], DimensionError),
    "tensor behind the last": (lambda x: x[:, :, :, tc.tensor([0])], DimensionError),
    "tensor before in the middle": (lambda x: x[:, tc.tensor([-5])], IndexOutOfRange),
    "mask": (lambda x: x[tc.tensor([True, False])], IndexOutOfRange),
    "text": (lambda x: x["a"], ArgumentTypeError),
    "float": (lambda x: x[1.0], IndexError),
    "set list": (lambda x: x.__setitem__(0, [1.0]), ArgumentTypeError),
    "set shape": (lambda x: x.__setitem__(0, tc.zeros(3)), ShapeError),
    "set dtype": (lambda x: x.__setitem__(tc.tensor([0]), tc.zeros(4, 5, dtype=tc.float64)), DtypeError),
    "set rows": (lambda x: x.__setitem__(tc.tensor([0, 1]), tc.zeros(3, 4, 5)), ShapeError),
    "gather rank": (lambda x: x.gather(0, tc.tensor([0])), ShapeError),
    "gather size": (lambda x: x.gather(0, tc.zeros(1, 5, 5, dtype=tc.int64)), ShapeError),
    "gather beyond": (lambda x: x.gather(2, tc.full((1, 1, 1), 5)), IndexOutOfRange),
    "gather before": (lambda x: x.gather(2, tc.full((1, 1, 1), -1)), IndexOutOfRange),
    "gather dtype": (lambda x: x.gather(0, tc.zeros(1, 1, 1)), DtypeError),
    "gather dim": (lambda x: x.gather(3, tc.zeros(1, 1, 1, dtype=tc.int64)), DimensionError),
    "scatter dtype": (
        lambda x: x.scatter(0, tc.zeros(1, 1, 1, dtype=tc.int64), tc.zeros(1, 1, 1, dtype=tc.float64)),
        DtypeError,
    ),
    "scatter source": (lambda x: x.scatter(0, tc.zeros(1, 2, 1, dtype=tc.int64), tc.zeros(1, 1, 1)), ShapeError),
    "select matrix": (lambda x: x.index_select(0, tc.zeros(1, 1, dtype=tc.int64)), DimensionError),
    "select beyond": (lambda x: x.index_select(1, tc.tensor([4])), IndexOutOfRange),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name, near):
    call, kind = ERRORS[name]
    x = base()
    with pytest.raises(kind, match=r"^\[\w+\] .+ — .+ — .+"):
        call(x)
    near(x, VALUES)


@pytest.mark.parametrize("form", ["index_select", "subscript"])
def test_many_rows_at_once(form, host):
    rng = np.random.default_rng(3)
    values, places = rng.standard_normal((70, 160)).astype(np.float32), rng.integers(0, 70, 900)
    x = tc.tensor(values)

    def rows(tensor, index):
        return tensor.index_select(0, index) if form == "index_select" else tensor[index]

    np.testing.assert_array_equal(host(rows(x, tc.tensor(places))), values[places])
    np.testing.assert_array_equal(host(rows(x[:, ::2], tc.tensor(places))), values[:, ::2][places])
    np.testing.assert_array_equal(host(rows(x, tc.tensor(places)[::3])), values[places[::3]])
    if form == "subscript":
        np.testing.assert_array_equal(host(x[tc.tensor(places - 70)]), values[places - 70])
    for wrong in (70, -71):
        bad = places.copy()
        bad[-1] = wrong
        with pytest.raises(IndexError):
            rows(x, tc.tensor(bad))


@pytest.mark.parametrize(("shape", "index", "strides"), [
    ((1, 3), (slice(None), [2, 0]), (2, 1)), ((1, 3, 1), (slice(None), [0, 1]), (2, 1, 1)),
    ((1, 5, 1), (slice(None), [[1, 2]]), (2, 2, 1, 1)), ((2, 1, 3), (slice(None), slice(None), [0, 2]), (2, 2, 1)),
    ((1, 4, 2), (slice(None), [1]), (2, 2, 1)),
])
def test_dimensions_of_size_one_have_the_strides_of_a_new_tensor(shape, index, strides):
    x = tc.arange(np.prod(shape)).reshape(shape)
    chosen = x[tuple(tc.tensor(part) if isinstance(part, list) else part for part in index)]
    assert chosen.stride() == strides
    assert chosen.tolist() == np.arange(np.prod(shape)).reshape(shape)[index].tolist()


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("size", [4, 40000])
@pytest.mark.parametrize(("target", "source"), [
    ((...,), 0), ((slice(None),), slice(-1, None)), ((slice(1, None),), 0), ((Mark([], "bool"),), 1),
    ((...,), (None, slice(None))),
])
def test_items_are_set_to_a_part_of_the_tensor_itself(target, source, size, grad):
    near = np.arange(float(size))
    mask = near > 1
    x = tc.tensor(near, requires_grad=grad) * 1
    masked = isinstance(target[0], Mark)
    x[(tc.tensor(mask),) if masked else target] = x[source]
    near[mask if masked else target] = np.array(near[source])
    assert x.tolist() == near.tolist()


@pytest.mark.parametrize("index", [
    np.s_[[0, 2]], np.s_[:, [0, 2]], np.s_[..., [1, -1, 0]], np.s_[[0, 1], ..., [1, 0]], np.s_[:, None, [3]],
    np.s_[..., [0, 4], None], np.s_[::2, [-1]], np.s_[[2, 0], [1, 1]], np.s_[[0, 1], ...], np.s_[1:, :, [0, 0, 2]],
])
def test_lists_of_ints(index, device):
    x = tc.tensor(VALUES, device=device)
    chosen = x[index]
    assert chosen.tolist() == VALUES[index].tolist()
    chosen.zero_()
    assert x.tolist() == VALUES.tolist()


@pytest.mark.parametrize("index", [np.s_[[0, 3]], np.s_[:, [-5]], np.s_[..., [5]]])
def test_lists_out_of_range(index, device):
    with pytest.raises(IndexOutOfRange, match=r"^\[index.*\] index .+ — an index lies between .+ — .+"):
        tc.tensor(VALUES, device=device)[index]
    assert tc.tensor(VALUES, device=device)[..., [0]].tolist() == VALUES[..., [0]].tolist()


@pytest.mark.parametrize("part", [[1 << 70], [2, "a"], [{}]])
def test_lists_that_are_no_indices(part, device):
    rule = "an index is made of ints within 64 bits, and bools — convert it to one of these"
    with pytest.raises(IndexError, match=rf"^\[index\] values of dtype .+ — {rule}$"):
        tc.tensor(VALUES, device=device)[:, part]


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gather_at_expanded_and_turned_indices(dim, device):
    x = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    column = np.array([[[1], [0], [1]], [[0], [1], [0]]])
    for index in (np.broadcast_to(column, x.shape), np.ones((4, 3, 2), np.int64).T):
        wide = tc.tensor(column, device=device).expand(2, 3, 4) if index.strides[-1] == 0 else (
            tc.ones(4, 3, 2, dtype=tc.int64, device=device).permute(2, 1, 0))
        for _ in range(3):
            assert tc.tensor(x, device=device).gather(dim, wide).tolist() == np.take_along_axis(x, index, dim).tolist()
    with pytest.raises(IndexOutOfRange, match=r"^\[gather\] index \d .+ — .+ — .+"):
        tc.tensor(x, device=device).gather(dim, tc.tensor(column + 5, device=device).expand(2, 3, 4))
