"""Traces of calls: nested, with keys, paths, shapes and devices."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensocket_operators as torch
from tensocket_core.dispatch.modes import ACTIVE, thread_state
from tensocket_core.dispatch.trace import Call, Tracer, describe
from tensocket_core.recording import RECORDING_SLOW_PATHS, SlowPathReason
from tensocket_operators import functions as F
from tensocket_operators.library import Library


@contextmanager
def traced(file: Any = None) -> Iterator[list[Call]]:
    calls: list[Call] = []
    reason = SlowPathReason()
    with thread_state(tracer=Tracer(file, calls)):
        yield calls
    del reason


def test_a_call_has_a_key_a_path_and_arguments() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    with traced() as calls:
        x * 2.5
        x.detach().sum(0)
    assert calls[0] == Call("call", "mul", 0, "float32 autograd number:float", "autograd > ref:0 plan",
                            "float32[2, 3]@ref:0, 2.5")
    assert [c.name for c in calls] == ["mul", "detach", "sum"]
    assert str(calls[0]) == ("[call] op=[mul] key=[float32 autograd number:float] path=[autograd > ref:0 plan] "
                             "args=(float32[2, 3]@ref:0, 2.5)")
    assert ACTIVE == RECORDING_SLOW_PATHS == []


def test_calls_of_composites_are_nested() -> None:
    with traced() as calls:
        F.mse_loss(torch.ones(2), torch.zeros(2))
    assert (calls[0].kind, calls[0].name, calls[0].args) == ("factory", "ones", "[2]")
    loss = calls[2]
    assert (loss.name, loss.depth, loss.path) == ("mse_loss", 0, "ref:0 composite")
    inner = [c for c in calls[3:] if c.depth == 1]
    assert {"sub", "mean"} <= {c.name for c in inner}


def test_nodes_of_backward_and_their_calls_are_nested() -> None:
    x = torch.ones(2, requires_grad=True)
    y = (x.exp() * x).sum()
    with traced() as calls:
        y.backward()
    nodes = [(c.name, c.depth) for c in calls if c.kind == "backward"]
    assert nodes == [("SumBackward0", 0), ("MulBackward0", 0), ("ExpBackward0", 0)]
    at = next(k for k, c in enumerate(calls) if c.name == "MulBackward0")
    assert [(c.name, c.depth) for c in calls[at + 1:at + 3]] == [("mul", 1), ("mul", 1)]
    assert str(calls[at]) == "[backward] op=[MulBackward0] args=(float32[2]@ref:0)"
    assert x.grad.tolist() == torch.ones(2).exp().mul(2).tolist()


def test_lines_are_printed_as_calls_begin() -> None:
    out = io.StringIO()
    with traced(out):
        F.cat([torch.ones(1), torch.zeros(1)])
    lines = out.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[2].endswith("args=([float32[1]@ref:0, float32[1]@ref:0], 0)")
    assert describe((torch.ones(1), None, "a")) == "[float32[1]@ref:0, None, 'a']"


def test_registered_kernels_show_in_the_path() -> None:
    patch = Library("aten", "IMPL")
    patch.impl("exp", lambda x: x, "ref")
    patch.impl("sin", lambda x: x, "Autograd")
    with traced() as calls:
        torch.ones(1).exp()
        torch.ones(1, requires_grad=True).sin()
    patch._destroy()
    assert [c.path for c in calls if c.kind == "call"] == ["ref:0 override", "autograd (override) > ref:0 plan"]


def test_the_environment_traces_a_process() -> None:
    code = ("import tensocket_operators as t\n"
            "x = t.ones(2, device='ref', requires_grad=True)\n"
            "(x * x).sum().backward()\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "TENSOCKET_SHOW_DISPATCH_TRACE": "1"})
    lines = done.stderr.splitlines()
    assert lines[0] == "[factory] op=[ones] args=([2], 'ref')"
    assert lines[1].startswith("[call] op=[mul] key=[float32 autograd] path=[autograd > ref:0 plan] args=(float")
    assert "[backward] op=[MulBackward0] args=(float32[2]@ref:0)" in lines
    assert any(line.startswith("  [call] op=[mul]") for line in lines)
