"""Training steps of exported programs as C libraries: forward, backward and the optimizer in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket.errors import CompileError, ExportError
from tensocket_compiler.deploy.device import NAME
from tensocket_compiler.deploy.runs import Run
from tensocket_operators import Tensor

from .tracing import Tracer

#: Steps of the check that the state of an optimizer begins with zeros.
_STEPS: Final = 3


class TrainingTracer:
    """Runs steps of training.

    Args:
        tracer: Runs the program, whose first output is the loss.
        optimizer: Makes an optimizer of parameters.

    Raises:
        ExportError: The program has no parameters, or its first output does not depend on one.
        CompileError: The optimizer's state is not on the device, or does not begin with zeros.
    """

    def __init__(self, tracer: Tracer, optimizer: Callable[[list[Any]], Any]) -> None:
        self._tracer = tracer
        parameters = {str(path): tracer.states[path] for path in tracer.program.graph_signature.parameters}
        self._parameters = list({id(x): x for x in parameters.values() if x.requires_grad}.values())
        if not self._parameters:
            raise ExportError("compile_c", "a program without parameters that require gradients", "a training step "
                              "updates parameters", "leave optimizer out")
        _check_state(optimizer, [x.shape for x in self._parameters], [x.dtype for x in self._parameters])
        self._optimizer = optimizer(self._parameters)
        before = self._tensors()
        tracer.run([s.high for s in tracer.sizes], self._step)  # the state appears
        for name, x in self._tensors().items():
            if x.device.type != NAME:
                raise CompileError("compile_c", f"the state {name!r} of an optimizer on the host", "a C library keeps "
                                   "state beside the parameters", "pass capturable=True to the optimizer")
            tracer.add_state(name, x, zero=name not in before)
        self._state = {name: id(x) for name, x in self._tensors().items()}

    def _tensors(self) -> dict[str, Any]:
        """Return the tensors of the optimizer's state by name."""
        paths = {id(x): path for path, x in reversed(self._tracer.states.items())}
        return {f"{key}:{paths[id(p)]}": x for p, state in self._optimizer.state.items()
                for key, x in state.items() if isinstance(x, Tensor)}

    def run(self, sizes: tuple[int, ...]) -> Run:
        """Run a step.

        Raises:
            CompileError: The optimizer puts other tensors in place of its state.
        """
        found = self._tracer.run(sizes, self._step)
        if {name: id(x) for name, x in self._tensors().items()} != self._state:
            raise CompileError("compile_c", "an optimizer that replaces tensors of its state", "a C library writes "
                               "state in place", "use another optimizer")
        return found

    def _step(self, call: Callable[[], Any]) -> list[Any]:
        """Make a step, and return the results of the program."""
        from tensocket import enable_grad

        for x in self._parameters:
            x.grad = None
        with enable_grad():
            results = call()
            results = list(results) if isinstance(results, (tuple, list)) else [results]
            loss = results[0]
            if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
                raise ExportError("compile_c", "a program whose first output is no loss", "a training step "
                                  "differentiates one number that depends on parameters", "return the loss first")
            loss.backward()
        self._optimizer.step()
        for x in self._parameters:
            x.grad = None
        return [x.detach() if isinstance(x, Tensor) else x for x in results]


def _check_state(optimizer: Callable[[list[Any]], Any], shapes: list[Any], dtypes: list[Any]) -> None:
    """Check that the state of an optimizer that appears in its first step begins with zeros, by steps on the host.

    Raises:
        CompileError: It does not.
    """
    from tensocket import Generator, no_grad, randn

    generator = Generator().manual_seed(0)
    start = [randn(list(shape), dtype=dtype, generator=generator) for shape, dtype in zip(shapes, dtypes, strict=True)]
    grads = [[randn(list(x.shape), dtype=x.dtype, generator=generator) for x in start] for _ in range(_STEPS)]

    def steps(used: bool) -> list[Any]:
        parameters = [x.clone().requires_grad_() for x in start]
        made = optimizer(parameters)
        known = {(id(p), key) for p, state in made.state.items() for key in state}
        contents = [x.clone() for state in made.state.values() for x in state.values() if isinstance(x, Tensor)]
        if used:
            _apply(made, parameters, grads[-1])
            with no_grad():
                for p, x in zip(parameters, start, strict=True):
                    p.copy_(x)
                rest = iter(contents)
                for p, state in made.state.items():
                    for key, x in state.items():
                        if isinstance(x, Tensor):
                            x.copy_(next(rest)) if (id(p), key) in known else x.zero_()
        for grad in grads:
            _apply(made, parameters, grad)
        return parameters

    if not all(bool((x == y).all()) for x, y in zip(steps(False), steps(True), strict=True)):
        raise CompileError("compile_c", "an optimizer whose state does not begin with zeros", "the first step in C is "
                           "like all others", "use an optimizer such as SGD without dampening, or Adam with "
                           "capturable=True")


def _apply(optimizer: Any, parameters: list[Any], grads: list[Any]) -> None:
    for x, grad in zip(parameters, grads, strict=True):
        x.grad = grad.clone()
    optimizer.step()


__all__ = ["TrainingTracer"]
