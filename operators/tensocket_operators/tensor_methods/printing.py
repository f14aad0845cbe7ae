"""``repr`` of tensors, in PyTorch's form."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_core.promotion import get_default_dtype, number_dtype
from tensocket_core.tensor import tensor_methods
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, AutogradError

if TYPE_CHECKING:
    from tensocket_core.tensor import Tensor


@dataclass(slots=True)
class PrintOptions:
    """Options of printing; attributes as the arguments of ``set_printoptions``."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


#: The current options.
PRINT_OPTIONS: Final = PrintOptions()
_PROFILES: Final = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}


def set_printoptions(precision: int | None = None, threshold: float | None = None, edgeitems: int | None = None,
                     linewidth: int | None = None, profile: str | None = None, sci_mode: bool | None = None) -> None:
    """Set how tensors are printed; None keeps an option, except that None sets ``sci_mode`` to automatic.

    Args:
        precision: Digits after the decimal point.
        threshold: Number of elements above which only the edges are shown.
        edgeitems: Elements shown at either edge of a dimension.
        linewidth: Characters of a line.
        profile: ``default``, ``short`` or ``full``; the other options override it.
        sci_mode: Scientific notation always, never, or (None) only when magnitudes differ widely.

    Raises:
        ArgumentError: No profile has this name.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ArgumentError("set_printoptions", f"profile={profile!r}",
                                "the profile is 'default', 'short' or 'full'", "pass one of these")
        chosen = _PROFILES[profile]
        PRINT_OPTIONS.precision, PRINT_OPTIONS.threshold = chosen.precision, chosen.threshold
        PRINT_OPTIONS.edgeitems, PRINT_OPTIONS.linewidth = chosen.edgeitems, chosen.linewidth
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in given.items():
        if value is not None:
            setattr(PRINT_OPTIONS, name, value)
    PRINT_OPTIONS.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """Return the current options, as keyword arguments of ``set_printoptions``."""
    return asdict(PRINT_OPTIONS)


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Set options for a ``with`` block; arguments as those of ``set_printoptions``."""
    before = replace(PRINT_OPTIONS)
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**asdict(before))


def format_tensor(tensor: Tensor, contents: str | None = None) -> str:
    """Return the tensor's values, and its dtype, device and autograd state where they differ from the defaults.

    Args:
        tensor: The tensor.
        contents: Text for the values, which a subclass may supply.
    """
    prefix = "tensor(" if "_plain_repr" in type(tensor).__dict__ else f"{type(tensor).__name__}("
    meta = tensor.device.type == "meta"
    if contents is None:
        contents = "..." if meta else format_values(tensor, len(prefix))
    text = with_suffixes(prefix + contents, _suffixes(tensor, meta), len(prefix))
    return f"Parameter({text})" if "_is_param" in tensor.__dict__ else text


def format_sparse(tensor: Any, parts: dict[str, Tensor]) -> str:
    """Return the text of a sparse tensor: parts, size, number of elements, layout, and attributes that are not default.

    Args:
        tensor: The tensor.
        parts: Positions and values by name.
    """
    indent, texts = len("tensor("), []
    for name, part in parts.items():
        head = f"{name}=tensor("
        body = "..." if part.device.type == "meta" else format_values(part, indent + len(head))
        texts.append(f"{head}{body}" + (f", size={tuple(part.shape)})" if body == "..." or not part.numel() else ")"))
    suffixes = [f"device='{tensor.device}'"] if tensor.device.type != "cpu" else []
    suffixes += [f"size={tuple(tensor.shape)}"]
    suffixes += [] if tensor.device.type == "meta" else [f"nnz={tensor._nnz()}"]
    if tensor.dtype not in (get_default_dtype(), number_dtype(3), dtypes.int64, dtypes.bool_):
        suffixes.append(f"dtype={tensor.dtype!r}")
    suffixes.append(f"layout={tensor.layout!r}")
    if tensor.grad_fn is not None:
        suffixes.append(f"grad_fn=<{type(tensor.grad_fn).__name__}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    text = "tensor(" + (",\n" + " " * indent).join(texts)
    if tensor.is_sparse:
        text += ",\n" + " " * indent + suffixes.pop(0)
    return with_suffixes(text, suffixes, indent)


def format_values(tensor: Tensor, indent: int) -> str:
    """Return the values in brackets.

    Args:
        tensor: The tensor.
        indent: The column of the first bracket.
    """
    if tensor.numel() == 0:
        return "[]"
    values = tensor._values()
    return _Printer(values).nested(values, indent)


def _suffixes(tensor: Tensor, meta: bool) -> list[str]:
    empty = tensor.numel() == 0
    suffixes = []
    if tensor.device.type != "cpu":
        suffixes.append(f"device='{tensor.device}'")
    if meta or (empty and tensor.ndim != 1) or (not empty and not PRINT_OPTIONS.edgeitems):
        suffixes.append(f"size={tuple(tensor.shape)}")
    implied = (
        (get_default_dtype(),)
        if meta or empty
        else (get_default_dtype(), number_dtype(3), dtypes.int64, dtypes.bool_)
    )
    if tensor.dtype not in implied:
        suffixes.append(f"dtype={tensor.dtype!r}")
    try:
        made = tensor.grad_fn
    except AutogradError:  # a view that lost its history
        suffixes.append("grad_fn=<Invalid>")
        return suffixes
    if made is not None:
        suffixes.append(f"grad_fn=<{type(made).__name__}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    return suffixes


def with_suffixes(text: str, suffixes: list[str], indent: int, force_newline: bool = False) -> str:
    """Append the suffixes to the values, on a new line if they do not fit, and the bracket at the end.

    Args:
        text: The values.
        suffixes: The suffixes.
        indent: Spaces before a suffix on a new line.
        force_newline: Whether the first suffix begins a line.
    """
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if force_newline or column + len(suffix) + 2 > PRINT_OPTIONS.linewidth:
            text += ",\n" + " " * indent + suffix
            column, force_newline = indent + len(suffix), False
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"


class _Column:
    """The common format and width of real numbers, chosen from those other than 0, infinity and NaN."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.width = 1
        self.form = ""
        if values.dtype.kind != "f":
            self.width = max((len(str(v)) for v in values.ravel().tolist()), default=1)
            return
        numbers = values.ravel().astype(np.float64)
        finite = numbers[np.isfinite(numbers) & (numbers != 0)]
        self.form = self._form(finite)
        # A decimal point follows a whole number.
        self.width = max((len(self._text(v)) for v in finite.tolist()), default=1)

    @staticmethod
    def _form(finite: np.ndarray[Any, Any]) -> str:
        """Return the format: whole, with digits, or scientific if magnitudes differ widely."""
        if not finite.size:
            return "whole"
        size = np.abs(finite)
        scientific = PRINT_OPTIONS.sci_mode
        if scientific is None:
            low, high = float(size.min()), float(size.max())
            scientific = high / low > 1000 or high > 1e8 or low < 1e-4
        if scientific:
            return f".{PRINT_OPTIONS.precision}e"
        return "whole" if bool(np.all(size == np.floor(size))) else f".{PRINT_OPTIONS.precision}f"

    def _text(self, value: Any) -> str:
        if not self.form:
            return str(value)
        if self.form == "whole":
            return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"
        return format(value, self.form)

    def word(self, value: Any) -> str:
        """Return one number, padded to the column's width."""
        return self._text(value).rjust(self.width)


class _Printer:
    """A printer of the nested brackets of one tensor."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.summary = values.size > PRINT_OPTIONS.threshold
        shown = _edges(values) if self.summary else values
        self.imaginary: _Column | None = None
        if values.dtype.kind == "c":
            self.real, self.imaginary = _Column(shown.real), _Column(shown.imag)
        else:
            self.real = _Column(shown)

    def word(self, value: Any) -> str:
        """Return the text of one number."""
        if self.imaginary is None:
            return self.real.word(value)
        imaginary = (self.imaginary.word(value.imag) + "j").lstrip()
        return self.real.word(value.real) + ("" if imaginary[0] in "+-" else "+") + imaginary

    def nested(self, values: np.ndarray[Any, Any], indent: int) -> str:
        """Return the parts of one dimension in brackets."""
        if values.ndim == 0:
            return self.word(values.item())
        cut = self.summary and values.shape[0] > 2 * PRINT_OPTIONS.edgeitems
        if values.ndim == 1:
            return self._line(values, cut, indent)
        edge = PRINT_OPTIONS.edgeitems
        rows = [*values[:edge], None, *values[len(values) - edge :]] if cut else list(values)
        parts = ["..." if row is None else self.nested(row, indent + 1) for row in rows]
        return "[" + ("," + "\n" * (values.ndim - 1) + " " * (indent + 1)).join(parts) + "]"

    def _line(self, values: np.ndarray[Any, Any], cut: bool, indent: int) -> str:
        edge = PRINT_OPTIONS.edgeitems
        if self.summary and not edge:
            words = ["..."]
        elif cut:
            words = [*map(self.word, values[:edge].tolist()), " ...", *map(self.word, values[-edge:].tolist())]
        else:
            words = [self.word(v) for v in values.tolist()]
        width = self.real.width + 2 + (0 if self.imaginary is None else self.imaginary.width + 1)
        count = max(1, (PRINT_OPTIONS.linewidth - indent) // width)
        lines = [", ".join(words[k : k + count]) for k in range(0, len(words), count)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _edges(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the elements at the edges of a tensor that is too large to show."""
    edge = PRINT_OPTIONS.edgeitems
    for axis, size in enumerate(values.shape):
        if size > 2 * edge:
            values = np.take(values, [*range(edge), *range(size - edge, size)], axis)
    return values


@tensor_methods
class Printing:
    """The text form of tensors."""

    __slots__ = ()

    def __repr__(self: Any, *, tensor_contents: str | None = None) -> str:
        return format_tensor(self, tensor_contents)
