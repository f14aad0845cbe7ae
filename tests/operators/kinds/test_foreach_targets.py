"""Targets that a rule over lists remembers: later calls compute the same with any other operands."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators.kinds.foreach import ListFunction
from tensocket_operators.kinds.foreach_targets import CheckedTargets
from tensocket_operators.kinds.step_counts import increase_steps

SHAPES = [(2, 3), (4,)]


def fresh(shape, seed):
    return torch.tensor(np.random.default_rng(seed).normal(size=shape), dtype=torch.float32)


#: Gradients of both targets, from the targets.
OPERANDS = {
    "dense": lambda p, q: (fresh((2, 3), 1), fresh((4,), 2)),
    "strided": lambda p, q: (fresh((3, 2), 1).t(), fresh((8,), 2)[::2]),
    "expanded": lambda p, q: (fresh((1, 3), 1).expand(2, 3), fresh((1,), 2).expand(4)),
    "broadcast": lambda p, q: (fresh((3,), 1), fresh((1,), 2)),
    "of one memory": lambda p, q: (lambda base: (base[:6].view(2, 3), base[4:8]))(fresh((64,), 7)),
    "the target itself": lambda p, q: (p, q),
    "the other target's memory": lambda p, q: (fresh((2, 3), 1), p.view(6)[1:5]),
    "one shape for all": lambda p, q: (fresh((2, 3), 1), fresh((), 2)),
    "reversed": lambda p, q: (fresh((2, 3), 1).flip(0), fresh((4,), 2).flip(0)),
}


@pytest.mark.parametrize("name", OPERANDS)
@pytest.mark.parametrize("again", [False, True])
def test_operands_after_a_first_call(name, again):
    function = ListFunction("step", lambda p, g, rate: (p - g * rate,))
    targets = [fresh(shape, k) for k, shape in enumerate(SHAPES)]
    wanted = [x._values().astype(np.float64) for x in targets]
    for call in range(3 + again):
        operands = OPERANDS[name if call == 2 or (again and call == 1) else "dense"](*targets)
        shares = operands[1]._base is targets[0]
        for k, operand in enumerate(operands):  # rows run in order where they share memory
            values = wanted[0].reshape(6)[1:5] if k and shares else operand._values().astype(np.float64)
            wanted[k] = wanted[k] - values * 0.5
        function([targets, list(operands)], (0.5,))
        for x, value in zip(targets, wanted, strict=True):
            np.testing.assert_allclose(x._values(), value, 1e-5, 1e-6)
    assert [x._version for x in targets] == [3 + again] * 2


def test_other_targets_and_lists_of_other_lengths():
    function = ListFunction("double", lambda p: (p * 2,))
    first = [fresh(shape, k) for k, shape in enumerate(SHAPES)]
    sums = [x._values().sum() for x in first]
    function([first])
    function([first[:1]])
    function([[first[0], fresh((5,), 9)]])
    function([[*first, fresh((5,), 9)]])
    function([first[::-1]])
    assert [float(x._values().sum()) for x in first] == pytest.approx([32 * sums[0], 8 * sums[1]], 1e-5)


def test_targets_are_not_kept_alive():
    known = CheckedTargets()
    arrays = [np.zeros(3, np.float32), np.zeros(4, np.float32)]
    known.note([arrays], (0,))
    assert known.admits([arrays], (0,))
    (references, _, _), = known._known.values()
    arrays.clear()
    gc.collect()
    assert [r() for r in references] == [None, None]


def test_few_sets_are_remembered():
    known = CheckedTargets()
    kept = [np.zeros(2, np.float32) for _ in range(100)]
    for x in kept:
        known.note([[x]], (0,))
    assert len(known._known) == 64
    assert known.admits([[kept[-1]]], (0,))
    assert not known.admits([[kept[0]]], (0,))


def test_shared_memory_is_not_remembered():
    known = CheckedTargets()
    base = np.zeros(8, np.float32)
    known.note([[base[:4], base[4:]]], (0,))
    assert not known._known


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_steps_are_increased_and_read(device, dtype):
    counts = [torch.full((), k, dtype=getattr(torch, dtype), device=device) for k in (0.0, 3.0, 3.0)]
    for call in (1, 2, 3):
        assert increase_steps(counts) == [call, 3 + call, 3 + call]
        assert [x.item() for x in counts] == [call, 3 + call, 3 + call]
    assert [x._version for x in counts] == [3] * 3


def test_large_steps_round_as_sums_of_their_dtype():
    counts = [torch.tensor(2.0 ** 24), torch.tensor(2.0 ** 53, dtype=torch.float64)]
    assert increase_steps(counts[:1]) + increase_steps(counts[1:]) == [2.0 ** 24, 2.0 ** 53]


def test_steps_that_share_memory():
    base = torch.zeros(2)
    counts = [base[0], base[1]]
    assert increase_steps(counts) == [1.0, 1.0]
    assert base.tolist() == [1.0, 1.0]
    one = torch.zeros(())
    assert increase_steps([one, one]) == [2.0, 2.0]
