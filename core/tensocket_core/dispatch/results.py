"""Named results: tuples of tensors that PyTorch lists in ``return_types``."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, Final

from tensocket_plugins.contract.naming import package_name

#: All result classes by name.
RESULTS: Final[dict[str, Any]] = {}
#: By the class of an operator's results, the class of its results for tensors given as ``out=``.
OF_OUT: Final[dict[Any, Any]] = {}
#: Operators without ``out=``.
_WITHOUT_OUT: Final = ("histogramdd",)


def named_result(name: str, fields: tuple[str, ...]) -> Any:
    """Return the class of an operator's results, a named tuple that is printed as PyTorch prints it."""
    made = _named(name, fields)
    if name not in _WITHOUT_OUT:
        OF_OUT[made] = _named(f"{name}_out", fields)
    return made


def _named(name: str, fields: tuple[str, ...]) -> Any:
    made: Any = namedtuple(name, fields)  # type: ignore[misc]  # names are arguments
    plain = made.__new__

    def make(cls: Any, *values: Any, **named: Any) -> Any:
        """Make results from fields one by one, or from one sequence of them, as PyTorch's classes do."""
        if len(values) == 1 and not named and len(fields) > 1 and isinstance(values[0], (tuple, list)):
            values = tuple(values[0])
        return plain(cls, *values, **named)

    def represent(self: Any) -> str:
        parts = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self, strict=True))
        return f"{package_name()}.return_types.{name}(\n{parts})"

    setattr(made, "__new__", make)  # noqa: B010  as below
    setattr(made, "__repr__", represent)  # noqa: B010  the checker knows the class by its call
    made.__module__ = "tensocket.return_types"
    RESULTS[name] = made
    return made


__all__ = ["OF_OUT", "RESULTS", "named_result"]
