"""Fake tensors: shape, strides, dtype and device of results, computed on the device meta, without memory.

A fake tensor is backed by a meta tensor (which has no memory) and reports another device. Below autograd, its operators
run on meta, and their results are fake tensors again; so views, in-place operators and gradients work as for real
tensors. One-element tensors that a program writes as numbers (``torch.tensor(4.0)``) keep their value as a *constant*,
as long as they meet only constants.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from tensocket.utils._python_dispatch import is_traceable_wrapper_subclass
from tensocket.utils.weak import WeakIdKeyDictionary
from tensocket_core import device
from tensocket_core.device import DeviceState, default_state, open_device
from tensocket_core.dispatch.modes import STATE, thread_state
from tensocket_core.dispatch.overrides import version_counter
from tensocket_core.dispatch.protocol import TorchDispatchMode
from tensocket_core.keys import DIM0, dtype_bit
from tensocket_core.promotion import get_default_dtype
from tensocket_core.pytree import tree_leaves, tree_map
from tensocket_operators import Tensor, empty
from tensocket_operators.creation.record import Factory
from tensocket_plugins.contract.errors import (
    ArgumentError,
    DeviceMismatch,
    MissingDataError,
    TransformError,
    UnsupportedOperator,
)

#: Factories that take values instead of sizes; their small results are constants.
_VALUES: Final = frozenset({"tensor", "as_tensor", "asarray", "from_numpy", "new_tensor"})
#: Operators that read or write tensors of several devices; results are on the device of the first one.
_SEVERAL: Final = frozenset({"copy_", "index", "index_put", "index_put_"})
_new = object.__new__


class DataDependentOutputException(TransformError):
    """The error for operators that need the values of a fake tensor."""


class UnsupportedFakeTensorException(TransformError):
    """The error for tensors that cannot be faked."""


class FakeTensor(Tensor):
    """A tensor without memory.

    Attributes:
        fake_mode: The mode that made it.
        constant: Its value as a real tensor, if known.
    """

    fake_mode: FakeTensorMode
    constant: Tensor | None

    def __new__(cls, fake_mode: FakeTensorMode, elem: Any, device: Any, constant: Any = None) -> FakeTensor:
        """Return a tensor on ``device`` that is backed by ``elem``, a meta tensor."""
        state = open_device(device)
        made = _new(cls)
        made._array = elem._array
        made._key = state.key | dtype_bit(elem.dtype) | cls._class_key | (0 if elem.shape else DIM0)
        made._grad = made._grad_fn = made._version_counter = made._base = None
        made.fake_mode = fake_mode
        made.constant = constant
        if constant is not None:
            fake_mode.know(made)
        return made

    @property
    def _device_state(self) -> DeviceState:
        """The entry that runs its operators: composites that check their operands' device get one without values."""
        return _fake_entry(self.device)

    @property
    def fake_device(self) -> device:
        """The device that it reports."""
        return self.device

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator outside of the mode's block."""
        found = next(x for x in tree_leaves((args, kwargs)) if isinstance(x, FakeTensor))
        return found.fake_mode.dispatch(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        parts = ["...", f"size={tuple(self.shape)}"]
        if self.device.type != "cpu":
            parts.insert(1, f"device='{self.device}'")
        if self.dtype is not get_default_dtype():
            parts.append(f"dtype=torch.{self.dtype.name}")
        if self._grad_fn is not None:
            parts.append(f"grad_fn=<{self._grad_fn.name()}>")
        elif self.requires_grad:
            parts.append("requires_grad=True")
        return f"FakeTensor({', '.join(parts)})"

    __str__ = __repr__

    def tolist(self) -> Any:
        """Return the values as numbers, if they are known."""
        return self._host().tolist()


def _values(self: FakeTensor) -> Any:
    """Return the values of a constant.

    Raises:
        DataDependentOutputException: The tensor is not a constant.
    """
    if self.constant is None:
        raise DataDependentOutputException("FakeTensor", "the values of a fake tensor", "fake tensors have no values",
                                           "compute with real tensors, or keep the code from branching on values")
    return self.constant._host()


# Class creation replaces this method in all classes with __torch_dispatch__.
FakeTensor._host = _values  # type: ignore[method-assign]


@cache
def _fake_entry(place: device) -> DeviceState:
    """Return the device meta under another name."""
    state = copy.copy(open_device("meta"))
    state.device = place
    return state


class FakeTensorConverter:
    """A converter from real to fake tensors; a real tensor has one fake tensor as long as it lives."""

    def __init__(self) -> None:
        self.tensor_memo: Any = WeakIdKeyDictionary()

    def from_real_tensor(self, fake_mode: FakeTensorMode, t: Any) -> FakeTensor:
        """Return the fake tensor of a tensor: with its geometry, dtype, device, gradient and class of parameter."""
        if t not in self.tensor_memo:
            self.tensor_memo[t] = self._convert(fake_mode, t)
        found: FakeTensor = self.tensor_memo[t]
        return found

    def from_meta_and_device(self, fake_mode: FakeTensorMode, t: Any, device: Any) -> FakeTensor:
        """Return the fake tensor on ``device`` of a meta tensor."""
        if t not in self.tensor_memo:
            self.tensor_memo[t] = FakeTensor(fake_mode, t, device)
        found: FakeTensor = self.tensor_memo[t]
        return found

    def _convert(self, fake_mode: FakeTensorMode, t: Any) -> FakeTensor:
        if type(t) is not Tensor and not getattr(t, "_is_param", False) and t._class_key:
            raise UnsupportedFakeTensorException("from_tensor", f"a {type(t).__name__}",
                                                 "plain tensors and parameters are faked", "unwrap it first")
        with thread_state(dispatch_modes=(), function_modes=()):
            shape, steps = tuple(t.shape), t.stride()
            count = 1 + sum((n - 1) * s for n, s in zip(shape, steps, strict=True)) if 0 not in shape else 0
            memory = empty(t.storage_offset() + count, dtype=t.dtype, device="meta")
            made = FakeTensor(fake_mode, memory.as_strided(shape, steps, t.storage_offset()), t.device)
            if t.requires_grad:
                made.requires_grad_()
            if t.is_leaf and t.grad is not None:
                made.grad = self.from_real_tensor(fake_mode, t.grad)
        if type(t).__name__ == "Parameter" or getattr(t, "_is_param", False):
            setattr(made, "_is_param", True)  # noqa: B010  the class of any tensor
        return made


class FakeTensorMode(TorchDispatchMode):
    """A context manager whose block makes fake tensors in factories.

    Args:
        allow_fallback_kernels: Accepted as in PyTorch; operators without support for meta are refused.
        allow_non_fake_inputs: Whether operators may mix real and fake tensors; real ones are then faked.
        shape_env: Not supported: sizes are numbers.
        static_shapes: Accepted as in PyTorch; all shapes are static.

    Raises:
        UnsupportedOperator: ``shape_env`` is given.
    """

    def __init__(self, *, allow_fallback_kernels: bool = True, allow_non_fake_inputs: bool = False,
                 shape_env: Any = None, static_shapes: bool | None = None) -> None:
        super().__init__()
        if shape_env is not None:
            raise UnsupportedOperator("FakeTensorMode", "shape_env", "sizes of fake tensors are numbers",
                                      "leave it out")
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env = None
        self.static_shapes = True
        self.fake_tensor_converter = FakeTensorConverter()
        self._constants: dict[int, weakref.ref[FakeTensor]] = {}

    def from_tensor(self, tensor: Any, *, static_shapes: bool | None = None, **ignored: Any) -> FakeTensor:
        """Return the fake tensor of a tensor.

        Raises:
            ArgumentError: It is a fake tensor of another mode.
            UnsupportedFakeTensorException: Its class holds the values itself.
        """
        if isinstance(tensor, FakeTensor):
            self._check(tensor)
            return tensor
        return self.fake_tensor_converter.from_real_tensor(self, tensor)

    def _check(self, tensor: FakeTensor) -> None:
        if tensor.fake_mode is not self:
            raise ArgumentError("FakeTensorMode", "a fake tensor of another mode", "Mixing fake modes NYI: tensors of "
                                "one operator are of one mode", "convert them with one mode")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator in the mode's block."""
        result = self.dispatch(func, args, kwargs or {})
        if getattr(func, "kind", "") == "inplace":
            version_counter(args[0])[0] += 1
        return result

    # ------------------------------------------------------------------------------------------------ dispatch

    def dispatch(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return the results of an operator as fake tensors.

        Raises:
            DataDependentOutputException: The operator needs values.
            ArgumentError: A real tensor, or one of another mode, is given.
            DeviceMismatch: Tensors are on several devices.
        """
        name: str = func.name
        with thread_state(dispatch_modes=(), exclude=STATE.exclude):
            args, kwargs = tree_map(lambda x: self._faked(name, x), (args, kwargs))
            fakes = [x for x in tree_leaves((args, kwargs)) if isinstance(x, FakeTensor)]
            if isinstance(func, Factory) and func.name in _VALUES and not fakes:
                return self._of_values(func, args, kwargs)
            if name == "_local_scalar_dense":
                return _values(fakes[0]).item()
            written = self._written(func, args, fakes)
            known = self._on_constants(func, args, kwargs, fakes)
            if known is None:
                for tensor in written:
                    self._forget(tensor)
            return self._on_meta(func, args, kwargs, fakes, known)

    def _faked(self, name: str, value: Any) -> Any:
        """Return an argument; a real tensor becomes a fake one if that is allowed."""
        if isinstance(value, FakeTensor):
            self._check(value)
        elif isinstance(value, Tensor) and value.device.type != "meta":  # composites make meta tensors
            if not self.allow_non_fake_inputs:
                raise ArgumentError(name, f"a {type(value).__name__} of shape {list(value.shape)}",
                                    "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode "
                                    "with 'allow_non_fake_inputs'", "use mode.from_tensor")
            return self.fake_tensor_converter.from_real_tensor(self, value)
        return value

    def _of_values(self, func: Factory, args: Any, kwargs: dict[str, Any]) -> FakeTensor:
        """Return a tensor of given values; a single value makes a constant."""
        target = kwargs.pop("device", None)
        real = func(*args, **kwargs)
        if device(target or real.device).type == "meta":
            real = real.to("meta")
        made = self.fake_tensor_converter._convert(self, real)
        if real.numel() == 1 and real.device.type != "meta":
            made.constant = real.clone()
            self.know(made)
        return made if target is None else FakeTensor(self, _meta(made), target, made.constant)

    @staticmethod
    def _written(func: Any, args: Any, fakes: Sequence[FakeTensor]) -> list[FakeTensor]:
        """Return the tensors that an operator writes to."""
        parameters = func.schema.parameters
        found = [x for p, value in zip(parameters, args, strict=False) if p.mutated for x in tree_leaves(value)]
        if not found and func.name.endswith("_") and not func.name.startswith("_"):
            found = list(fakes[:1])
        return [x for x in found if isinstance(x, FakeTensor)]

    def know(self, tensor: FakeTensor) -> None:
        """Record that the value of a tensor is known, as long as it lives."""
        key = id(tensor)
        self._constants[key] = weakref.ref(tensor, lambda _: self._constants.pop(key, None))

    def _forget(self, tensor: FakeTensor) -> None:
        """Invalidate the known values of a tensor and of all others on its memory."""
        storage: Any = tensor._array.storage
        for key, ref in list(self._constants.items()):
            other: Any = ref()
            if other is not None and other._array.storage is storage:
                other.constant = None
                self._constants.pop(key, None)

    def _on_constants(self, func: Any, args: Any, kwargs: dict[str, Any], fakes: Sequence[FakeTensor]) -> Any:
        """Return the results of an operator on constants; None if an operand is not constant, or a result is large."""
        if not fakes or isinstance(func, Factory) or any(x.constant is None for x in fakes):
            return None
        if any(isinstance(x, DeviceState) and not x.holds_data for x in tree_leaves((args, kwargs))):
            return None
        shapes = self._plain(func, args, kwargs)
        if any(isinstance(x, Tensor) and x.numel() > 1 for x in tree_leaves(shapes)):
            return None
        given, named = tree_map(lambda x: x.constant if isinstance(x, FakeTensor) else x, (args, kwargs))
        return func(*given, **named)

    @staticmethod
    def _plain(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return the results on meta, from copies of the operands."""
        given, named = tree_map(lambda x: _meta(x).clone() if isinstance(x, FakeTensor) else x, (args, kwargs))
        return _without_values(func, given, named)

    def _on_meta(self, func: Any, args: Any, kwargs: dict[str, Any], fakes: Sequence[FakeTensor], known: Any) -> Any:
        """Return the results of an operator on meta as fake tensors."""
        target, args, kwargs = self._target(func, args, kwargs, fakes)
        metas = {id(x): _meta(x) for x in fakes}
        given, named = tree_map(lambda x: metas.get(id(x), x) if isinstance(x, FakeTensor) else x, (args, kwargs))
        result = _without_values(func, given, named)
        owners: dict[int, FakeTensor] = {}
        for fake in fakes:
            meta = metas[id(fake)]
            owners[id(meta)] = fake
            if meta._array is not fake._array:  # resized, or viewed in place
                fake._array = meta._array
                fake._key = fake._key & ~DIM0 | (0 if meta.shape else DIM0)
        values = iter(tree_leaves(known))

        def wrap(value: Any) -> Any:
            constant = next(values, None)
            if not isinstance(value, Tensor):
                return value
            owner = owners.get(id(value))
            return self._viewed(FakeTensor(self, value, target, constant), fakes) if owner is None else owner

        return tree_map(wrap, result)

    @staticmethod
    def _viewed(made: FakeTensor, fakes: Sequence[FakeTensor]) -> FakeTensor:
        """Return a result; if it shares memory with an operand, make it that operand's view."""
        fields: Any = made
        for fake in fakes:
            if fake._array.storage is fields._array.storage:
                fields._version_counter = version_counter(fake)
                fields._base = fake if fake._base is None else fake._base
        return made

    def _target(self, func: Any, args: Any, kwargs: dict[str, Any],
                fakes: Sequence[FakeTensor]) -> tuple[Any, Any, dict[str, Any]]:
        """Return the device of results, and the arguments with ``meta`` instead of it."""
        entries = [x for x in tree_leaves(args) if isinstance(x, DeviceState)]
        if entries:
            meta = open_device("meta")
            return entries[0].device, tree_map(lambda x: meta if isinstance(x, DeviceState) else x, args), kwargs
        if kwargs.get("device") is not None:
            return device(kwargs["device"]), args, {**kwargs, "device": "meta"}
        if not fakes:
            return default_state().device, args, {**kwargs, "device": "meta"} if isinstance(func, Factory) else kwargs
        return self._common(func.name, fakes), args, kwargs

    @staticmethod
    def _common(name: str, fakes: Sequence[FakeTensor]) -> device:
        """Return the common device of operands; CPU scalars are compatible with any other.

        Raises:
            DeviceMismatch: The operands are on several devices.
        """
        if name in _SEVERAL:
            return fakes[0].device
        found = fakes[0]
        for other in fakes[1:]:
            if other.device == found.device or (not other.shape and other.device.type == "cpu"):
                continue
            if found.shape or found.device.type != "cpu":
                raise DeviceMismatch(name, f"fake tensors on {found.device} and {other.device}", "Unhandled FakeTensor "
                                     "Device Propagation: found two different devices", "move them to one device")
            found = other
        return found.device


def _meta(fake: FakeTensor) -> Tensor:
    """Return the meta tensor that backs a fake tensor."""
    made: Any = _new(Tensor)
    made._array = fake._array
    made._key = open_device("meta").key | dtype_bit(fake.dtype) | (0 if fake.shape else DIM0)
    made._grad = made._grad_fn = made._version_counter = made._base = None
    plain: Tensor = made
    return plain


def _without_values(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operator on meta.

    Raises:
        DataDependentOutputException: It needs values.
    """
    try:
        return func(*args, **kwargs)
    except MissingDataError as error:
        raise DataDependentOutputException(
            func.name, "fake tensors", "the result depends on values, which fake tensors do not have",  # type: ignore[attr-defined]
            "compute it with real tensors") from error


def is_fake(x: Any) -> bool:
    """Whether a value is a tensor without memory, itself or in the parts of a subclass that wraps tensors."""
    return isinstance(x, FakeTensor) or (is_traceable_wrapper_subclass(x) and all(
        is_fake(getattr(x, name)) for name in x.__tensor_flatten__()[0]))


__all__ = ["DataDependentOutputException", "FakeTensor", "FakeTensorConverter",
           "FakeTensorMode", "UnsupportedFakeTensorException", "is_fake"]
