"""Types of the values in a script, and the relations between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from tensocket.jit.graph.simple_types import (
    AnyListType,
    AnyTupleType,
    AnyType,
    BoolType,
    ComplexType,
    DeviceObjType,
    FloatType,
    GeneratorType,
    IntType,
    JitType,
    LayoutType,
    MemoryFormatType,
    NeverType,
    NoneType,
    NumberType,
    ScalarTypeType,
    StorageType,
    StreamObjType,
    StringType,
    TensorType,
)

_Text = str


class ListType(JitType):
    """Lists.

    Args:
        element: Type of the elements.
        copies: The number of elements that one number stands for where a list is expected; 0 for none.
    """

    def __init__(self, element: JitType, copies: int = 0) -> None:
        self.element = element
        self.copies = copies

    def _parts(self) -> Any:
        return self.element

    @property
    def annotation_str(self) -> _Text:
        """The type as an annotation."""
        return f"List[{self.element.annotation_str}]"

    def str(self) -> _Text:
        """Return the type as graphs print it."""
        return f"{self.element.str()}[]"

    def getElementType(self) -> JitType:  # noqa: N802  PyTorch's name
        """Return the type of the elements."""
        return self.element

    def containedTypes(self) -> list[JitType]:  # noqa: N802
        """Return the type of the elements, in a list."""
        return [self.element]

    @staticmethod
    def ofInts() -> ListType:  # noqa: N802  PyTorch's name
        """Return the type of lists of integers."""
        return ListType(INT)

    @staticmethod
    def ofTensors() -> ListType:  # noqa: N802  PyTorch's name
        """Return the type of lists of tensors."""
        return ListType(TENSOR)


class FutureType(JitType):
    """Results of ``fork``.

    Args:
        element: Type of the result.
    """

    label = "Future"

    def __init__(self, element: JitType) -> None:
        self.element = element

    def _parts(self) -> Any:
        return self.element

    @property
    def annotation_str(self) -> _Text:
        """The type as an annotation."""
        return f"{self.label}[{self.element.annotation_str}]"

    def str(self) -> _Text:
        """Return the type as graphs print it."""
        return f"{self.label}({self.element.str()})"

    def getElementType(self) -> JitType:  # noqa: N802
        """Return the type of the result."""
        return self.element

    def containedTypes(self) -> list[JitType]:  # noqa: N802
        """Return the type of the result, in a list."""
        return [self.element]


class AwaitType(FutureType):
    """Results that are computed when they are needed."""

    label = "Await"


class DictType(JitType):
    """Dicts.

    Args:
        key: Type of the keys.
        value: Type of the values.
    """

    def __init__(self, key: JitType, value: JitType) -> None:
        self.key = key
        self.value = value

    def _parts(self) -> Any:
        return self.key, self.value

    @property
    def annotation_str(self) -> _Text:
        """The type as an annotation."""
        return f"Dict[{self.key.annotation_str}, {self.value.annotation_str}]"

    def str(self) -> _Text:
        """Return the type as graphs print it."""
        return f"Dict({self.key.str()}, {self.value.str()})"

    def getKeyType(self) -> JitType:  # noqa: N802
        """Return the type of the keys."""
        return self.key

    def getValueType(self) -> JitType:  # noqa: N802
        """Return the type of the values."""
        return self.value

    def containedTypes(self) -> list[JitType]:  # noqa: N802
        """Return the types of keys and values."""
        return [self.key, self.value]


class TupleType(JitType):
    """Tuples, also named ones.

    Args:
        elements: Types of the elements.
        python: The class of a named tuple.
        qualified: Its name in printed code.
        fields: Names of its elements.
    """

    def __init__(self, elements: Sequence[JitType], python: Any = None, qualified: str = "",
                 fields: Sequence[str] = (), defaults: dict[str, Any] | None = None) -> None:
        self.items = tuple(elements)
        self.python = python
        self.qualified = qualified
        self.fields = tuple(fields)
        self.defaults = defaults or {}

    def _parts(self) -> Any:
        return self.items, self.fields, self.qualified

    @property
    def annotation_str(self) -> _Text:
        """The type as an annotation."""
        if self.qualified:
            return self.qualified
        inside = ", ".join(item.annotation_str for item in self.items)
        return f"Tuple[{inside or '()'}]"

    def str(self) -> _Text:
        """Return the type as graphs print it."""
        if self.qualified:
            pairs = zip(self.fields, self.items, strict=True)
            return "NamedTuple(" + ", ".join(f"{name} : {item.str()}" for name, item in pairs) + ")"
        return "(" + ", ".join(item.str() for item in self.items) + ")"

    def elements(self) -> list[JitType]:
        """Return the types of the elements."""
        return list(self.items)

    containedTypes = elements  # noqa: N815


class UnionType(JitType):
    """Values of one of several types; ``Optional[T]`` is a union with None.

    Args:
        members: The types, of which none is a subtype of another; ``union_of`` sees to that.
    """

    def __init__(self, members: Sequence[JitType]) -> None:
        self.members = tuple(members)

    def _parts(self) -> Any:
        return frozenset(self.members)

    @property
    def is_optional(self) -> bool:
        """Whether this is ``Optional[T]`` for one T."""
        return len(self.members) == 2 and NONE in self.members

    def without(self, other: JitType) -> JitType:
        """Return the union without the members that are of another type."""
        return union_of([m for m in self.members if not is_subtype(m, other)])

    @property
    def annotation_str(self) -> _Text:
        """The type as an annotation."""
        if self.is_optional:
            return f"Optional[{self.without(NONE).annotation_str}]"
        return "Union[" + ", ".join(m.annotation_str for m in self.members) + "]"

    def str(self) -> _Text:
        """Return the type as graphs print it."""
        if self.is_optional:
            return f"{self.without(NONE).str()}?"
        return "Union(" + ", ".join(sorted(m.str() for m in self.members)) + ")"

    def getElementType(self) -> JitType:  # noqa: N802
        """Return the type without None."""
        return self.without(NONE)

    def kind(self) -> _Text:
        """Return the name of the kind of type."""
        return "OptionalType" if self.is_optional else "UnionType"

    def containedTypes(self) -> list[JitType]:  # noqa: N802
        """Return the members."""
        return list(self.members)


class FunctionType(JitType):
    """A compiled function as a value.

    Args:
        function: The function.
    """

    name = "Function"

    def __init__(self, function: Any) -> None:
        self.function = function

    def _parts(self) -> Any:
        return id(self.function)


class EnumType(JitType):
    """Members of an enumeration.

    Args:
        python: The class.
        value: Type of the members' values.
        qualified: Its name in printed code.
    """

    def __init__(self, python: Any, value: JitType, qualified: str) -> None:
        self.python = python
        self.value = value
        self.name = qualified
        self.graph_name = f"Enum<{qualified}>"

    def _parts(self) -> Any:
        return self.name, id(self.python)


class ClassType(JitType):
    """A class whose methods are scripts; modules have one, too.

    Args:
        name: Its qualified name in printed code.
        python: The Python class, None for a class from a file.
        is_module: Whether instances are modules.

    Attributes:
        attributes: Types of the attributes.
        constants: Values that are known to the compiler.
        methods: Compiled functions, by name.
        compile_method: Compiles a method at its first use, or returns None if there is none of this name.
    """

    def __init__(self, name: str, python: Any = None, is_module: bool = False) -> None:
        self.name = name
        self.python = python
        self.is_module = is_module
        self.is_interface = False
        self.attributes: dict[str, JitType] = {}
        self.constants: dict[str, Any] = {}
        self.parameters: set[str] = set()
        self.buffers: set[str] = set()
        self.methods: dict[str, Any] = {}
        self.properties: dict[str, tuple[str, str | None]] = {}
        self.compile_method: Callable[[str], Any] | None = None
        self.details: Any = None

    def _parts(self) -> Any:
        return id(self)

    def qualified_name(self) -> str:
        """Return the qualified name."""
        return self.name

    def getAttributes(self) -> list[tuple[str, JitType]]:  # noqa: N802  PyTorch's name
        """Return names and types of the attributes."""
        return list(self.attributes.items())

    def method(self, name: str) -> Any:
        """Return a method, compiled now if it was not; None if there is none."""
        if name not in self.methods and self.compile_method is not None:
            return self.compile_method(name)
        return self.methods.get(name)


class InterfaceType(ClassType):
    """A set of methods that classes have to have."""

    def __init__(self, name: str, python: Any = None, is_module: bool = False) -> None:
        super().__init__(name, python, is_module)
        self.is_interface = True


TENSOR: Final[JitType] = TensorType()
ANY: Final[JitType] = AnyType()
NUMBER: Final[JitType] = NumberType()
INT: Final[JitType] = IntType()
FLOAT: Final[JitType] = FloatType()
COMPLEX: Final[JitType] = ComplexType()
BOOL: Final[JitType] = BoolType()
STRING: Final[JitType] = StringType()
NONE: Final[JitType] = NoneType()
DEVICE: Final[JitType] = DeviceObjType()
DTYPE: Final[JitType] = ScalarTypeType()
LAYOUT: Final[JitType] = LayoutType()
MEMORY_FORMAT: Final[JitType] = MemoryFormatType()
GENERATOR: Final[JitType] = GeneratorType()
STREAM: Final[JitType] = StreamObjType()
STORAGE: Final[JitType] = StorageType()
ANY_LIST: Final[JitType] = AnyListType()
ANY_TUPLE: Final[JitType] = AnyTupleType()
NEVER: Final[JitType] = NeverType()
_BELOW: Final = {INT: (NUMBER,), FLOAT: (NUMBER,), COMPLEX: (NUMBER,), DTYPE: (INT,), LAYOUT: (INT,),
                 MEMORY_FORMAT: (INT,)}


def is_subtype(one: JitType, other: JitType) -> bool:
    """Whether values of one type are also of another."""
    if one is other or one == other or other is ANY or one is NEVER:
        return True
    if isinstance(one, UnionType):
        return all(is_subtype(member, other) for member in one.members)
    if isinstance(other, UnionType):
        return any(is_subtype(one, member) for member in other.members)
    if isinstance(one, TupleType):
        return other is ANY_TUPLE or (isinstance(other, TupleType) and _is_sub_tuple(one, other))
    if isinstance(one, ListType):
        return other is ANY_LIST
    if isinstance(other, InterfaceType):
        return isinstance(one, ClassType) and implements(one, other)
    if isinstance(one, FutureType) and type(one) is type(other):
        return is_subtype(one.element, other.element)
    return other in _BELOW.get(one, ())


def _is_sub_tuple(one: TupleType, other: TupleType) -> bool:
    if other.qualified and one.qualified != other.qualified:
        return False
    return len(one.items) == len(other.items) and all(map(is_subtype, one.items, other.items))


def implements(kind: ClassType, interface: InterfaceType) -> bool:
    """Whether a class has the methods of an interface, with fitting types."""
    for name, wanted in interface.methods.items():
        method = kind.method(name)
        if method is None:
            return False
        have, want = method.schema, wanted.schema
        if len(have.arguments) != len(want.arguments) or not is_subtype(have.returns, want.returns):
            return False
        pairs = zip(have.arguments[1:], want.arguments[1:], strict=True)
        if not all(is_subtype(given.type, taken.type) and taken.name == given.name for taken, given in pairs):
            return False
    return True


def union_of(members: Iterable[JitType]) -> JitType:
    """Return the type of values of any of several types."""
    flat: list[JitType] = []
    for member in members:
        flat += member.members if isinstance(member, UnionType) else [member]
    distinct: list[JitType] = []
    for kind in flat:
        if kind is ANY:
            return ANY
        if not any(is_subtype(kind, known) for known in distinct):
            distinct = [known for known in distinct if not is_subtype(known, kind)] + [kind]
    if not distinct:
        return NEVER
    return distinct[0] if len(distinct) == 1 else UnionType(distinct)


def optional(kind: JitType) -> JitType:
    """Return ``Optional[T]``."""
    return union_of([kind, NONE])


def is_optional(kind: JitType) -> bool:
    """Whether None is a value of a union."""
    return isinstance(kind, UnionType) and NONE in kind.members


def unify(one: JitType, other: JitType, to_union: bool = False) -> JitType | None:
    """Return the type of a value that is of one of two types; None if they have none in common."""
    if is_subtype(one, other):
        return other
    if is_subtype(other, one):
        return one
    if NONE in (one, other) or is_optional(one) or is_optional(other):
        rest = [kind.without(NONE) if isinstance(kind, UnionType) else kind for kind in (one, other)]
        inside = rest[0] if rest[1] is NONE else rest[1] if rest[0] is NONE else unify(rest[0], rest[1], to_union)
        return None if inside is None else optional(inside)
    if isinstance(one, TupleType) and isinstance(other, TupleType) and len(one.items) == len(other.items):
        parts = [unify(a, b) for a, b in zip(one.items, other.items, strict=True)]
        return TupleType([p for p in parts if p]) if all(parts) else None
    if isinstance(one, FutureType) and isinstance(other, FutureType):
        inside = unify(one.element, other.element)
        return None if inside is None else FutureType(inside)
    return union_of([one, other]) if to_union else None


def unify_all(kinds: Sequence[JitType], to_union: bool = False) -> JitType | None:
    """Return the type of a value that is of one of several types; None if they have none in common."""
    found: JitType | None = kinds[0]
    for kind in kinds[1:]:
        found = unify(found, kind, to_union) if found is not None else None
    return found


__all__ = [
    "ANY",
    "ANY_LIST",
    "ANY_TUPLE",
    "BOOL",
    "COMPLEX",
    "DEVICE",
    "DTYPE",
    "FLOAT",
    "GENERATOR",
    "INT",
    "LAYOUT",
    "MEMORY_FORMAT",
    "NEVER",
    "NONE",
    "NUMBER",
    "STORAGE",
    "STREAM",
    "STRING",
    "TENSOR",
    "AnyListType",
    "AnyTupleType",
    "AnyType",
    "AwaitType",
    "BoolType",
    "ClassType",
    "ComplexType",
    "DeviceObjType",
    "DictType",
    "EnumType",
    "FloatType",
    "FunctionType",
    "FutureType",
    "GeneratorType",
    "IntType",
    "InterfaceType",
    "JitType",
    "LayoutType",
    "ListType",
    "MemoryFormatType",
    "NeverType",
    "NoneType",
    "NumberType",
    "ScalarTypeType",
    "StorageType",
    "StreamObjType",
    "StringType",
    "TensorType",
    "TupleType",
    "UnionType",
    "implements",
    "is_optional",
    "is_subtype",
    "optional",
    "unify",
    "unify_all",
    "union_of",
]
