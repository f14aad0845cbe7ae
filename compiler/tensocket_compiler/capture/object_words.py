"""Parts of functions, classes, instances, tensors and arrays that guards watch; see ``words``."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from tensocket_core.tensor import Tensor

from .layout import layout
from .offsets import WORD, dict_place, read_word, slot_offset
from .words import Content, Fact, Part, Raw, Word


class FunctionPart(Part):
    """The fields of a function, and the attributes that code names; of one that did not run, only the latter.

    Args:
        ran: Whether it ran.
        names: Names of attributes; None for all.
        texts: Which of ``layout.DESCRIPTIONS`` code names.
    """

    __slots__ = ("names", "ran", "texts")
    fields: ClassVar = ("__code__", "__defaults__", "__kwdefaults__")

    def __init__(self, owner: types.FunctionType, path: str, ran: bool, names: frozenset[str] | None,
                 texts: Iterable[str] = ()) -> None:
        super().__init__(owner, path)
        self.ran, self.names, self.texts = ran, names, tuple(texts)

    def attributes(self) -> dict[str, Any]:
        """Return the function's dict, which it need not have yet."""
        return self.owner.__dict__ if read_word(id(self.owner) + layout().attributes) else {}

    def read(self) -> Iterable[Fact]:
        """Read the facts."""
        facts: list[Fact] = [(f".{name}", getattr(self.owner, name)) for name in self.fields] if self.ran else []
        facts += [(f".{name}", getattr(self.owner, name)) for name in self.texts]
        return facts + [(f".{name}", value) for name, value in list(self.attributes().items())
                        if self.names is None or name in self.names]

    def words(self) -> Iterable[Word]:
        """Return the words for the present facts."""
        at, place = layout(), id(self.owner)
        fields = [at.code, at.defaults, at.kwdefaults] if self.ran else []
        fields += [at.attributes, *(at.texts[name] for name in self.texts)]
        yield from ((0, place + field) for field in fields)
        table = read_word(place + at.attributes)
        if table:
            yield 1, table + at.version


class FieldsPart(Part):
    """All fields of an object of a type written in C, which only its ``__init__`` or ``__setstate__`` changes."""

    __slots__ = ()
    fields: ClassVar = ("func", "args", "keywords", "fget", "fset", "fdel", "__func__", "__self__")

    def read(self) -> Iterable[Fact]:
        """Read the facts."""
        return [(f".{name}", getattr(self.owner, name)) for name in self.fields if hasattr(type(self.owner), name)]

    def words(self) -> Iterable[Word]:
        """Return the words for the present facts."""
        kind = type(self.owner)
        yield from ((0, id(self.owner) + k) for k in range(object.__basicsize__, kind.__basicsize__, WORD))


class ClassPart(Part):
    """A class: its bases, its special methods, and the attributes that code names.

    Args:
        names: The names; None for all, in their order.
        texts: Which of ``layout.CLASS_DESCRIPTIONS`` code names.
    """

    __slots__ = ("names", "texts")

    def __init__(self, owner: type, path: str, names: frozenset[str] | None, texts: Iterable[str] = ()) -> None:
        super().__init__(owner, path)
        self.names, self.texts = names, tuple(texts)

    def read(self) -> Iterable[Fact]:
        """Read the facts."""
        names = self.names
        facts = [(f".{name}", value) for name, value in list(vars(self.owner).items())
                 if names is None or name in names or (name[:2] == "__" == name[-2:])]
        facts += [(f".{name}", vars(type)[name].__get__(self.owner)) for name in self.texts]
        if names is not None:
            facts.sort(key=lambda fact: fact[0])
        return [*facts, (".__mro__", self.owner.__mro__)]

    def words(self) -> Iterable[Word]:
        """Return the words for the present facts."""
        if self.has_version():
            yield 0, id(self.owner) + layout().type_version
        yield from ((0, id(self.owner) + layout().class_texts[name]) for name in self.texts)

    def unequal(self) -> Iterable[tuple[int, int]]:
        """Return words and the values that they must not have: some that they have, if no word tells of changes."""
        if not self.has_version():
            place = id(self.owner) + layout().kind_of
            yield place, read_word(place)

    def has_version(self) -> bool:
        """Whether the class has a version tag; a look-up gives it one, unless the interpreter ran out of them."""
        type.__getattribute__(self.owner, "__init__")
        return read_word(id(self.owner) + layout().type_version) & 0xFFFFFFFF != 0


class InstancePart(Part):
    """An object's class, its dict as an object, and its slots.

    Args:
        slots: Name to descriptor of the slots that code names.
    """

    __slots__ = ("slots",)

    def __init__(self, owner: Any, path: str, slots: dict[str, Any]) -> None:
        super().__init__(owner, path)
        self.slots = slots

    def read(self) -> Iterable[Fact]:
        """Read the facts."""
        owner, place = self.owner, dict_place(self.owner)
        facts: list[Fact] = [(".__class__", type(owner)), (".__dict__", Raw(read_word(place) if place else 0))]
        for name, slot in self.slots.items():
            if read_word(id(owner) + slot_offset(slot, layout())):
                facts.append((f".{name}", slot.__get__(owner)))
        return facts

    def words(self) -> Iterable[Word]:
        """Return the words for the present facts."""
        at, place = layout(), dict_place(self.owner)
        yield 0, id(self.owner) + at.kind_of
        if place:
            yield 0, place
        yield from ((0, id(self.owner) + slot_offset(slot, at)) for name, slot in self.slots.items()
                    if f".{name}" not in self.cut)


#: Slots of tensors that guards watch, with their labels. Elements and their version are data.
TENSOR_SLOTS: Final = {"_array": ".data", "_key": ".dtype", "_grad": ".grad", "_grad_fn": ".grad_fn", "_base": "._base"}


class TensorPart(InstancePart):
    """A tensor: its class, its memory and layout, its key (dtype, device, whether it requires a gradient), its graph.

    Where each call writes ``grad``, the words only tell whether there is a gradient at all.

    Args:
        owner: The tensor.
        path: Its path.
        graded: Whether code may have read ``grad``, which most calls between two steps of training have replaced.
    """

    __slots__ = ("graded",)

    def __init__(self, owner: Tensor, path: str, graded: bool = True) -> None:
        super().__init__(owner, path, {name: vars(Tensor)[name] for name in TENSOR_SLOTS
                                       if graded or name != "_grad"})
        self.graded = graded

    def read(self) -> Iterable[Fact]:
        """Read the facts."""
        tensor = self.owner
        place, array = dict_place(tensor), tensor._array
        facts: list[Fact] = [(".__class__", type(tensor)), (".__dict__", Raw(read_word(place) if place else 0))]
        facts += [(TENSOR_SLOTS[name], getattr(tensor, name)) for name in self.slots if name != "_key"]
        facts.append((".dtype", Raw(tensor._key)))  # programs see the key's parts, never the number
        facts.append((".data_ptr()", Raw(read_word(id(array) + layout().data)) if is_array(array) else None))
        facts.append((".shape", tuple(map(Raw, array.shape))))  # each read of a shape makes new numbers
        if ".grad" in self.cut:
            facts.append((".grad is None", tensor._grad is None))
        return facts

    def words(self) -> Iterable[Word]:
        """Return the words for the present facts."""
        at, place = layout(), dict_place(self.owner)
        yield from ((0, id(self.owner) + at.kind_of), (0, place))
        for name, slot in self.slots.items():
            if TENSOR_SLOTS[name] not in self.cut or (name == "_grad" and self.owner._grad is None):
                yield 0, id(self.owner) + slot_offset(slot, at)
        if is_array(self.owner._array) and ".data" not in self.cut:
            yield 0, id(self.owner._array) + at.data

    def unequal(self) -> Iterable[tuple[int, int]]:
        """Return words and the values that they must not have."""
        if ".grad" in self.cut and self.owner._grad is not None:
            yield id(self.owner) + slot_offset(self.slots["_grad"], layout()), id(None)


def is_array(array: Any) -> bool:
    """Whether a tensor's handle is a NumPy array, whose pointer guards watch; handles of devices keep theirs."""
    return type(array).__module__ == "numpy"


class ArrayPart(Part):
    """A small NumPy array, with its elements. Words at its ends may hold bytes of others, which raise false alarms."""

    __slots__ = ()

    def read(self) -> Iterable[Fact]:
        """Read the facts."""
        array = self.owner
        form = (array.shape, array.strides, array.dtype.str, array.flags.writeable)
        return [(".shape", form), ("", Content(array.tobytes())), (".data", Raw(self._start()))]

    def _start(self) -> int:
        return read_word(id(self.owner) + layout().data)

    def words(self) -> Iterable[Word]:
        """Return the words for the present facts."""
        at, place = layout(), id(self.owner)
        yield from ((0, place + field) for field in (at.data, at.rank, at.shape, at.strides))
        for field in (at.shape, at.strides):
            yield from ((1, read_word(place + field) + WORD * k) for k in range(self.owner.ndim))
        start = self._start()
        first, last = start // WORD * WORD, start + int(self.owner.nbytes)
        yield from ((1, address) for address in range(first, last, WORD))
