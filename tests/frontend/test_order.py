"""Features that replace functions for a while, or are imported at first use, leave nothing behind, in any order."""

from __future__ import annotations

import io
import os
import signal
import traceback

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn

ROWS = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


def rows():
    return torch.tensor(ROWS)


def expected(net):
    first, bias, last, shift = [p.detach().numpy() for p in net.parameters()]
    return np.maximum(ROWS @ first.T + bias, 0) @ last.T + shift


def compiled(backend):
    def use(net):
        run = torch.compile(net, backend=backend)
        return [run(rows()) for _ in range(3)][-1]
    return use


def loaded(net):
    buffer = io.BytesIO()
    torch.save(net, buffer)
    return torch.load(io.BytesIO(buffer.getvalue()), weights_only=False)(rows())


def in_mode(net):
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Mode():
        return net(rows())


def checkpointed(net):
    from tensocket.utils.checkpoint import checkpoint

    result = checkpoint(net, rows().requires_grad_(), use_reentrant=False)
    result.sum().backward()
    return result


def counted(net):
    from tensocket.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False):
        return net(rows())


def made_by_operators(net):
    from tensocket.fx.experimental.proxy_tensor import make_fx

    return make_fx(net)(rows())(rows())


USES = {
    "plain": lambda net: net(rows()),
    "fx": lambda net: torch.fx.symbolic_trace(net)(rows()),
    "export": lambda net: torch.export.export(net, (rows(),)).module()(rows()),
    "trace": lambda net: torch.jit.trace(net, rows())(rows()),
    "compile": compiled("tensocket"),
    "backend": compiled("eager"),
    "vmap": lambda net: torch.vmap(net)(rows()),
    "functional_call": lambda net: torch.func.functional_call(net, dict(net.named_parameters()), (rows(),)),
    "load": loaded, "mode": in_mode, "checkpoint": checkpointed, "flops": counted, "make_fx": made_by_operators,
}
ORDERS = [[*USES][k:] + [*USES][:k] for k in range(1, len(USES), 3)] + [[*USES][::-1]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
@pytest.mark.parametrize("names", ORDERS, ids=lambda names: names[0])
def test_uses_in_any_order(names):
    assert in_child(names) == ""


def in_child(names):
    """Return the errors of uses that run one after the other in a fork of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(120)  # ends a child that hangs
        os.write(writing, "".join(map(error_of, names)).encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return found


def error_of(name):
    """Return the error of a use, or nothing."""
    try:
        net = Net()
        np.testing.assert_allclose(USES[name](net).detach().numpy(), expected(net), rtol=1e-5, atol=1e-6)
    except Exception:
        return f"{name}: {traceback.format_exc()}"
    return ""
