"""Weak references, and mappings whose keys compare by identity: for tensors, ``==`` is elementwise."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from tensocket_operators import Tensor


class WeakIdRef(weakref.ref):  # type: ignore[type-arg]
    """A weak reference that equals other references to the same object."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: Any) -> bool:
        mine, its = self(), other()
        return self is other if mine is None or its is None else mine is its

    def __ne__(self, other: Any) -> bool:
        # The method of ``weakref.ref`` compares the objects.
        return not self == other


class _WeakHashRef(WeakIdRef):
    """A weak reference that equals references to objects with the same hash, as those of scripts have."""

    __slots__ = ()

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        super().__init__(key, callback)
        self._id = hash(key)

    __hash__ = WeakIdRef.__hash__

    def __eq__(self, other: Any) -> bool:
        mine, its = self(), other()
        return self is other if mine is None or its is None else hash(mine) == hash(its)


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A mapping from objects by identity; a pair is removed when no other reference to its key is left.

    Args:
        dict: A mapping, or pairs, to start from.
        ref_type: The class of the weak references.
    """

    def __init__(self, dict: Any = None, ref_type: type[WeakIdRef] = WeakIdRef) -> None:
        self.data: dict[WeakIdRef, Any] = {}
        self.ref_type = ref_type
        mine = weakref.ref(self)

        def remove(reference: WeakIdRef) -> None:
            owner = mine()
            if owner is not None:
                owner.data.pop(reference, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # the object does not support weak references
            return False

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        # Iterate over a copy, because keys may disappear meanwhile.
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def items(self) -> Iterator[tuple[Any, Any]]:  # type: ignore[override]
        """Yield the pairs whose key is still alive."""
        for reference, value in list(self.data.items()):
            key = reference()
            if key is not None:
                yield key, value

    def keys(self) -> Iterator[Any]:  # type: ignore[override]
        """Yield the keys."""
        return iter(self)

    def values(self) -> Iterator[Any]:  # type: ignore[override]
        """Yield the values."""
        return (value for _, value in self.items())

    def keyrefs(self) -> list[WeakIdRef]:
        """Return weak references to the keys."""
        return list(self.data)

    def popitem(self) -> tuple[Any, Any]:
        """Remove and return the last pair.

        Raises:
            KeyError: The mapping is empty.
        """
        while True:
            reference, value = self.data.popitem()
            key = reference()
            if key is not None:
                return key, value

    def update(self, other: Any = None, /, **keywords: Any) -> None:
        """Add pairs; read all of them before the first one is added, so that errors of reading change nothing.

        Args:
            other: A mapping, or pairs; None for no pairs.
            keywords: More pairs.
        """
        pairs = dict(() if other is None else other) if not isinstance(other, Mapping) else other
        super().update(list(pairs.items()), **keywords)

    def __copy__(self) -> WeakIdKeyDictionary:
        return type(self)(self, self.ref_type)

    copy = __copy__

    def __deepcopy__(self, memo: Any) -> WeakIdKeyDictionary:
        """Return the same keys with copies of the values."""
        return type(self)([(key, copy.deepcopy(value, memo)) for key, value in self.items()], self.ref_type)

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, Mapping):
            return NotImplemented
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other: Any) -> Any:
        return type(self)(other, self.ref_type) | self if isinstance(other, Mapping) else NotImplemented

    def __ior__(self, other: Any) -> WeakIdKeyDictionary:
        self.update(other)
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return {id(key): value for key, value in self.items()} == {id(key): value for key, value in other.items()}

    __hash__ = None  # type: ignore[assignment]


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor; a call returns the tensor, or None after its deletion.

    Args:
        tensor: The tensor.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Tensor | None:
        """Return the tensor."""
        return self.ref()


__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]
