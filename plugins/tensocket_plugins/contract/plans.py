"""Plans: calls of operators as data, for devices that compile a whole call to one function (``compile_plan``).

An ``EntryPlan`` is a program with symbolic sizes and serves small dense operands of any shape; a ``ProductPlan`` is a
product by the vendor's library; a ``JoinPlan`` copies small arrays into one; a ``ReplayPlan`` holds a function whose
launches the device records for operands of known layouts; a ``ViewPlan`` makes views of its first argument; a
``FactoryPlan`` makes arrays that an earlier call made; a ``ListPlan`` is a program over lists of arrays; a ``TapePlan``
is a sequence of launches that were noted before; a ``WordsPlan`` compares words of memory, a ``FormPlan`` linked
objects. A ``ProgramPlan`` names a program by what it follows from, for caches of compiled programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from .dtypes import DType

if TYPE_CHECKING:
    from ..ir.nodes import Program
    from .launch_recorder import Call

Array = Any


class _LastDim(Enum):
    LAST_DIM = "last"


#: A trailing argument of an entry that is the number of the last dimension.
LAST_DIM: Final = _LastDim.LAST_DIM


@dataclass(frozen=True, slots=True)
class WrapperLayout:
    """The layout of objects that hold an array in one of their slots: operands and results of compiled plans.

    Attributes:
        kind: Class of new objects, made as ``object.__new__`` makes them; operands are of it or of a subclass.
        array: Name of the slot with the array.
        slots: The other slots of a new object: name, value, and the value if the array has no dimensions.
        counter: Name of the slot with a list whose first element counts changes in place, or None before the first one.
    """

    kind: type
    array: str
    slots: tuple[tuple[str, Any, Any], ...]
    counter: str


@dataclass(frozen=True, slots=True)
class EntryPlan:
    """One program on dense operands of one shape, and the mapping from a call's arguments to the program's.

    The compiled entry takes one array per operand and returns a new array; with a ``wrapper``, it takes and returns
    objects around arrays. It serves dense arrays of the given dtypes and of one shape, with 1 to ``limit`` elements,
    and hands all other calls to its next path.

    Attributes:
        program: The program, scheduled for the device that compiles the plan.
        operands: Dtypes of the operands.
        result: Dtype of the result.
        shape: Shape of the result: ``same`` as the operands', ``rows``: without the last dimension, ``scalar``: no
            dimensions. ``into``: no new result; the entry writes operand 0, which comes in a wrapper, counts the
            change, and returns the operand.
        scalars: Meaning of the program's scalars, in order: an int; ``size``, ``rows`` or ``columns`` of the first
            operand (``columns`` is the last size), with ``float_`` before it as a floating-point number; ``number`` and
            a position, as in ``number1``: the value of that operand, an array without dimensions; with a ``wrapper`` a
            Python float, or an int that the dtype holds exactly if it is a float dtype. Others are cut to the dtype's
            bits.
        numbers: Positions of the operands that are such numbers, and not buffers of the program.
        limit: Most elements.
        wrapper: Layout of the objects that hold operands and result; None for plain arrays.
        trailing: The objects that the arguments after the operands must be; a call with others goes to the next path.
            Calls may pass them by name, because the next path has no other keywords. ``LAST_DIM`` stands for the
            number of the last dimension, counted from either end.
    """

    program: Program
    operands: tuple[DType, ...]
    result: DType
    shape: Literal["same", "rows", "scalar", "into"]
    scalars: tuple[str | int, ...]
    numbers: frozenset[int] = frozenset()
    limit: int = 16384
    wrapper: WrapperLayout | None = None
    trailing: tuple[Any, ...] = ()

    @property
    def rows(self) -> bool:
        """Whether a scalar is a number of rows or columns."""
        return any(isinstance(s, str) and s.endswith(("rows", "columns")) for s in self.scalars)


@dataclass(frozen=True, slots=True)
class ProductPlan:
    """The product of two small matrices or vectors in wrappers, which the backend's library computes, not a program.

    The compiled function is ``f(x, y)`` for x @ y or, if ``affine``, ``f(x, weight, bias)`` for x @ weight.T + bias,
    where the bias is a vector or None. It serves contiguous vectors and matrices of the dtype with contiguous rows or
    columns, as long as the product is small, and hands all other calls to its next path.

    Attributes:
        dtype: Dtype of operands and result.
        wrapper: Layout of the objects that hold operands and result.
        affine: Whether the product has a transposed weight and a bias.
        ranks: The operands' ranks: two matrices, a matrix and a vector, or two vectors; matrices if ``affine``.
    """

    dtype: DType
    wrapper: WrapperLayout
    affine: bool = False
    ranks: tuple[int, int] = (2, 2)


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """Small dense arrays in wrappers, copied side by side along one dimension of a new array.

    The compiled function is ``f(tensors, dim=0)``, where ``tensors`` is a list or a tuple. It serves arrays of the
    dtype, in row-major order, whose sizes are equal except along ``dim``, as long as the result is small, and hands all
    other calls to its next path.

    Attributes:
        dtype: Dtype of operands and result.
        wrapper: Layout of the objects that hold operands and result.
        new_dim: Whether ``dim`` is a new dimension of the result; the arrays then have one shape.
    """

    dtype: DType
    wrapper: WrapperLayout
    new_dim: bool = False


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """The outcome of one call of a ``ReplayPlan``'s function.

    Attributes:
        arrays: New arrays, the results.
        wrappers: Layouts of the objects that hold them.
        is_tuple: Whether the call returns them as a tuple.
    """

    arrays: tuple[Array, ...]
    wrappers: tuple[WrapperLayout, ...]
    is_tuple: bool


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """A function whose launches, for operands of known layouts, the device records and replays.

    The device records the launches with ``launch_recorder``. It may call ``function`` several times, with arrays of the
    same dtypes, shapes and strides that hold other numbers, of the dtype's whole range unless a ``ValueRange`` limits
    them. A launch reads operands, declared constants, and memory that an earlier launch wrote; a recording with any
    other launch is refused.

    The compiled function takes objects around arrays and the trailing arguments. It serves operands of the same
    dtypes, shapes and strides, and trailing arguments that are the very same objects.

    Attributes:
        function: Takes an array, or None, for each operand; returns None if its call must not be replayed. Raises
            ``ReplayForbiddenError`` if it does more than launch kernels.
        operands: Small arrays, or None for omitted operands, by position among the arguments.
        trailing: The other arguments, by position.
        stream: Returns the stream that launches of the calling thread go to, and notes its use of the given arrays.
        wants_kernels: Whether kernels take the place of host libraries while the function is recorded.
        rounds_freely: Whether they may round otherwise. Unless they may, the device compares the results with those of
            unrecorded calls, and refuses a recording if any bit differs.
    """

    function: Callable[..., RecordedCall | None]
    operands: Mapping[int, Array | None]
    trailing: Mapping[int, Any]
    stream: Callable[[Sequence[Array]], Any]
    wants_kernels: bool = False
    rounds_freely: bool = False


@dataclass(frozen=True, slots=True)
class RecordedView:
    """One view that a call of a ``ViewPlan``'s function makes.

    Attributes:
        array: The array of the view.
        key: The object in the slot ``key`` of the view.
        mark: The attribute ``mark`` of the view; None if it has none.
    """

    array: Array
    key: Any
    mark: Any


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """A function that returns views of its first argument, or this argument itself.

    The geometry of the views follows from dtype, shape and strides of the first argument and from the other arguments:
    integers, tuples and lists of them, other objects around arrays, of which the layouts matter, and objects by their
    identity. The device notes it for the calls that come, and makes the views of later calls like them.

    The compiled function is called as the next path is. A new view has the counter of the first argument, which gets
    one if it has none, and the same base, or the argument itself if this has none.

    Attributes:
        function: Returns the views that the next path would make of a call's arguments, as a tuple or one; the first
            argument if the next path returns that; None if calls like this one have to go to the next path;
            NotImplemented if objects among the arguments do not tell which calls are like this one.
        wrapper: Layout of the objects that hold operands and results.
        key: Name of the slot that each view sets for itself.
        base: Name of the slot with the object that a view is a view of, or None.
        mark: Name of an attribute, None by default. Views of a view that has another one are made by the next path.
        overrides: A list that is not empty while calls must take the next path.
    """

    function: Callable[..., Any]
    wrapper: WrapperLayout
    key: str
    base: str
    mark: str
    overrides: list[Any]


@dataclass(frozen=True, slots=True)
class RecordedCopy:
    """The outcome of calls that make the same new array.

    Attributes:
        array: An array of the same elements, which nothing changes. It is small, and its elements fill its memory.
        key: The object in the slot ``key`` of the object around it.
    """

    array: Array
    key: Any


@dataclass(frozen=True, slots=True)
class FactoryPlan:
    """A function that makes new arrays, whose elements follow from the arguments of the call.

    Ints and floats count by their value, tuples and lists of them, too; objects around arrays by the int in their slot
    ``key`` and by their layout; all other objects by their identity. The device notes what calls make, and makes it
    again for later calls like them. The compiled function is called as the next path is.

    Attributes:
        function: Returns what calls like this one make: a ``RecordedCopy``, or a function without arguments that makes
            it; None if calls like this one have to go to the next path; NotImplemented if objects among the arguments
            do not tell which calls are like this one.
        wrapper: Layout of the objects that hold operands and results.
        key: Name of the slot that each result sets for itself.
        context: Lists of one object, whose identity at the time of the call counts like an argument.
        overrides: Lists and dicts; calls must take the next path unless all of them are empty.
        elements: Whether an array without dimensions also counts by its element.
    """

    function: Callable[..., Any]
    wrapper: WrapperLayout
    key: str
    context: tuple[list[Any], ...]
    overrides: tuple[list[Any] | dict[Any, Any], ...]
    elements: bool = False


@dataclass(frozen=True, slots=True)
class ListPlan:
    """One program for many sets of arguments.

    The compiled function is ``run(buffers, scalars, stream)``, with a column for each of the program's parameters. No
    set writes memory that another one reads or writes, so they may run in any order. It serves every call.

    Attributes:
        program: The program, scheduled for the device.
    """

    program: Program


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """A program, by the text that it follows from.

    The compiled function is ``run(buffers, scalars, stream)``, as ``compile_ir`` returns it. A device that stores
    compiled programs under that text need not call ``schedule`` again.

    Attributes:
        text: A digest of the program before it is scheduled, and everything else that ``schedule`` depends on but its
            own code.
        schedule: Makes the program, scheduled for the device.
        draft: Whether the program runs only a few times, so that it should be compiled quickly.
    """

    text: str
    schedule: Callable[[], Program]
    draft: bool = False


@dataclass(frozen=True, slots=True)
class TapePlan:
    """Noted launches, in order, that run again as one call.

    The compiled function is ``run(arrays, numbers, stream)``. It launches all calls on the noted arrays, but on
    ``arrays`` in place of ``changing`` and with ``numbers`` as the scalars at ``numbers``. The arrays that a call gives
    have the layouts of those that they replace.

    Attributes:
        calls: The launches, as ``launch_recorder`` noted them on this device.
        changing: Arrays, by identity, that each call replaces.
        numbers: For each number that a call gives, the launches that take it and the position among their scalars.
    """

    calls: tuple[Call, ...]
    changing: tuple[Array, ...] = ()
    numbers: tuple[tuple[tuple[int, int], ...], ...] = ()


@dataclass(frozen=True, slots=True)
class WordsPlan:
    """A comparison of words of the process's memory.

    The compiled function is ``check() -> bool``: whether every word at ``addresses`` has its value, in order and up to
    the first that has not, and no word at ``unequal_addresses`` has its value. It runs while its thread holds the
    interpreter's lock. The four arrays are of uint64.
    """

    addresses: Array
    values: Array
    unequal_addresses: Array
    unequal_values: Array


class FormTest(IntEnum):
    """Tests of a ``FormStep`` on the object at a place, its *item*."""

    #: The item is ``value``.
    SAME = 0
    #: The item has the type and the value of ``value``, an int or a tuple of ints; for floats, the bits.
    EQUAL = 1
    #: The item is the object with the number ``value``.
    KNOWN = 2
    #: The item's type is ``value``; it becomes the object ``number``, and is none of those from ``first`` on.
    KIND = 3
    #: The item is a tuple of ``value`` items; it becomes the object ``number``.
    LENGTH = 4
    #: The item is an array of the shape ``value``.
    SHAPE = 5
    #: The item is the count in the list in the slot ``other`` of the object ``value``; 0 if the slot is None.
    VERSION = 6
    #: The item is a larger int than the one in the same slot of the object ``value``.
    LARGER = 7
    #: The attribute ``value`` of the source is None; the place does not matter.
    UNMARKED = 8
    #: The source is an item of the object ``value``, a tuple; the place does not matter.
    MEMBER = 9


class FormStep(NamedTuple):
    """One test of a form.

    Attributes:
        test: See ``FormTest``.
        source: The number of an object: of an argument, or one from an earlier step.
        place: A slot of the object, as its class and the slot's name; or the position of an item of a tuple.
        value, number, first, other: See ``FormTest``.
    """

    test: FormTest
    source: int
    place: tuple[type, str] | int
    value: Any = None
    number: int = 0
    first: int = 0
    other: tuple[type, str] | None = None


@dataclass(frozen=True, slots=True)
class FormPlan:
    """A test whether the objects to which some objects refer have a known form.

    The compiled function is ``match(*arguments)``. It returns a tuple of some of these objects; None if a test fails.

    Attributes:
        arguments: The number of arguments, whose types the caller has checked.
        steps: The tests, in order.
        results: Numbers of the objects to return; arguments have the first numbers.
    """

    arguments: int
    steps: tuple[FormStep, ...]
    results: tuple[int, ...]


Plan: TypeAlias = (
    EntryPlan | ProductPlan | JoinPlan | ReplayPlan | ViewPlan | FactoryPlan | ListPlan | ProgramPlan | TapePlan
    | WordsPlan | FormPlan)
