"""Tensors that get another array while operators use them: an operator computes with the one that it read first."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tensocket as torch
from tensocket_operators.kinds.private import own, private
from tensocket_plugins.contract.errors import ArgumentError, ShapeError

#: A tensor that has a large array and a small one in turn, which is what a program sees when threads exchange it.
CHANGING = """
import numpy as np
import tensocket as torch

F = torch.nn.functional
SLOT = torch.Tensor.__dict__["_array"]

class Changing(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl

    @property
    def _array(self):
        arrays = self.__dict__.get("arrays") or [SLOT.__get__(self)]
        self.__dict__["reads"] = self.__dict__.get("reads", 0) + 1
        return arrays[self.__dict__["reads"] % len(arrays)]

    @_array.setter
    def _array(self, value):
        SLOT.__set__(self, value)

def changing(*arrays):
    x = object.__new__(Changing)
    like = torch.from_numpy(arrays[0])
    x._key, x._grad, x._grad_fn, x._base, x._version_counter = like._key, None, None, None, None
    x.__dict__["arrays"] = arrays
    return x
"""

EVERY_OPERATOR = CHANGING + """
index, rows = torch.zeros(1, 1, dtype=torch.int64), torch.tensor([0, 1])
OPERATORS = [
    lambda x: x.softmax(-1), lambda x: x.softmax(0), lambda x: x.sort(-1), lambda x: x.sort(0), lambda x: x.argsort(0),
    lambda x: x.sum(-1), lambda x: x.sum(0), lambda x: x.var(-1), lambda x: x.cumsum(0), lambda x: x.cummax(0),
    lambda x: x.topk(2), lambda x: x.median(-1), lambda x: x.kthvalue(2), lambda x: x + x, lambda x: x * 2,
    lambda x: torch.where(x > 0.5, x, x), lambda x: F.layer_norm(x, x.shape[-1:]), lambda x: x @ x.T,
    lambda x: x.clone(), lambda x: x.double(), lambda x: torch.cat([x, x]), lambda x: torch.stack([x, x]),
    lambda x: x.flip(0), lambda x: x.roll(3, 1), lambda x: F.pad(x, (1, 2)), lambda x: x.gather(0, index),
    lambda x: x[[0, 1]], lambda x: x.index_select(1, rows), lambda x: F.max_pool2d(x[None, None], 2),
    lambda x: F.conv2d(x[None, None], torch.ones(1, 1, 3, 3)), lambda x: F.conv1d(x[None], torch.ones(2, len(x), 3)),
    lambda x: F.cross_entropy(x, torch.zeros(len(x), dtype=torch.int64)), lambda x: x.repeat_interleave(2, 0),
    lambda x: F.batch_norm(x, None, None, training=True), lambda x: F.scaled_dot_product_attention(x, x, x),
    lambda x: F.embedding(rows, x), lambda x: x.scatter(0, index, 1.0), lambda x: x.scatter_add(0, index, x),
    lambda x: x.index_put((rows,), torch.tensor(1.0)), lambda x: x.as_strided((2, 2), (1, 1)).sum(),
    lambda x: torch.zeros_like(x), lambda x: torch.rand_like(x), lambda x: x.quantile(0.3), lambda x: x.unique(),
    lambda x: x.addcmul(x, x), lambda x: x.lerp(x, 0.5), lambda x: torch._foreach_add([x, x], 1.0),
    lambda x: x.add_(1), lambda x: x.mul_(x), lambda x: x.copy_(x), lambda x: x.fill_(1), lambda x: x.zero_(),
    lambda x: x.index_put_((rows,), torch.tensor(1.0)), lambda x: x.put_(rows, torch.tensor([1.0, 2.0])),
]
large, small = np.ones((700, 800), np.float32), np.ones((2, 3), np.float32)
for operator in OPERATORS:
    for arrays in ((large, small), (small, large), (large, small, small), (small, small, large), (large.T, small)):
        try:
            operator(changing(*arrays))
        except (RuntimeError, IndexError, ValueError, TypeError):
            pass
print("all done")
"""

READ_ONCE = CHANGING + """
x, y = np.arange(60000, dtype=np.float32).reshape(200, 300) / 60000, np.ones((2, 3), np.float32)
for operator in (
    lambda x: x.softmax(-1), lambda x: x.softmax(0), lambda x: x.argsort(-1), lambda x: x.sum(0), lambda x: x.exp(),
    lambda x: x.cumsum(0), lambda x: x.clone(), lambda x: x.double(), lambda x: x.amax(1), lambda x: x.argmax(0),
):
    expected, given = operator(torch.from_numpy(x)), operator(changing(y, x))
    assert given.shape in (expected.shape, operator(torch.from_numpy(y)).shape)
    assert given.shape != expected.shape or np.array_equal(given.numpy(), expected.numpy())
print("all done")
"""


@pytest.mark.parametrize("program", [EVERY_OPERATOR, READ_ONCE], ids=["every operator", "values"])
def test_a_tensor_that_changes_while_operators_read_it_does_no_harm(program):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True,
                          text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "all done\n"), done.stderr


def test_functions_get_tensors_of_their_own():
    seen = []

    def run(x, values, number):
        seen.extend([x, *values])
        return x if number else torch.zeros(1)

    x, y = torch.ones(2, device="cpu"), torch.ones(3, device="cpu")
    assert private("f", run)(x, [y], 1) is x, "a result that is an argument is the caller's"
    assert private("f", run)(x, [y], 0) is not x
    assert all(a is not b for a in seen for b in (x, y))
    assert np.shares_memory(seen[0].numpy(), x.numpy())
    assert np.shares_memory(seen[1].numpy(), y.numpy())
    seen[0].add_(1)
    assert x.tolist() == [2, 2]
    assert x._version == 1


def test_a_dtype_that_changes_meanwhile_is_refused():
    x = torch.ones(2, device="cpu")
    x._array = np.ones(2)
    rule = "no other thread changes a tensor's dtype while it is used"
    with pytest.raises(ArgumentError, match=f"a tensor that turns from float64 to float32 — {rule}"):
        own("add", x)


def test_indices_that_change_meanwhile_stay_within_the_tensor():
    # As if another thread wrote to the index between the check and the kernel.
    from tensocket_core.dispatch.call import call
    from tensocket_operators.indexing.gather_scatter import gather_valid, scatter_valid

    x, far = torch.arange(12.0, device="cpu").reshape(3, 4), torch.tensor([[1 << 40, -(1 << 40), 1, 0]], device="cpu")
    assert call(gather_valid, x, 0, far).tolist() == [[8, 1, 6, 3]]
    written = call(scatter_valid, x, 0, far, torch.full((1, 4), -1.0, device="cpu"), False)
    assert written.tolist() == [[0, -1, 2, -1], [4, 5, -1, 7], [-1, 9, 10, 11]]


def test_operands_that_stopped_fitting_since_they_were_checked_are_refused():
    from tensocket_core.dispatch.call import call
    from tensocket_operators.indexing.gather_scatter import gather_valid, scatter_valid, sum_at
    from tensocket_operators.nn.convolution.convolution import Window, convolve, convolve_input, convolve_weight

    index, x = torch.zeros(3, 2, dtype=torch.int64), torch.ones(2, 2)
    for wrong in (lambda: call(gather_valid, x, 1, index), lambda: call(gather_valid, torch.ones(2), 0, index),
                  lambda: call(scatter_valid, x, 0, index, x, False), lambda: call(sum_at, x, index, 0, (5, 2), False)):
        with pytest.raises(ShapeError, match="the index is nowhere larger except along dim"):
            wrong()
    image, weight, window = torch.ones(1, 2, 5), torch.ones(3, 2, 3), Window((1,), (0,), (1,), 1)
    for wrong in (lambda: call(convolve, image, weight[:, :1], window),
                  lambda: call(convolve_input, torch.ones(1, 3, 4), weight, window, (5,)),
                  lambda: call(convolve_weight, torch.ones(1, 3, 4), image, window, (3,))):
        with pytest.raises(ShapeError, match="the operands' shapes fit together"):
            wrong()
