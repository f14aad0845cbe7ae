"""Types of values that have no parts."""

from __future__ import annotations

from typing import Any

_Text = str


class JitType:
    """The type of a value in a script."""

    #: Name in annotations, and in the text of graphs if that differs.
    name: _Text = ""
    graph_name: _Text = ""

    @property
    def annotation_str(self) -> _Text:
        """The type as an annotation: ``List[int]``."""
        return self.name

    def str(self) -> _Text:
        """Return the type as graphs print it: ``int[]``."""
        return self.graph_name or self.name

    def __str__(self) -> _Text:
        return self.str()

    __repr__ = __str__

    def kind(self) -> _Text:
        """Return the name of the kind of type."""
        return type(self).__name__

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash((type(self), self._parts()))

    def _parts(self) -> Any:
        return self.name

    def isSubtypeOf(self, other: JitType) -> bool:  # noqa: N802  PyTorch's name
        """Whether values of this type are also of the other."""
        from tensocket.jit.graph.script_types import is_subtype

        return is_subtype(self, other)

    def containedTypes(self) -> list[JitType]:  # noqa: N802  PyTorch's name
        """Return the types of which this one consists."""
        return []


class _Simple(JitType):
    """A type without parts, of which there is one instance."""

    _one: Any = None

    def __new__(cls) -> Any:
        if cls._one is None:
            cls._one = object.__new__(cls)
        return cls._one

    @classmethod
    def get(cls) -> Any:
        """Return the instance."""
        return cls()

    def __reduce__(self) -> Any:
        return type(self), ()


class TensorType(_Simple):
    """Tensors of any dtype and shape."""

    name = "Tensor"


class AnyType(_Simple):
    """Values of any type."""

    name = "Any"


class NumberType(_Simple):
    """Python numbers that are int, float or complex."""

    name, graph_name = "number", "Scalar"


class IntType(_Simple):
    """Integers."""

    name = "int"


class FloatType(_Simple):
    """Floating-point numbers."""

    name = "float"


class ComplexType(_Simple):
    """Complex numbers."""

    name = "complex"


class BoolType(_Simple):
    """Truth values."""

    name = "bool"


class StringType(_Simple):
    """Text."""

    name = "str"


class NoneType(_Simple):
    """The type of None."""

    name = "NoneType"


class DeviceObjType(_Simple):
    """Devices."""

    name = "Device"


class ScalarTypeType(_Simple):
    """Dtypes."""

    name = "torch.dtype"
    graph_name = "int"


class LayoutType(_Simple):
    """Layouts of tensors."""

    name, graph_name = "torch.layout", "int"


class MemoryFormatType(_Simple):
    """Orders of dimensions in memory."""

    name, graph_name = "torch.memory_format", "int"


class GeneratorType(_Simple):
    """Generators of random numbers."""

    name = "Generator"


class StreamObjType(_Simple):
    """Streams of devices."""

    name = "Stream"


class StorageType(_Simple):
    """Memory of tensors."""

    name = "Storage"


class AnyListType(_Simple):
    """Lists of any elements, in checks of types."""

    name = "list"


class AnyTupleType(_Simple):
    """Tuples of any elements, in checks of types."""

    name = "tuple"


class NeverType(_Simple):
    """The type of an expression that does not return: a subtype of all others."""

    name = "NoReturn"
