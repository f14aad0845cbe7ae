"""A differential equation with a network as its right-hand side (Chen and others, 2018), learnt from a path.

    python examples/neural_ode.py --device opencl

The adjoint equation gives the gradients, so that autograd records no step of the solver: memory does not grow with the
number of steps.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import tensocket as torch
from tensocket import Tensor, nn

from common import picture, settings, train

Field = Callable[[Tensor], Tensor]


def rk4(field: Field, state: Tensor, time: float) -> Tensor:
    """Do one step of the classical Runge-Kutta method."""
    a = field(state)
    b = field(state + 0.5 * time * a)
    c = field(state + 0.5 * time * b)
    return state + time / 6 * (a + 2 * b + 2 * c + field(state + time * c))


class Solve(torch.autograd.Function):
    """States of a solution at equal time intervals, (count, n, 2); the adjoint equation gives gradients."""

    @staticmethod
    def forward(ctx: Any, start: Tensor, field: nn.Module, time: float, count: int, *parameters: Tensor) -> Tensor:
        """Solve forwards from (n, 2)."""
        states = [start]
        for _ in range(count - 1):
            states.append(rk4(field, states[-1], time))
        path = torch.stack(states)
        ctx.field, ctx.time = field, time
        ctx.save_for_backward(path, *parameters)
        return path

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        """Solve the adjoint equation backwards, one step at a time from the saved states."""
        path, *parameters = ctx.saved_tensors
        adjoint, totals = grad[-1], [torch.zeros_like(parameter) for parameter in parameters]
        for index in range(len(path) - 2, -1, -1):
            with torch.enable_grad():
                state = path[index].detach().requires_grad_()
                after = rk4(ctx.field, state, ctx.time)
            adjoint, *parts = torch.autograd.grad(after, (state, *parameters), adjoint)
            totals = [total + part for total, part in zip(totals, parts, strict=True)]
            adjoint = adjoint + grad[index]
        return adjoint, None, None, None, *totals


class Flow(nn.Module):
    """A network from places (n, 2) to speeds (n, 2)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))

    def forward(self, place: Tensor) -> Tensor:
        """Map places to speeds; the cubes of coordinates make the network's task easier."""
        return self.network(place**3)


def main(argv: Sequence[str] | None = None) -> int:
    """Train on pieces of the path, follow it as a whole, and save the picture."""
    chosen = settings(__doc__, argv, steps=250)
    width, length, piece, batch = (8, 40, 4, 4) if chosen.tiny else (50, 200, 12, 24)
    turn = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    time = 10.0 / length
    path = [torch.tensor([[2.0, 0.0]])]
    for _ in range(length - 1):
        path.append(rk4(lambda place: place**3 @ turn, path[-1], time))
    truth = torch.cat(path)
    flow = Flow(width).to(chosen.device)
    parameters = list(flow.parameters())
    optimizer = torch.optim.Adam(parameters, lr=5e-3)

    def step(index: int) -> float:
        starts = torch.randint(0, length - piece, (batch,))
        wanted = truth[starts + torch.arange(piece).unsqueeze(1)].to(chosen.device)
        loss = (Solve.apply(wanted[0], flow, time, piece, *parameters) - wanted).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    losses = train(chosen, step, "neural_ode")
    with torch.no_grad():
        found = Solve.apply(truth[:1].to(chosen.device), flow, time, length, *parameters)[:, 0].cpu()

    def draw(axes: Any) -> None:
        axes.plot(*truth.T.numpy(), color="0.7", linewidth=3, label="given")
        axes.plot(*found.T.numpy(), linewidth=1, label="learnt")
        axes.set(title="paths", aspect="equal")
        axes.legend()

    picture(chosen, "neural_ode", losses, draw)
    return 0


if __name__ == "__main__":
    sys.exit(main())
