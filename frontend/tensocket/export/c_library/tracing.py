"""Runs of an exported program on the device that notes launches."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensocket.errors import CompileError, ExportError, TensocketError
from tensocket_compiler.deploy.device import NAME, ahead_device, note_run
from tensocket_compiler.deploy.fusion import note_graph
from tensocket_compiler.deploy.interface import SizeRange
from tensocket_compiler.deploy.polynomials import DEGREE, Polynomial, fit, grid
from tensocket_compiler.deploy.runs import Run, RunBuilder, contents_of
from tensocket_compiler.graph.interpreter import Interpreter
from tensocket_compiler.graph.node import map_aggregate
from tensocket_core import device as Device
from tensocket_core import strided
from tensocket_operators import Tensor
from tensocket_operators.random.positions import positions

from ..exported_program import ExportedProgram, state_tensor
from ..graph_signature import InputKind, OutputKind
from ..symbols import COMPARISONS, evaluate
from ..values import TensorValue
from .random_numbers import RandomNumbers

_SIGNS: Final = {"add": "+", "sub": "-", "mul": "*"}
#: The path of the random stream in the state.
GENERATOR: Final = "generator:state"
#: Words of C and C++, and the names that the functions of a library use.
_WORDS: Final = frozenset({
    "and", "arena", "auto", "block", "bool", "break", "calloc", "case", "char", "class", "const", "continue",
    "default", "delete", "do", "double", "else", "enum", "errno", "extern", "false", "far", "fclose", "float",
    "fopen", "for", "fread", "free", "getc", "goto", "if", "inline", "int", "linux", "long", "malloc", "memcmp",
    "memcpy", "memory", "namespace", "near", "new", "not", "operator", "or", "private", "protected", "public",
    "register", "restrict", "return", "self", "short", "signed", "sizeof", "static", "status", "std", "stderr",
    "stdin", "stdout", "strcmp", "struct", "switch", "template", "this", "true", "typedef", "union", "unix",
    "unsigned", "void", "volatile", "while", "xor"})


def identifier(text: str) -> str:
    """Return a name for C: ``x_0`` for ``x[0]``."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower() or "x"
    if name[0].isdigit() or name.startswith(("ts_", "tensocket_")):
        return f"x_{name}"
    return f"{name}_" if name in _WORDS else name


class _OnDevice(Interpreter):
    """Runs a graph with the recording device in place of the devices that it names."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Call an operator."""
        if getattr(target, "name", "") == "to":
            args = tuple([Device(x) if isinstance(x, str) else x for x in args])
        return super().call_function(target, map_aggregate(args, _moved), map_aggregate(kwargs, _moved))


def _moved(value: Any) -> Any:
    return Device(NAME) if isinstance(value, Device) else value


class Tracer:
    """Runs a program with inputs of several sizes.

    Args:
        program: The program.
        limits: Largest sizes, by name, of those that have no limit.

    Attributes:
        sizes: The sizes that change.
        states: Parameters, buffers and constants on the device, by path.

    Raises:
        ExportError: The program has inputs or outputs that C has no form for.
    """

    def __init__(self, program: ExportedProgram, limits: Mapping[str, int]) -> None:
        self.program, self._guards = program, program._guards
        if self._guards is None or any(s.kind is not OutputKind.USER_OUTPUT
                                       for s in program.graph_signature.output_specs):
            raise ExportError("compile_c", f"a program of dialect {program.dialect} with writes among its outputs",
                              "a C library writes in place", "compile the program before run_decompositions")
        ahead_device()
        self._specs = program.graph_signature.input_specs
        copies: dict[int, Any] = {}
        self.states: dict[str, Any] = {}
        for spec in self._specs:
            if spec.kind is not InputKind.USER_INPUT:
                x = state_tensor(program, spec)
                if not isinstance(x, Tensor) or x.layout is not strided:
                    raise ExportError("compile_c", f"{spec.target} of type {type(x).__name__}", "weights in C are "
                                      "dense tensors", "convert it, or pass it as an input")
                if id(x) not in copies:
                    copies[id(x)] = x.detach().contiguous().to(NAME).requires_grad_(x.requires_grad)
                self.states[str(spec.target)] = copies[id(x)]
        self._before = {id(contents_of(x._array)): contents_of(x._array).data or b"" for x in copies.values()}
        names = [self._size_name(root) for root in self._guards.roots]
        unknown = sorted(set(limits) - set(names))
        if unknown:
            raise ExportError("compile_c", f"max_sizes={{{unknown[0]!r}: {limits[unknown[0]]}}}", "the program's sizes "
                              f"are {', '.join(names) or 'fixed'}", "pass the name of one of them")
        self.sizes = [self._range(root, name, limits) for root, name in zip(self._guards.roots, names, strict=True)]
        self._forms = [self._form(k, x) for k, x in enumerate(self._guards._expected)]
        #: Names of the inputs that are tensors.
        self.input_names = [identifier(source) for source, x in zip(self._guards.sources, self._forms, strict=True)
                            if isinstance(x, TensorValue)]
        self.outputs: list[Any] = []
        self._stream = _stream()

    def _size_name(self, root: Any) -> str:
        """Return the name of a size in C: that of its ``Dim``, or the place where an input has it."""
        return identifier(self._guards.name_of(root) if root.label == root.symbol else root.label)

    @staticmethod
    def _range(root: Any, name: str, limits: Mapping[str, int]) -> SizeRange:
        high = limits.get(name, root.high)
        if high == float("inf"):
            raise ExportError("compile_c", f"the size {name} without a largest value", "the arena of a C "
                              "library has a fixed size", f"export with Dim({name!r}, max=...), or pass max_sizes="
                              f"{{{name!r}: ...}}")
        if not root.low <= high <= root.high:
            raise ExportError("compile_c", f"max_sizes={{{name!r}: {high}}}", f"the size lies between {root.low} "
                              f"and {root.high}", "choose a size in this range")
        return SizeRange(name, root.low, int(high))

    def _form(self, at: int, expected: Any) -> Any:
        if isinstance(expected, TensorValue):
            if expected.layout is not strided:
                raise ExportError("compile_c", f"a sparse input {self._guards.sources[at]}", "inputs in C are dense "
                                  "arrays", "convert it inside of the program")
        elif (at, None) in self._guards.sizes:
            raise ExportError("compile_c", f"the integer {self._guards.sources[at]} as an input that changes", "inputs "
                              "in C are arrays, and sizes follow from theirs", "pass a tensor, or fix the number")
        return expected

    def add_state(self, name: str, tensor: Any, *, zero: bool) -> None:
        """Add a tensor on the device to the state; ``zero`` says that it begins with zeros."""
        memory = contents_of(tensor._array)
        if zero:
            memory.data = bytes(memory.nbytes)
        self.states[name] = tensor
        self._before[id(memory)] = memory.data or b""

    def host_state(self, path: str) -> Any:
        """Return a parameter or buffer of the program."""
        return state_tensor(self.program, next(x for x in self._specs if str(x.target) == path))

    # ------------------------------------------------------------------------------------------------ conditions

    def conditions(self) -> list[str]:
        """Return the comparisons of sizes that calls must check, as C.

        Raises:
            ExportError: C does not compute one of them.
        """
        names = {root: size.name for root, size in zip(self._guards.roots, self.sizes, strict=True)}
        return [f"{_text(guard.left, names)} {COMPARISONS[guard.name][1]} {_text(guard.right, names)}"
                for guard in self._guards.guards]

    def input_shapes(self) -> list[tuple[Polynomial, ...]]:
        """Return the shapes of the inputs, as they follow from the sizes that change."""
        points = grid([tuple([max(s.high - step, s.low) for s in self.sizes]) for step in range(DEGREE + 1)])
        shapes = [[x.shape for x in self.inputs(point) if isinstance(x, Tensor)] for point in points]
        found = []
        for at, shape in enumerate(shapes[0]):
            fitted = [fit(points, [x[at][k] for x in shapes]) for k in range(len(shape))]
            polynomials = tuple([x for x in fitted if x is not None])
            assert len(polynomials) == len(shape), "sizes of inputs are multiples of others plus a constant"
            found.append(polynomials)
        return found

    # ------------------------------------------------------------------------------------------------------ runs

    def inputs(self, sizes: Sequence[int]) -> list[Any]:
        """Return arguments with some sizes, which have no contents."""
        from tensocket import empty

        found = dict(zip(self._guards.roots, sizes, strict=True))

        def size(at: int, k: int, given: int) -> int:
            expression = self._guards.sizes.get((at, k))
            return int(given) if expression is None else int(evaluate(expression, found.__getitem__))

        return [empty([size(at, k, n) for k, n in enumerate(form.shape)], dtype=form.dtype, device=NAME)
                if isinstance(form, TensorValue) else form for at, form in enumerate(self._forms)]

    def run(self, sizes: Sequence[int], around: Callable[[Callable[[], Any]], Any] | None = None) -> Run:
        """Run the program.

        Args:
            sizes: The sizes that change.
            around: Calls the program, and returns the results of the library.

        Raises:
            CompileError: The program does something that a C library cannot.
        """
        given = self.inputs(sizes)
        tensors = [x for x in given if isinstance(x, Tensor)]
        rest = iter(given)
        arguments = [next(rest) if spec.kind is InputKind.USER_INPUT else self.states[str(spec.target)]
                     for spec in self._specs]
        interpreter = _OnDevice(self.program.graph_module)
        interpreter.extra_traceback = False

        def call() -> Any:
            return interpreter.run(*arguments)

        def outputs() -> list[Any]:
            return self._outputs(call if around is None else lambda: around(call), tensors)

        states = list({id(x): x for x in (*self.states.values(), self._stream)}.values())
        arrays, events, reason = note_graph(outputs, tensors, states)
        if reason:  # without a graph, each operator launches kernels of its own
            found, events = note_run(outputs)
            arrays = [x._array for x in found]
        self.outputs = arrays
        paths = {path: x._array for path, x in self.states.items()}
        return RunBuilder(tuple(sizes), [x._array for x in tensors], paths, arrays).build(events, self._before)

    def _outputs(self, call: Callable[[], Any], inputs: Sequence[Any]) -> list[Any]:
        """Call the program, and return its tensors, each dense in memory of its own.

        Raises:
            CompileError: It draws random numbers, or an operator does not run on the device.
        """
        drawn, random = positions(), RandomNumbers(self._stream)
        try:
            with random:
                found = call()
            random.advance()
        except (CompileError, ExportError):
            raise
        except TensocketError as error:
            raise CompileError("compile_c", f"an operator without kernels: {error}", "a C library has no host library, "
                               "and launches kernels only", "leave the operator out") from error
        if any(after != drawn.get(generator, after) for generator, after in positions().items()):
            raise CompileError("compile_c", "an operator that draws random numbers by a kernel of its own", "random "
                               "numbers in C come from dropout, rand, randn, randint, and their _like forms", "use one "
                               "of these, or pass the numbers as an input")
        if random.has_drawn and GENERATOR not in self.states:
            self.add_state(GENERATOR, self._stream, zero=False)
        taken = {id(contents_of(x._array)) for x in (*inputs, *self.states.values())}
        results = []
        for x in found if isinstance(found, (list, tuple)) else (found,):
            if not isinstance(x, Tensor):
                continue
            x = x.detach().resolve_conj().resolve_neg()
            memory = contents_of(x._array)
            if id(memory) in taken or memory.data is not None or not x._array.contiguous or (
                    x._array.offset or memory.nbytes != x._array.nbytes):
                x = _copy(x)
            taken.add(id(contents_of(x._array)))
            results.append(x)
        return results


def _stream() -> Any:
    """Return seed and offset of the default generator, on the device."""
    from tensocket import get_rng_state, int64

    return get_rng_state().view(int64).to(NAME)


def _copy(x: Any) -> Any:
    """Return a dense copy in memory of its own."""
    from tensocket import empty

    return empty(list(x.shape), dtype=x.dtype, device=NAME).copy_(x)


def _text(expression: Any, names: Mapping[Any, str]) -> str:
    """Return an expression of sizes as C."""
    if isinstance(expression, (int, np.integer)):
        return str(int(expression))
    if isinstance(expression, tuple):
        parts = [_text(x, names) for x in expression[1:]]
        if expression[0] in _SIGNS and len(parts) == 2:
            return f"({parts[0]} {_SIGNS[expression[0]]} {parts[1]})"
        raise ExportError("compile_c", f"a condition on sizes with {expression[0]}", "conditions in C are comparisons "
                          "of sums and products", "export the program with fixed sizes")
    return names[expression]
