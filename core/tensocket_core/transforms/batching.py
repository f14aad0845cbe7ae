"""Batches as a transform: the function receives one example, operators receive all along dimension 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.errors import AutogradError, TransformError

from ..dispatch.call import call
from ..keys import DIM0
from .levels import LevelTensor, Transform, geometry, level_tensor, lowered

F = TypeVar("F", bound=Callable[..., Any])

#: ``rule(info, in_dims, *args) -> (outputs, out_dims)`` by operator name. ``in_dims`` has an int (0) for every batched
#: tensor among the arguments and None for any other argument, in the same nested lists as the arguments; ``out_dims``
#: has the same for outputs, with any dimension.
RULES: Final[dict[str, Callable[..., Any]]] = {}


def register_batching_rule(operator: Any, rule: Callable[..., Any]) -> None:
    """Register how an operator runs on batches.

    Args:
        operator: An operator or its name.
        rule: ``rule(info, in_dims, *args) -> (outputs, out_dims)``. ``info.batch_size`` and ``info.randomness``
            describe the batch. Arguments come without the batch level, batched ones with the batch in dimension 0;
            ``in_dims`` has 0 or None for each. Operators that the rule calls do not run on this batch level.
    """
    RULES[operator if isinstance(operator, str) else operator.name] = rule


def batching_rule(*names: str) -> Callable[[F], F]:
    """Register the decorated function for operators of these names."""

    def register(rule: F) -> F:
        for name in names:
            RULES[name] = rule
        return rule

    return register


class BatchTensor(LevelTensor):
    """One example of a batch; the value has the batch in dimension 0."""

    __slots__ = ()
    label = "BatchedTensor"

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        return super().__repr__().replace(f"lvl={self._level},", f"lvl={self._level}, bdim=0,", 1)

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are recorded below."""
        return bool(self._value.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        raise AutogradError("requires_grad", f"a tensor of {self._transform.name}",
                            "tensors of a batch record gradients where the batch does",
                            "use func.grad inside, or set it outside")

    def _refuse(self, operator: str, rule: str) -> TransformError:
        return TransformError(operator, f"one example of shape {list(self.shape)} in {self._transform.name}", rule,
                              "use operators such as where instead of Python values")

    def _host(self) -> Any:
        raise self._refuse("values", "a batch has no one value that Python or a result's shape could depend on")

    _values = _host

    def item(self) -> Any:
        """Raise: an example has no value of its own.

        Raises:
            TransformError: Always.
        """
        raise self._refuse("item", "calling .item() on a batch has no one value")

    def __bool__(self) -> bool:
        raise self._refuse("bool", "control flow does not depend on the data of a batch")



class Batching(Transform):
    """Transform that runs a function of one example on many.

    Attributes:
        batch_size: Number of examples.
        randomness: ``error``, ``different`` or ``same``.
    """

    kind = BatchTensor

    def __init__(self, name: str, batch_size: int, randomness: str) -> None:
        super().__init__(name)
        self.batch_size = batch_size
        self.randomness = randomness

    def wrap(self, value: Any) -> Any:
        """Return a batch along dimension 0 as one example."""
        tensor = level_tensor(BatchTensor, value, self)
        array = tensor._array
        tensor._array = DeviceArray(array.storage, array.dtype, array.shape[1:], array.strides[1:], array.offset)
        if len(array.shape) == 1:
            tensor._key |= DIM0
        return tensor

    def lift(self, tensor: Any) -> Any:
        """Return a tensor that all examples share unchanged."""
        return tensor

    def wrap_like(self, tensor: Any, value: Any) -> Any:
        """Return one copy for every example."""
        with lowered(depth=self.level - 1):
            return self.wrap(value.expand((self.batch_size, *value.shape)).clone())

    def created(self, tensor: Any, drawn: bool = False) -> Any:
        """Return a factory's tensor: shared by all examples, unless each has its own draw."""
        return self.wrap(tensor) if drawn else tensor

    def copies(self, operator: str) -> int | None:
        """Return the number of draws: None for one shared by all, else one per example.

        Raises:
            TransformError: Randomness is an error here.
        """
        if self.randomness == "error":
            raise TransformError(operator, f"a random draw in {self.name}",
                                 "with randomness='error', functions of examples draw nothing",
                                 "pass randomness='different' or 'same', or draw outside")
        return self.batch_size if self.randomness == "different" else None

    def check_parameter(self, operator: str) -> None:
        """Raise for parameters that differ between examples if all examples share one draw.

        Raises:
            TransformError: The examples share one draw.
        """
        if self.randomness == "same":
            raise TransformError(operator, f"a draw with parameters that differ between examples of {self.name}",
                                 "with randomness='same', all examples draw the same numbers",
                                 "pass randomness='different'")

    def run(self, operator: Any, args: tuple[Any, ...]) -> Any:
        """Find the operator's rule and run it below; without batched arguments, only run the operator below."""
        in_dims = dims_of(self, args)
        flat: list[int] = []
        _collect(in_dims, flat)
        if not flat:
            with lowered():
                return call(operator, *args)
        self._check_target(operator, args)
        values = self.unwrap(args)
        rule = RULES.get(operator.name) or rule_of(operator)
        with lowered():
            outputs, out_dims = rule(Info(self, operator, args), in_dims, *values)
        if operator.kind == "inplace":
            args[0]._array = self.wrap(args[0]._value)._array
            return args[0]
        return self.wrapped(args, outputs, out_dims)

    def wrapped(self, args: tuple[Any, ...], outputs: Any, out_dims: Any) -> Any:
        """Wrap the results of a rule as examples; views of arguments get their base."""
        if isinstance(outputs, (tuple, list)):
            dims = out_dims if isinstance(out_dims, (tuple, list)) else (out_dims,) * len(outputs)
            parts = [self.wrapped(args, value, dim) for value, dim in zip(outputs, dims, strict=True)]
            return type(outputs)(*parts) if hasattr(outputs, "_fields") else type(outputs)(parts)
        if not hasattr(outputs, "_key") or out_dims is None:
            return outputs
        if out_dims != 0:
            with lowered():
                outputs = outputs.movedim(out_dims, 0)
        tensor = self.wrap(outputs)
        if outputs._base is not None:
            for argument in args:
                if hasattr(argument, "_key") and self.owns(argument) and (
                    argument._value is outputs._base or argument._value._base is outputs._base
                ):
                    tensor._base = argument if argument._base is None else argument._base
        return tensor

    def _check_target(self, operator: Any, args: tuple[Any, ...]) -> None:
        """Raise if the operator writes examples into a tensor that all share."""
        for parameter, value in zip(operator.schema.parameters, args, strict=False):
            if parameter.mutated and hasattr(value, "_key") and not self.owns(value):
                raise TransformError(
                    operator.name, f"a tensor of shape {list(value.shape)} that all examples of {self.name} share",
                    "a result that differs between examples is not written into one tensor",
                    "work out of place, or make the target with new_zeros or zeros_like of a batched tensor")


class Info:
    """Facts about a call for rules.

    Attributes:
        batch_size: Number of examples.
        randomness: ``error``, ``different`` or ``same``.
        operator: The operator.
        args: The arguments as the function of one example passed them.
    """

    __slots__ = ("_transform", "args", "batch_size", "operator", "randomness")

    def __init__(self, transform: Batching, operator: Any, args: tuple[Any, ...]) -> None:
        self._transform = transform
        self.batch_size = transform.batch_size
        self.randomness = transform.randomness
        self.operator = operator
        self.args = args


def dims_of(transform: Batching, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return 0 for batched tensors, None for any other value, and lists of these for lists with tensors."""
    return tuple([_dim_of(transform, value) for value in args])


def _dim_of(transform: Batching, value: Any) -> Any:
    if hasattr(value, "_key"):
        return 0 if transform.owns(value) else None
    if isinstance(value, (tuple, list)) and any(hasattr(item, "_key") for item in value):
        return [_dim_of(transform, item) for item in value]
    return None


def _collect(dims: Any, found: list[int]) -> None:
    for dim in dims:
        if isinstance(dim, list):
            _collect(dim, found)
        elif dim is not None:
            found.append(dim)


#: Rules by kind of operator; ``batching_rules`` fills it.
KINDS: Final[list[tuple[Callable[[Any], bool], Callable[..., Any]]]] = []


def rule_of(operator: Any) -> Callable[..., Any]:
    """Return the rule of an operator's kind; the last rule fits every operator."""
    return next(rule for fits, rule in KINDS if fits(operator))


def logical(value: Any, dim: Any) -> DeviceArray:
    """Return the layout of an argument for the function of one example."""
    array = geometry(value)
    if dim is None:
        return array
    return DeviceArray(array.storage, array.dtype, array.shape[1:], array.strides[1:], array.offset)


def rank(value: Any, dim: Any) -> int:
    """Return the number of dimensions for the function of one example."""
    return int(value.ndim) - (dim is not None)


def aligned(value: Any, dim: Any, wanted: int) -> Any:
    """Insert dimensions of size 1 after the batch, so that the examples of a tensor have ``wanted`` dimensions."""
    missing = wanted - rank(value, dim)
    if dim is None or missing <= 0:
        return value
    return value.basic_index((slice(None), *(None,) * missing))


def spread(info: Info, value: Any, dim: Any) -> Any:
    """Return a tensor with the batch in front, repeated if all examples share it."""
    return value if dim is not None else value.expand((info.batch_size, *value.shape))

