"""In-place forms: checks, the kernel into the tensor's own memory, the version counter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.contract.native import NativeForm
from tensocket_plugins.ir.nodes import Program

from ..autograd.conjugate import for_key
from ..autograd.derivative import Derivative
from ..autograd.inplace import inplace_recorder
from ..device import DeviceEntry
from ..dispatch.keys import DTYPE_MASK, DTYPE_OF, SCALAR_MASK, SCALAR_SHIFT, dtype_bit
from ..dispatch.operator import Operator
from ..promotion import can_cast, result_type
from . import dense, direct, native
from .geometry import broadcast_shapes, element_strides, overlapping, partly_shared, share_a_part
from .lazy import plain_handle
from .math import arithmetic_dtype
from .pointwise import Pointwise
from .private import own


def bump(target: Any) -> None:
    """Count a change, for all views."""
    counter = target._version_counter
    if counter is None:
        target._version_counter = [1]
    else:
        counter[-1] += 1


def check_writable(operator: str, target: Any, repeated: bool = False) -> None:
    """Refuse tensors whose elements share memory, unless writing an element ``repeated``ly makes no difference.

    Raises:
        ShapeError: A dimension of more than one element has stride 0.
        AutogradError: The tensor is an inference tensor, outside of inference mode.
        ArgumentError: The memory is somebody else's, who shares it for reading only.
    """
    if target._version_counter is not None:
        target._version_counter[-1]  # refuses
    array = plain_handle(target._array)
    if repeated:
        pass
    elif array.size and any(s == 0 and n > 1 for s, n in zip(element_strides(array), array.shape, strict=True)):
        raise ShapeError(
            operator,
            f"an expanded tensor of shape {list(array.shape)}",
            "elements that are written have memory of their own",
            "clone() it first",
        )
    if type(array) is np.ndarray and not array.flags.writeable:
        raise ArgumentError(operator, f"a tensor of shape {list(array.shape)} on read-only memory",
                            "the owner of the memory does not allow writing", "clone() it first")


def check_parts(operator: str, target: Any, operands: Iterable[Any]) -> None:
    """Refuse operands that lie in the memory of what is written, but not element by element.

    Raises:
        ShapeError: One does. Operands with gaps are not looked at, as in PyTorch; they are copied first.
    """
    out = target._array
    if any(share_a_part(x._array, out) for x in operands if hasattr(x, "_array") and x is not target):
        raise shared_memory(operator, target)


def check_separate(operator: str, target: Any, *operands: Any) -> None:
    """Refuse operands that lie in the memory of what is written at indices.

    Raises:
        ShapeError: One does. Operands with gaps are not looked at, as in PyTorch; they are copied first.
    """
    out = target._array
    if any(overlapping(x._array, out) for x in operands if hasattr(x, "_array")):
        raise shared_memory(operator, target)


def shared_memory(operator: str, target: Any) -> ShapeError:
    """The error for an operand in the memory of what is written."""
    return ShapeError(
        operator, f"an operand in the memory of the tensor of shape {list(target.shape)} that is written",
        "an operand and what is written share no elements, or all of them one by one",
        "clone() the operand first")


class InPlaceOperator(Operator):
    """An operator that modifies its first argument and returns it."""

    kind = "inplace"

    def recording(self, below: Callable[..., Any], key: int) -> Callable[..., Any]:
        """Recording makes the target the result of the new node."""
        return below if self.derivative is None else inplace_recorder(self.name, for_key(self.derivative, key), below)


class InPlace(InPlaceOperator):
    """The in-place form of a pointwise operator."""

    def __init__(self, origin: Pointwise) -> None:
        text = origin.schema.text
        super().__init__(
            f"{origin.name}_(Tensor!{text[text.index(' ', text.index('(')) :]}",
            f"In-place form of {origin.name}.",
            function=False,
            aliases=tuple(f"{alias}_" for alias in origin.aliases),
        )
        self.origin = origin
        self.derivative = origin.derivative
        #: What is recorded without a derivative: the values from before are gone, whatever is written in their place.
        self.overwriting = Derivative(**{self.schema.names[0]: lambda grad: grad.new_zeros(grad.shape)})
        self.overwriting.bind(self.schema)
        # A keyword whose statement returns a result of its own: it is written to the tensor.
        self.keywords = {
            name: (
                default,
                statement.replace("return _arithmetic.with_alpha(",
                                  f"other = _arithmetic.scaled_beside({self.name!r}, ")
                if "with_alpha(" in statement
                else statement.replace("return ", "return input.copy_(", 1) + ")",
            )
            for name, (default, statement) in origin.keywords.items()
        }

    @property
    def is_recorded(self) -> bool:
        """True: also what has no derivative changes the tensor."""
        return True

    def recording(self, below: Callable[..., Any], key: int) -> Callable[..., Any]:
        """Without a derivative, the gradient of what was overwritten is zero."""
        if self.derivative is None:
            return inplace_recorder(self.name, self.overwriting, below)
        return super().recording(below, key)

    def build(self, key: int, entry: DeviceEntry) -> Callable[..., Any]:
        """Check, run, count."""
        origin = self.origin
        origin.check_key(key)
        kernel = self._direct(key, entry)

        def run(target: Any, *args: Any) -> Any:
            held = own(self.name, target)
            given = [own(self.name, x) if hasattr(x, "_key") else x for x in args]
            self._check(held, given)
            check_parts(self.name, held, given)
            # A kernel may read an element after it was written where memory is shared, but not one to one.
            given = [x.detach().clone() if hasattr(x, "_key") and partly_shared(x._array, held._array) else x
                     for x in given]
            origin.run_inplace(held, *given)
            bump(held)
            return target

        general = self._dense(key, entry, run) or run
        if kernel is None:
            return general
        dtype, number, ufunc = DTYPE_OF[key & DTYPE_MASK], bool(key & SCALAR_MASK), isinstance(kernel.run, np.ufunc)

        def make(kernel: Kernel) -> Callable[..., Any]:
            return direct.inplace(kernel, dtype, origin.converter(dtype), number, ufunc, general)

        def form() -> tuple[Program, NativeForm]:
            program, found = origin.native_form(dtype, dtype, number)
            return program, replace(found, shape="into")

        if not native.exact(origin.name) or not native.served(dtype):
            return make(kernel)
        return native.native_closure(self, entry, (dtype, number), entry.key | dtype_bit(dtype), kernel, form, make)

    def _dense(self, key: int, entry: DeviceEntry, general: Callable[..., Any]) -> Callable[..., Any] | None:
        """The closure for large arrays."""
        found = self.origin.launcher(key, entry) if self.origin.count == 2 and not self.origin.extras else None
        fits = found is not None and found.result is DTYPE_OF[key & DTYPE_MASK]
        return dense.in_place(found, general, bump) if found is not None and fits else None

    def _direct(self, key: int, entry: DeviceEntry) -> Kernel | None:
        """The kernel for small arrays, where the key settles that dtype and number kind fit."""
        origin, bits = self.origin, key & DTYPE_MASK
        number = (key & SCALAR_MASK).bit_length()
        if origin.count != 2 or origin.extras or bits & (bits - 1):
            return None
        dtype = DTYPE_OF[bits]
        if (number or origin.guard_values) and origin.guarded(dtype):
            return None
        if number and not SCALAR_SHIFT < number <= SCALAR_SHIFT + 1 + dtype.category:
            return None
        fits = origin.result_dtype(dtype) is dtype
        return origin.direct_kernel(entry, dtype, dtype) if fits and arithmetic_dtype(dtype) is dtype else None

    def _check(self, target: Any, args: Sequence[Any]) -> None:
        others = args[: self.origin.count - 1]
        result = self.origin.result_dtype(result_type((target, *others)))
        if self.origin.result == "real" and target.dtype.kind == "complex":
            raise DtypeError(self.name, f"a tensor of dtype {target.dtype.name}", "the result is real",
                             "use the out-of-place form")
        if not can_cast(result, target.dtype):
            raise DtypeError(
                self.name,
                f"a result of dtype {result.name} for a tensor of dtype {target.dtype.name}",
                "an in-place result keeps the tensor's dtype category",
                "use the out-of-place form, or convert the tensor",
            )
        shape = target._array.shape
        if broadcast_shapes(self.name, [shape, *(x._array.shape for x in others if hasattr(x, "_key"))]) != shape:
            raise ShapeError(self.name, f"operands that broadcast beyond the tensor's shape {list(shape)}",
                             "an in-place result has the tensor's shape", "use the out-of-place form")
        check_writable(self.name, target)


class Assign(InPlaceOperator):
    """An in-place operator run by one function ``function(entry, target, *args)``.

    Args:
        schema: Its schema.
        doc: Its documentation.
        run: The function.
        repeated: Whether elements that share memory get the same value, so that they may.
        record: The rest of the record.
    """

    def __init__(self, schema: str, doc: str, run: Callable[..., Any], *, repeated: bool = False,
                 **record: Any) -> None:
        super().__init__(schema, doc, function=False, **record)
        self.run = run
        self.repeated = repeated

    def resolve_device(self, key: int) -> Callable[..., Any]:
        """One closure for all devices, also mixed ones: the target's is in charge."""
        run, repeated = self.run, self.repeated

        def assign(target: Any, *args: Any) -> Any:
            held = own(self.name, target)
            check_writable(self.name, held, repeated)
            run(held._entry, held, *[own(self.name, x) if hasattr(x, "_key") else x for x in args])
            bump(held)
            return target

        return assign
