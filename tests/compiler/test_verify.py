"""Verification of operations: each invariant, broken, is an error with the name of the pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tensocket as torch
from tensocket_compiler.capture.layout import LAYOUT
from tensocket_compiler.capture.recorder import Recorder
from tensocket_compiler.passes.pipeline import PASSES, run_passes
from tensocket_compiler.passes.verify import VERIFICATION, verify
from tensocket_plugins.contract.errors import CompileError

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")


@pytest.fixture
def recorded():
    """``exp``, ``add_`` and ``sum`` of a captured tensor, and the region of the sum."""
    x = torch.arange(6.0)

    def function():
        y = x.exp()
        y.add_(1)
        return y.sum() * torch.ones(())
    recorder = Recorder()
    with recorder:
        result = function()
    operations = recorder.recording.operations
    assert [operation.name for operation in operations] == ["exp", "add_", "sum", "mul"]
    return operations, [recorder.region(result)]


def assert_refused(operations, results, message):
    with pytest.raises(CompileError, match=message) as caught:
        verify("a pass", operations, [], results)
    assert str(caught.value).startswith("[a pass] ")
    assert str(caught.value).endswith("report the program; torch.compiler.disable keeps it eager")


def test_recorded_operations_pass(recorded):
    verify("record", recorded[0], [], recorded[1])


def test_reads_of_memory_that_nothing_made(recorded):
    operations, results = recorded
    assert_refused([operations[0], *operations[3:]], results,
                   r"reads t\d.* — an operation before makes what an operation reads")
    assert_refused([operations[0], operations[2], operations[1]][::-1], results, r"reads t\d")


def test_memory_of_arguments_is_there(recorded):
    (exp, _, *rest), results = recorded
    verify("a pass", rest, [exp.results[0]], results)
    assert_refused(rest, results, "reads t")


def test_modified_memory_must_exist(recorded):
    (_, add, *_), results = recorded
    written = replace(add, args=(2.0, 1))
    assert_refused([written], results, r"modifies t\d.* — an operation before makes what an operation modifies")


def test_results_are_new_memory(recorded):
    (exp, *_), results = recorded
    assert_refused([exp, exp], results, "again — results of an operation are new memory")
    made = exp.reads[0]
    assert_refused([replace(exp, results=(made,), writes=(made,))], results, "makes i0.* again")


def test_constants_are_never_written(recorded):
    (exp, add, total, product), results = recorded
    constant = product.reads[1]
    assert constant.buffer.kind == "constant"
    assert_refused([exp, add, total, replace(product, results=(constant,), writes=(constant,))], results,
                   r"writes c\d.* — nothing writes to constants")


def test_regions_lie_inside_of_their_buffers(recorded):
    (exp, add, *rest), results = recorded
    for region in (replace(exp.reads[0], offset=4), replace(exp.reads[0], strides=(-1,)),
                   replace(exp.reads[0], shape=(7,))):
        assert_refused([replace(exp, args=(region,)), add, *rest], results,
                       "at bytes .* — a region lies inside of its buffer")


def test_dtypes_are_those_that_operators_compute(recorded):
    (exp, add, *rest), results = recorded
    wrong = replace(exp.results[0], dtype=torch.int32)
    assert_refused([replace(exp, results=(wrong,), writes=(wrong,)), add, *rest], results,
                   r"results of \['int32'\] — dtypes of results are those that the operator computes")
    assert_refused([exp, replace(add, results=(wrong,), writes=(wrong,)), *rest], results, "dtypes of results")


def test_results_of_the_graph_are_made(recorded):
    operations, results = recorded
    assert_refused(operations[:3], results, r"its result t\d.* — operations make all results")


def test_a_wrong_pass_is_named(recorded, monkeypatch):
    operations, results = recorded
    monkeypatch.setitem(PASSES, "remove_copies", lambda operations, results: operations[:-1])
    with pytest.raises(CompileError, match=r"^\[remove_copies\] a graph without an operation that makes its result"):
        run_passes(operations, [], results)
    monkeypatch.setattr(VERIFICATION, "is_thorough", False)
    with pytest.raises(CompileError, match=r"^\[passes\] a graph without"):
        run_passes(operations, [], results)


def test_a_wrong_pass_leaves_calls_eager(monkeypatch):
    compiled = torch.compile(lambda x: x.exp() + 1)
    monkeypatch.setitem(PASSES, "remove_copies", lambda operations, results: operations[:-1])
    x = torch.zeros(3)
    with pytest.warns(RuntimeWarning, match=r"CompileError: \[remove_copies\] a graph without an operation"):
        found = [compiled(x).tolist() for _ in range(4)]
    assert found == [[2.0] * 3] * 4
