"""In-place forms: checks, the kernel into the tensor's own memory, the version counter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_core.autograd.conjugate import for_key
from tensocket_core.autograd.inplace import inplace_recorder
from tensocket_core.device import DeviceState
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.operator import Operator
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_core.dispatch.versions import bump, check_writable
from tensocket_core.geometry import broadcast_shapes, dense_overlaps, dense_overlaps_partially, overlaps_partially
from tensocket_core.keys import DTYPE_MASK, DTYPE_OF, SCALAR_MASK, SCALAR_SHIFT, dtype_bit
from tensocket_core.launch import entries
from tensocket_core.launch.entries import EntrySpec
from tensocket_core.launch.path import LadderOperator, Signature
from tensocket_core.promotion import can_cast, result_type
from tensocket_plugins.contract.errors import DtypeError, ShapeError
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.ir.element_types import arithmetic_dtype

from . import host_paths
from .pointwise import Pointwise
from .private import own

if TYPE_CHECKING:
    from tensocket_plugins.contract.plans import EntryPlan



def check_parts(operator: str, target: Any, operands: Iterable[Any]) -> None:
    """Refuse operands that overlap the target without having the same elements at the same places.

    Raises:
        ShapeError: One of them does. Operands with gaps are not checked, as in PyTorch; they are copied first.
    """
    out = target._array
    if any(dense_overlaps_partially(x._array, out) for x in operands if hasattr(x, "_array") and x is not target):
        raise shared_memory(operator, target)


def check_separate(operator: str, target: Any, *operands: Any) -> None:
    """Refuse operands that overlap a target that is written at indices.

    Raises:
        ShapeError: One of them does. Operands with gaps are not checked, as in PyTorch; they are copied first.
    """
    out = target._array
    if any(dense_overlaps(x._array, out) for x in operands if hasattr(x, "_array")):
        raise shared_memory(operator, target)


def shared_memory(operator: str, target: Any) -> ShapeError:
    """Return the error for an operand that overlaps the target."""
    return ShapeError(
        operator, f"an operand in the memory of the tensor of shape {list(target.shape)} that is written",
        "an operand and what is written share no elements, or all of them one by one",
        "clone() the operand first")


class InPlaceOperator(Operator):
    """An operator that modifies its first argument and returns it."""

    kind = "inplace"

    def recording(self, below: Callable[..., Any], key: int) -> Callable[..., Any]:
        """Return the recorder, which makes the target the result of the new node."""
        return below if self.derivative is None else inplace_recorder(self.name, for_key(self.derivative, key), below)


class InPlace(InPlaceOperator, LadderOperator):
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
        #: Recorded if the operator has no derivative: the earlier values are overwritten, so their gradient is 0.
        self.overwriting = Derivative(**{self.schema.names[0]: lambda grad: grad.new_zeros(grad.shape)})
        self.overwriting.bind(self.schema)
        # If a keyword's statement returns a result, the in-place form writes that to the tensor.
        self.keywords = {
            name: (
                default,
                statement.replace("return _arithmetic.with_alpha(",
                                  f"other = _arithmetic.scale_for_inplace({self.name!r}, ")
                if "with_alpha(" in statement
                else statement.replace("return ", "return input.copy_(", 1) + ")",
            )
            for name, (default, statement) in origin.keywords.items()
        }

    @property
    def is_recorded(self) -> bool:
        """True: an operator without derivative changes the tensor, too."""
        return True

    def recording(self, below: Callable[..., Any], key: int) -> Callable[..., Any]:
        """Return the recorder; without a derivative, the gradient of the overwritten values is zero."""
        if self.derivative is None:
            return inplace_recorder(self.name, self.overwriting, below)
        return super().recording(below, key)

    def signature(self, key: int, state: DeviceState) -> Signature:
        """Return the operator's signature, with the host kernel for in-place calls."""
        return replace(self.origin.signature(key, state), kernel=self._host_kernel(key, state))

    def compose(self, call: Signature) -> Callable[..., Any]:
        """Return the closure that checks, runs the operator, and counts the change."""
        origin = self.origin

        def run(target: Any, *args: Any) -> Any:
            held = own(self.name, target)
            given = [own(self.name, x) if hasattr(x, "_key") else x for x in args]
            self._check(held, given)
            check_parts(self.name, held, given)
            # If memory is shared, but not one to one, a kernel may read an element after it has been written.
            given = [x.detach().clone() if hasattr(x, "_key") and overlaps_partially(x._array, held._array) else x
                     for x in given]
            origin.run_inplace(held, *given)
            bump(held)
            return target

        return run

    def planned_path(self, call: Signature, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return the closure for large arrays."""
        origin = self.origin
        if origin.count != 2 or origin.extras:
            return None
        found = origin.planner(origin.signature(call.key, call.state))
        if found is None or found.result is not DTYPE_OF[call.key & DTYPE_MASK]:
            return None
        return found.in_place(bool(call.key & SCALAR_MASK), next_path, bump)

    def host_closure(self, call: Signature, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return the closure over the host kernel, which writes to the target."""
        if call.kernel is None:
            return None
        dtype, ufunc = DTYPE_OF[call.key & DTYPE_MASK], isinstance(call.kernel.run, np.ufunc)
        return host_paths.inplace(call.kernel, dtype, self.origin.converter(dtype), bool(call.key & SCALAR_MASK),
                                    ufunc, next_path)

    def entry(self, call: Signature) -> EntrySpec | None:
        """Return an entry that writes to the target, if NumPy computes the same bits."""
        if call.kernel is None or not entries.exact(self.origin.name):
            return None
        dtype, number = DTYPE_OF[call.key & DTYPE_MASK], bool(call.key & SCALAR_MASK)

        def build() -> EntryPlan:
            return replace(self.origin.entry_plan(dtype, dtype, number), shape="into")

        return EntrySpec((dtype, number), call.state.key | dtype_bit(dtype), build,
                         counted=True) if entries.served(dtype) else None

    def _host_kernel(self, key: int, state: DeviceState) -> Kernel | None:
        """Return the kernel for small arrays, if the key settles that dtype and kind of number fit."""
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
        return origin.host_kernel(state, dtype, dtype) if fits and arithmetic_dtype(dtype) is dtype else None

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
    """An in-place operator run by one function ``function(state, target, *args)``.

    Args:
        schema: Its schema.
        doc: Its documentation.
        run: The function.
        repeated: Whether elements of the target may share memory, because they are assigned the same value.
        shortcut: ``shortcut(target, *args)`` does the same to small arrays; False for calls that it does not serve.
        record: The rest of the record.
    """

    def __init__(self, schema: str, doc: str, run: Callable[..., Any], *, repeated: bool = False,
                 shortcut: Callable[..., bool] | None = None, **record: Any) -> None:
        super().__init__(schema, doc, function=False, **record)
        self.run = run
        self.shortcut = shortcut
        self.repeated = repeated

    def resolve_device(self, key: int) -> Callable[..., Any]:
        """Return one closure for all devices and mixtures of them: the target's device runs the function."""
        return self._paths()[0][1]

    def rungs(self, key: int, state: DeviceState) -> list[tuple[str, Callable[..., Any]]]:
        """Return the shortcut, if there is one, and the function, which serves every call."""
        return self._paths()

    def _paths(self) -> list[tuple[str, Callable[..., Any]]]:
        run, repeated, shortcut = self.run, self.repeated, self.shortcut

        def assign(target: Any, *args: Any) -> Any:
            held = own(self.name, target)
            check_writable(self.name, held, repeated)
            run(held._device_state, held, *[own(self.name, x) if hasattr(x, "_key") else x for x in args])
            bump(held)
            return target

        if shortcut is None:
            return [("compose", assign)]

        def assign_few(target: Any, *args: Any) -> Any:
            if not shortcut(target, *args):
                return assign(target, *args)
            bump(target)
            return target

        return [("host kernel", assign_few), ("compose", assign)]


#: In-place form by the name of its operator.
FORMS: Final[dict[str, InPlace]] = {}


def define_forms() -> None:
    """Make the in-place forms of all registered pointwise operators that have one."""
    for operator in list(OPERATORS.values()):
        if isinstance(operator, Pointwise) and operator.inplace and operator.name not in FORMS:
            FORMS[operator.name] = InPlace(operator)
