"""Training steps of exported programs as C libraries: forward, backward and the optimizer in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Final

from tensocket.errors import CompileError, ExportError
from tensocket.optim.batch import ListOptimizer
from tensocket_compiler.deploy.device import NAME
from tensocket_compiler.deploy.runs import Run
from tensocket_operators import Tensor
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS, ValueObserver

from .tracing import Tracer

#: Steps of the check that the state of an optimizer begins with zeros.
_STEPS: Final = 3


class _NumbersOnDevice:
    """An observer for which numbers that change are tensors of one element on the device.

    They are float64, as numbers in Python are: ``1 - 0.999 ** step`` has few correct digits in float32.
    """

    def __init__(self, below: ValueObserver) -> None:
        self._below = below

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)

    def number(self, tensor: Any) -> Any:
        """Return a step count or an option as a tensor."""
        return tensor.double() if tensor.device.type == NAME else self._below.number(tensor)


@contextmanager
def _numbers_on_device() -> Iterator[None]:
    """Run a block in which numbers that change are tensors on the device."""
    me = get_ident()
    below = VALUE_OBSERVERS[me]
    VALUE_OBSERVERS[me] = _NumbersOnDevice(below)
    try:
        yield
    finally:
        VALUE_OBSERVERS[me] = below


class TrainingTracer:
    """Runs steps of training.

    Args:
        tracer: Runs the program, whose first output is the loss.
        optimizer: Makes an optimizer of parameters.

    Raises:
        ExportError: The program has no parameters, or its first output does not depend on one.
        CompileError: The optimizer's state is not on the device, or nothing tells how it begins.
    """

    def __init__(self, tracer: Tracer, optimizer: Callable[[list[Any]], Any]) -> None:
        self._tracer = tracer
        given = {str(path): tracer.states[path] for path in tracer.program.graph_signature.parameters}
        parameters = {id(x): path for path, x in reversed(given.items()) if x.requires_grad}
        self._parameters = [given[path] for path in reversed(parameters.values())]
        if not self._parameters:
            raise ExportError("compile_c", "a program without parameters that require gradients", "a training step "
                              "updates parameters", "leave optimizer out")
        self._optimizer = optimizer(self._parameters)
        self._move_rates()
        if isinstance(self._optimizer, ListOptimizer) and self._optimizer.has_first_state:
            self._begin(optimizer, [tracer.host_state(path) for path in reversed(parameters.values())])
        else:
            self._begin_with_zeros(optimizer)
        self._state = {name: id(x) for name, x in self._tensors().items()}

    def _move_rates(self) -> None:
        """Make learning rates that are tensors a part of the state, which programs may write."""
        groups = self._optimizer.param_groups
        for number, group in enumerate(groups):
            if isinstance(group["lr"], Tensor):
                group["lr"] = group["lr"].detach().to(NAME)
                self._tracer.add_state("lr" if len(groups) == 1 else f"lr:{number}", group["lr"], zero=False)

    def _begin(self, optimizer: Callable[[list[Any]], Any], parameters: list[Any]) -> None:
        """Give parameters the state before the first step, which is that of the same optimizer on the host.

        Args:
            optimizer: Makes an optimizer.
            parameters: The parameters on the host.
        """
        model = optimizer([x.detach().requires_grad_() for x in parameters])
        for group, known in zip(self._optimizer.param_groups, model.param_groups, strict=True):
            for x, on_host in zip(group["params"], known["params"], strict=True):
                self._optimizer.state[x] = {key: value.detach().to(NAME) if isinstance(value, Tensor) else value
                                            for key, value in model.first_state(on_host, known).items()}
        for name, x in self._tensors().items():
            self._tracer.add_state(name, x, zero=False)

    def _begin_with_zeros(self, optimizer: Callable[[list[Any]], Any]) -> None:
        """Let the state appear in a step, and begin with zeros.

        Raises:
            CompileError: It does not, or it is not on the device.
        """
        _check_state(optimizer, [x.shape for x in self._parameters], [x.dtype for x in self._parameters])
        before = self._tensors()
        self._tracer.run([s.high for s in self._tracer.sizes], self._step)
        for name, x in self._tensors().items():
            if x.device.type != NAME:
                raise CompileError("compile_c", f"the state {name!r} of an optimizer on the host", "a C library keeps "
                                   "state beside the parameters", "make it like the parameters")
            self._tracer.add_state(name, x, zero=name not in before)

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
        with _numbers_on_device():
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
                           "like all others", "use an optimizer such as Adam, or SGD without dampening")


def _apply(optimizer: Any, parameters: list[Any], grads: list[Any]) -> None:
    for x, grad in zip(parameters, grads, strict=True):
        x.grad = grad.clone()
    optimizer.step()


__all__ = ["TrainingTracer"]
