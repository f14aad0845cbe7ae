"""Errors of modules, classes, traces and files."""

from __future__ import annotations

import dataclasses
import enum
import io
from typing import List

import pytest

import tensocket as torch
from tensocket import Tensor, nn
from tensocket.errors import ArgumentError, ArgumentTypeError, ExportError, SerializationError
from tensocket.jit.frontend import FrontendError, ScriptError
from tensocket.jit.graph.ir import Graph
from tensocket.jit.graph.passes import lint
from tensocket.jit.graph.script_types import INT

NUMBER = 3


class Mixed(enum.Enum):
    A = 1
    B = "b"


class Base:
    pass


class Derived(Base):
    pass


class NoExit:
    def __init__(self):
        self.x = 1

    def __enter__(self):
        return self.x

    def __exit__(self, a: int):
        pass


class InBranch:
    def __init__(self, flag: bool):
        if flag:
            self.x = 1


class Empty:
    def value(self) -> int:
        return 1


class Recursive:
    def __init__(self):
        self.x = 1

    def run(self, n: int):
        return self.run(n)


@dataclasses.dataclass
class Bad:
    x: Tensor
    y: str

    def __post_init__(self):
        self.x = self.y


class Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.ReLU(), nn.Linear(2, 2)])
        self.names = nn.ModuleDict({"a": nn.ReLU()})
        self.count = 1
        self.thing = object()


def module(text):
    """Return a module whose forward has a body."""
    from tensocket.jit.compiler import module_types  # noqa: F401

    class Made(torch.jit.ScriptModule):
        def __init__(self):
            super().__init__()
            inner = Lists()
            self.parts, self.names, self.count, self.thing = inner.parts, inner.names, inner.count, inner.thing
            self.define(f"def forward(self, x, n: int, s: str):\n    {text}\n")

    return Made()


@pytest.mark.parametrize(("text", "ending"), [
    ("return self.thing", "assign it in __init__, or annotate its type"),
    ("return self.nothing", "assign it in __init__, or annotate its type"),
    ("self.count = 's'", "annotate the attribute"), ("self.more = 1", "assign it in __init__"),
    ("return self.parts[n](x)", "use a number, or loop over the modules"),
    ("return self.parts[s](x)", "use a number, or loop over the modules"),
    ("return self.names['b'](x)", "use one of"), ("return self.parts[7](x)", "use an index below the length"),
    ("for part in self: pass", "use one of these"),
])
def test_modules(text, ending):
    with pytest.raises(ScriptError) as caught:
        module(text)
    assert f" — {ending}" in str(caught.value)


def uses(kind):
    """Return a function that makes an instance of a class."""

    def function():
        return kind()

    return function


@pytest.mark.parametrize(("make", "ending"), [
    (lambda: torch.jit.script(Mixed), "give the members values of one of these types"),
    (lambda: torch.jit.script(uses(Derived)), "write it without one"),
    (lambda: torch.jit.script(InBranch), "assign it before"),
    (lambda: torch.jit.script(Recursive), "annotate the result, or use a loop"),
    (lambda: torch.jit.script(Bad), "an attribute keeps its type — annotate the attribute"),
])
def test_classes(make, ending):
    with pytest.raises(RuntimeError) as caught:
        make()
    assert f" — {ending}" in str(caught.value)


def test_instances():
    def enters():
        with NoExit():
            pass

    def with_arguments():
        return Empty(1)

    def added():
        return Empty() + Empty()

    for function, ending in ((enters, "define __exit__(self, type, value, tb)"), (with_arguments, "define one"),
                             (added, "define the method")):
        with pytest.raises(ScriptError) as caught:
            torch.jit.script(function)
        assert f" — {ending}" in str(caught.value)


def _mistaken(x):
    return torch.no_such_function(x)


class _Calling(nn.Module):
    def forward(self, x):
        return _mistaken(x)


def test_a_mistake_in_a_function_is_told_with_the_method_that_calls_it():
    with pytest.raises(RuntimeError, match="'_mistaken' is being compiled since it was called from '_Calling.forward'"):
        torch.jit.script(_Calling())


def test_a_mistake_in_a_generated_method_is_told_with_the_class():
    @dataclasses.dataclass(order=True)
    class Pair:
        x: List[int]
        y: complex

    with pytest.raises(ScriptError) as caught:
        torch.jit.script(Pair)
    assert "__lt__ of the dataclass Pair" in str(caught.value)
    assert "define the method in the class" in str(caught.value)


def test_global_numbers_are_not_values():
    def function():
        return NUMBER

    with pytest.raises(ScriptError, match="If so, please consider passing it in as an argument or use a local variable "
                                          "instead"):
        torch.jit.script(function)


def test_defaults_are_constants(tmp_path):
    torch.jit.script(Empty)
    with pytest.raises(ScriptError, match="defaults are constants — use a number, str or None"):
        _load_code(tmp_path, "def f(x: Tensor, y: int=len(x)) -> Tensor:\n  return x\n")


def _load_code(folder, text):
    """Return a function that a file defines by a text."""
    import zipfile

    def f(x: Tensor):
        return x

    torch.jit.script(f).save(folder / "f.pt")
    with zipfile.ZipFile(folder / "f.pt") as before, zipfile.ZipFile(folder / "g.pt", "w") as after:
        for name in before.namelist():
            after.writestr(name, text if name.endswith(".py") else before.read(name))
    return torch.jit.load(folder / "g.pt")


def test_constants_of_files_are_literals(tmp_path):
    made = io.BytesIO()

    class Constant(nn.Module):
        __constants__ = ["k"]

        def __init__(self):
            super().__init__()
            self.k = 2

        def forward(self, x: Tensor):
            return x * self.k

    import zipfile

    torch.jit.save(torch.jit.script(Constant()), made)
    changed = io.BytesIO()
    with zipfile.ZipFile(made) as before, zipfile.ZipFile(changed, "w") as after:
        for name in before.namelist():
            after.writestr(name, before.read(name).replace(b"Final[Any] = 2", b"Final[Any] = open('x')"))
    with pytest.raises(SerializationError, match="constants of classes are literals"):
        torch.jit.load(io.BytesIO(changed.getvalue()))


def test_operators_that_do_not_exist(tmp_path):
    for space in ("x.y", "z"):
        name = f"torch.{space}(x)"
        # No file of ours calls it; a newer PyTorch's might.
        with pytest.raises(RuntimeError):
            torch.jit.CompilationUnit(f"def f(x):\n    return {name}")
    with pytest.raises(ScriptError, match="save it again without this operator"):
        _load_code(tmp_path, f"def {_name(tmp_path)}(x: Tensor) -> Tensor:\n  return torch.no_such_operator(x)\n")


def _name(folder):
    return "f"


def test_save():
    with pytest.raises(ArgumentTypeError, match="scripted and traced modules and functions are saved"):
        torch.jit.save(nn.Linear(1, 1), io.BytesIO())

    @torch.jit.ignore
    def python(x: Tensor) -> Tensor:
        return x

    @torch.jit.script
    def calls(x: Tensor):
        return python(x)

    with pytest.raises(ExportError, match="Could not export Python function call. Remove calls to Python functions "
                       "before "
                                          "export: a file holds scripts only"):
        torch.jit.save(calls, io.BytesIO())

    @torch.jit.script
    def later(x: Tensor):
        return torch.jit.wait(torch.jit.fork(torch.relu, x))

    with pytest.raises(ExportError, match="printed code forks functions and methods"):
        torch.jit.save(later, io.BytesIO())
    layer = torch.jit.script(nn.Linear(1, 1))
    layer.__dict__["thing"] = object()
    with pytest.raises(ExportError, match="a file holds values of scripts"):
        torch.jit.save(layer, io.BytesIO())
    generator = torch.jit.script(lambda x: x)
    node = generator.graph.create("prim::Constant", value=torch.Generator())
    generator.graph.nodes_.insert(0, node)
    generator.graph.tail.set_input(0, node.output())
    node.owner = generator.graph
    with pytest.raises(ExportError, match="printed code has no form for it"):
        torch.jit.save(generator, io.BytesIO())


def test_script_takes_functions_modules_and_classes():
    with pytest.raises(ArgumentTypeError, match="functions, modules and classes are scripts"):
        torch.jit.script(3)


async def coroutine(x):
    return x


def test_other_sources():
    with pytest.raises(FrontendError, match="use torch.jit.fork"):
        torch.jit.script(coroutine)
    two = [lambda x: x, lambda x: x + 1]
    with pytest.raises(FrontendError, match="write a function with def"):
        torch.jit.script(two[0])


def test_freeze():
    rule = ("Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script your "
            "'nn.Module'")
    with pytest.raises(ArgumentTypeError, match=rule):
        torch.jit.freeze(nn.Linear(1, 1))
    with pytest.raises(ArgumentTypeError, match="optimize_for_inference expects a ScriptModule as input. Please use "
                                                "torch.jit.script or torch.jit.trace to script your 'nn.Module'"):
        torch.jit.optimize_for_inference(nn.Linear(1, 1))
    script = torch.jit.script(nn.Sequential(nn.Linear(1, 1)))
    with pytest.raises(ArgumentError, match="Freezing is currently only implemented for modules in eval mode. Please "
                       "call "
                                            r".eval\(\) on your module before freezing"):
        torch.jit.freeze(script)
    with pytest.raises(ArgumentError, match="Attribute or method of this name does not exist"):
        torch.jit.freeze(script.eval(), ["nothing"])


@pytest.mark.parametrize(("call", "kind", "rule"), [
    (lambda: torch.jit.trace(3, torch.ones(1)), ArgumentTypeError, "functions and modules are traced"),
    (lambda: torch.jit.trace(torch.relu), ArgumentError, "a trace records a call with examples"),
    (lambda: torch.jit.trace(torch.relu, example_kwarg_inputs=3), ArgumentTypeError,
     "example_kwarg_inputs should be a dict"),
    (lambda: torch.jit.trace(torch.relu, torch.ones(1), example_kwarg_inputs={}), ArgumentError,
     "one of the two is given"),
    (lambda: torch.jit.trace_module(3, {}), ArgumentTypeError, "expected torch.nn.Module as the first argument"),
    (lambda: torch.jit.trace_module(nn.ReLU(), 3), ArgumentTypeError,
     "expected a dictionary of (method_name, input) pairs"),
    (lambda: torch.jit.trace(lambda x: [x], torch.ones(1)), RuntimeError, "Encountering a list at the output"),
    (lambda: torch.jit.trace(lambda x: x.shape[0], torch.ones(1)), RuntimeError, "Only tensors, lists, tuples of"),
    (lambda: torch.jit.trace(lambda x, n: x, (torch.ones(1), 3)), RuntimeError, "cannot be traced"),
    (lambda: torch.jit.trace(lambda x: x * torch.ones(1, requires_grad=True).clone(), torch.ones(1)), RuntimeError, ""),
])
def test_trace(call, kind, rule):
    if rule == "":
        assert call()(torch.ones(1)).tolist() == [1.0]
        return
    with pytest.raises(kind) as caught:
        call()
    assert rule in str(caught.value)


def test_constants_that_require_gradients():
    weight = torch.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError, match="Cannot insert a Tensor that requires grad as a constant"):
        torch.jit.trace(lambda x: x * weight, torch.ones(1))


def test_lint():
    graph = Graph()
    outside = Graph().add_input(INT, "x")
    graph.append(graph.create("aten::neg", [outside]))
    with pytest.raises(ScriptError, match="a value is defined before its use — add its node before this one"):
        lint(graph)


def test_places():
    def function(x: List[int]):
        y = x
        return y.relu()

    with pytest.raises(ScriptError) as caught:
        torch.jit.script(function)
    text = str(caught.value)
    assert f'File "{__file__}", line {function.__code__.co_firstlineno + 2}' in text
    assert "        return y.relu()\n" not in text  # without the common indentation
    assert "    return y.relu()\n           ~~~~~~ <--- HERE" in text


def test_assert_as_a_function_is_the_statement():
    def checked(x: Tensor, k: int):
        torch._assert(x.shape[0] > 2, "too few")
        torch._assert(message=f"k is {k}", condition=k != 3)
        return x * k

    script = torch.jit.script(checked)
    assert script(torch.ones(3), 2).tolist() == [2, 2, 2]
    with pytest.raises(torch.jit.Error, match="AssertionError: too few"):
        script(torch.ones(1), 2)
    with pytest.raises(torch.jit.Error, match="AssertionError: k is 3"):
        script(torch.ones(3), 3)


class Overriding:
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return function.__name__, len(args), kwargs


def test_classes_override_scripts_but_not_accessors():
    @torch.jit.script
    def doubled(x: Tensor, times: int = 2) -> Tensor:
        return x * times

    assert doubled(Overriding(), times=3) == ("doubled", 1, {"times": 3})
    with pytest.raises(TypeError, match=r"\[doubled\] doubled\(\) Expected a value of type 'Tensor' for argument 'x'"):
        doubled._compiled.checked(Overriding())
