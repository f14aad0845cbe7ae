"""Values that exist while a script is compiled: namespaces, functions, classes, iterables of known length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensocket.jit.frontend import Place, ScriptError
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.ir import Value

if TYPE_CHECKING:
    from tensocket.jit.compiler.compiler import Compiler


class Sugared:
    """A value that the compiler knows and the graph does not."""

    def describe(self) -> str:
        """Return a description for errors."""
        return type(self).__name__

    def value(self, compiler: Compiler, place: Place) -> Value:
        """Return the value in the graph.

        Raises:
            ScriptError: There is none.
        """
        raise ScriptError(f"{self.describe()} cannot be used as a value", "values of scripts are tensors, numbers, "
                          "str, containers and instances of scripted classes", "pass it as an argument, or call it",
                          place)

    def attribute(self, compiler: Compiler, place: Place, name: str) -> Any:
        """Return an attribute.

        Raises:
            ScriptError: There is none.
        """
        raise ScriptError(f"attribute lookup is not defined on {self.describe()}: {name!r}", "scripts read attributes "
                          "of modules and of instances of scripted classes", "read it outside of the script", place)

    def call(self, compiler: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Return the result of a call.

        Raises:
            ScriptError: It cannot be called.
        """
        raise ScriptError(f"cannot call {self.describe()}", "scripts call functions, methods and classes",
                          "call one of these", place)

    def items(self, compiler: Compiler, place: Place) -> list[Any] | None:
        """Return the elements if their number is known; None for a loop over values."""
        raise ScriptError(f"'{self.describe()}' object is not iterable", "loops go over lists, tuples, dicts, tensors, "
                          "str and ranges", "loop over one of these", place)

    def boolean(self) -> bool | None:
        """Return the truth value if the compiler knows it."""
        return None


class SugaredTuple(Sugared):
    """Several values in a fixed order, some of which the graph does not know."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = list(parts)

    def describe(self) -> str:
        """Return a description for errors."""
        return "tuple"

    def value(self, compiler: Compiler, place: Place) -> Value:
        """Return a tuple in the graph."""
        return compiler.tuple_of([compiler.value(part, place) for part in self.parts], place)

    def items(self, compiler: Compiler, place: Place) -> list[Any]:
        """Return the parts."""
        return self.parts


class SugaredDict(Sugared):
    """Names and values of a ``ModuleDict`` or ``ParameterDict``."""

    def __init__(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        self.keys = list(keys)
        self.values = list(values)

    def items(self, compiler: Compiler, place: Place) -> list[Any]:
        """Return the keys."""
        return self.keys


class Namespace(Sugared):
    """A Python module, or a class that is used as one.

    Args:
        thing: The module.
    """

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def describe(self) -> str:
        """Return a description for errors."""
        return f"python value of type '{type(self.thing).__name__}'"

    def attribute(self, compiler: Compiler, place: Place, name: str) -> Any:
        """Return a member."""
        try:
            member = getattr(self.thing, name)
        except (AttributeError, RuntimeError):
            label = getattr(self.thing, "__name__", type(self.thing).__name__).replace("tensocket", "torch")
            raise ScriptError(f"module '{label}' has no attribute '{name}'", "a script uses names that exist",
                              "correct the name", place) from None
        if getattr(self.thing, "name", "") == "CONSTANTS":
            return compiler.constant(member, None, place)
        return compiler.wrap(member, place, f"{getattr(self.thing, '__name__', '')}.{name}")


class OperatorNamespace(Sugared):
    """``torch`` in printed code: its members are operators, by the names that graphs use.

    Args:
        path: Names after ``torch``.
    """

    def __init__(self, path: tuple[str, ...] = ()) -> None:
        self.path = path

    def attribute(self, compiler: Compiler, place: Place, name: str) -> Any:
        """Return an operator, a dtype, or a namespace below this one."""
        from tensocket.jit.files.printed_names import member

        return member(self, compiler, place, name)


class BoundMethod(Sugared):
    """A method with its receiver.

    Args:
        receiver: The value.
        name: The method's name.
    """

    def __init__(self, receiver: Value, name: str) -> None:
        self.receiver = receiver
        self.name = name

    def describe(self) -> str:
        """Return a description for errors."""
        return f"method '{self.name}' of '{self.receiver.kind}'"

    def call(self, compiler: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Call the method."""
        return compiler.call_method(self.receiver, self.name, arguments, keywords, place)


class Special(Sugared):
    """A function whose call the compiler works out itself.

    Args:
        name: Its name.
        function: ``function(compiler, place, arguments, keywords)``; arguments are values of the compiler.
    """

    def __init__(self, name: str, function: Any) -> None:
        self.name = name
        self.function = function

    def describe(self) -> str:
        """Return a description for errors."""
        return f"function '{self.name}'"

    def call(self, compiler: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Work the call out."""
        return self.function(compiler, place, arguments, keywords)


class TreeForm(Special):
    """A function that takes the syntax trees of its arguments, as ``isinstance`` does."""


class Builtin(Sugared):
    """An operator.

    Args:
        kind: The kind of its nodes.
        function: The Python function.
        result: Type of the result; None asks the table of operators.
    """

    def __init__(self, kind: str, function: Any = None, result: t.JitType | None = None) -> None:
        self.kind = kind
        self.function = function
        self.result = result

    def describe(self) -> str:
        """Return a description for errors."""
        return f"builtin function '{self.kind}'"

    def call(self, compiler: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Add a node."""
        return compiler.call_operator(self, arguments, keywords, place)


class FunctionValue(Sugared):
    """A compiled function.

    Args:
        function: The function.
    """

    def __init__(self, function: Any) -> None:
        self.function = function

    def describe(self) -> str:
        """Return a description for errors."""
        return f"function '{self.function.name}'"

    def call(self, compiler: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Add a node that calls it."""
        return compiler.call_compiled(self.function, arguments, keywords, place)

    def value(self, compiler: Compiler, place: Place) -> Value:
        """Return the function as a constant."""
        return compiler.constant(self.function, t.FunctionType(self.function), place)


class PythonFunction(Sugared):
    """A Python function that scripts call without compiling it.

    Args:
        function: The function.
        result: Type of its result.
        refusal: The error that a call raises, or "".
    """

    def __init__(self, function: Any, arguments: Sequence[Any], result: t.JitType, refusal: str = "") -> None:
        self.function = function
        self.arguments = arguments
        self.result = result
        self.refusal = refusal

    def describe(self) -> str:
        """Return a description for errors."""
        return f"python function '{getattr(self.function, '__name__', self.function)}'"

    def call(self, compiler: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Add a node that calls it."""
        return compiler.call_python(self, arguments, keywords, place)


class ClassValue(Sugared):
    """A class whose instances a script makes: of a scripted class, or of named tuples.

    Args:
        kind: Type of the instances.
    """

    def __init__(self, kind: t.JitType) -> None:
        self.kind = kind

    def describe(self) -> str:
        """Return a description for errors."""
        return f"class '{self.kind.annotation_str}'"

    def call(self, compiler: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Make an instance."""
        return compiler.construct(self.kind, arguments, keywords, place)

    def attribute(self, compiler: Compiler, place: Place, name: str) -> Any:
        """Return a static method or a constant of the class, or ``__new__``."""
        if name == "__new__":
            return Special(name, lambda c, where, a, k: c.node("prim::CreateObject", [], self.kind, where))
        if isinstance(self.kind, t.ClassType):
            method = self.kind.method(name)
            if method is not None and method.is_static:
                return FunctionValue(method)
            if name in self.kind.constants:
                return compiler.constant(self.kind.constants[name], None, place)
        return super().attribute(compiler, place, name)


class EnumClass(Sugared):
    """An enumeration.

    Args:
        kind: Type of its members.
    """

    def __init__(self, kind: t.EnumType) -> None:
        self.kind = kind

    def attribute(self, compiler: Compiler, place: Place, name: str) -> Any:
        """Return a member."""
        if name not in self.kind.python.__members__:
            return super().attribute(compiler, place, name)
        return compiler.constant(self.kind.python[name], self.kind, place)

    def items(self, compiler: Compiler, place: Place) -> list[Any]:
        """Return the members."""
        return [compiler.constant(member, self.kind, place) for member in self.kind.python]


class ExceptionClass(Sugared):
    """A class of exceptions.

    Args:
        kind: The class.
    """

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def call(self, compiler: Compiler, place: Place, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Return the exception with its message."""
        return ExceptionValue(self.kind, [compiler.value(each, place) for each in arguments])


class ExceptionValue(Sugared):
    """An exception that is raised next.

    Args:
        kind: Its class.
        arguments: Its arguments.
    """

    def __init__(self, kind: Any, arguments: Sequence[Value]) -> None:
        self.kind = kind
        self.arguments = list(arguments)


class PythonClass(Sugared):
    """A class that appears only in checks and annotations.

    Args:
        kind: The class.
    """

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def describe(self) -> str:
        """Return a description for errors."""
        return f"class '{getattr(self.kind, '__name__', self.kind)}'"

    def attribute(self, compiler: Compiler, place: Place, name: str) -> Any:
        """Return a member of the class."""
        return Namespace(self.kind).attribute(compiler, place, name)


class PythonValue(Sugared):
    """An object of Python that is not a value of scripts.

    Args:
        thing: The object.
    """

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def describe(self) -> str:
        """Return a description for errors."""
        return f"python value of type '{type(self.thing).__name__}'"

    def value(self, compiler: Compiler, place: Place) -> Value:
        """Refuse.

        Raises:
            ScriptError: Always.
        """
        raise ScriptError(f"{self.describe()} cannot be used as a value. Perhaps it is a closed over global variable?",
                          "scripts use values that are arguments, attributes or constants",
                          "If so, please consider passing it in as an argument or use a local variable instead", place)


class SliceValue(Sugared):
    """``slice(...)``.

    Args:
        bounds: Start, stop and step.
    """

    def __init__(self, bounds: Sequence[Value]) -> None:
        self.bounds = list(bounds)


class Range(Sugared):
    """``range`` in the head of a loop."""

    def __init__(self, start: Value, stop: Value, step: Value, only_stop: bool) -> None:
        self.start, self.stop, self.step, self.only_stop = start, stop, step, only_stop

    def describe(self) -> str:
        """Return a description for errors."""
        return "range"

    def value(self, compiler: Compiler, place: Place) -> Value:
        """Return a list of the numbers."""
        return compiler.node("aten::list_range", [self.start, self.stop, self.step], t.ListType(t.INT), place)

    def items(self, compiler: Compiler, place: Place) -> None:
        """Return None: the length is not known."""


class Zipped(Sugared):
    """``zip`` and ``enumerate`` in the head of a loop.

    Args:
        parts: The iterables; None stands for the counter.
        start: Where the counter starts.
    """

    def __init__(self, parts: Sequence[Any], start: Value | None = None, counts: bool = False) -> None:
        self.parts = list(parts)
        self.start = start
        self.counts = counts

    def describe(self) -> str:
        """Return a description for errors."""
        return "enumerate" if self.counts else "zip"

    def items(self, compiler: Compiler, place: Place) -> list[Any] | None:
        """Return tuples of elements if one of the parts is known to the compiler."""
        lists = [compiler.items_of(part, place) for part in self.parts]
        if all(each is None for each in lists):
            return None
        length = min(len(each) for each in lists if each is not None)
        columns = []
        for part, known in zip(self.parts, lists, strict=True):
            if known is None:
                whole = compiler.value(part, place)
                known = [compiler.index(whole, compiler.constant(k, t.INT, place), place) for k in range(length)]
            columns.append(known)
        if self.counts:
            first = 0 if self.start is None else self.start.toIValue()
            columns.insert(0, [compiler.constant(first + k, t.INT, place) for k in range(length)])
        return [SugaredTuple(row) for row in zip(*columns, strict=False)]
