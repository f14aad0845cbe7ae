"""Einstein summation as products of matrices."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from tensocket_core.dispatch.call import call, tensor_key
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract.errors import ArgumentError, ShapeError

from ..kinds.composite import Composite, composite
from .matmul import product

#: Letters of subscripts; a sublist's number is the position of its letter.
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#: A dimension's label: a letter, or the number of a dimension of the ellipsis, counted from the last one: -1, -2 ...
Label = str | int
#: A tensor with a label for every dimension.
Term = tuple[Any, list[Label]]


def _bad(given: str, rule: str, advice: str) -> ArgumentError:
    return ArgumentError("einsum", given, rule, advice)


def _labels(part: str, equation: str) -> list[Label]:
    """Return the letters of one operand; an ellipsis is the label "..."."""
    start, dots, end = part.partition("...")
    before, after = start.replace(" ", ""), end.replace(" ", "")
    for letter in before + after:
        if letter not in LETTERS:
            raise _bad(f"{letter!r} in {equation!r}", "subscripts are letters, with at most one '...' for an operand",
                       "use the letters a to z and A to Z")
    return [*before, *(["..."] if dots else []), *after]


def _listed(sublist: Any) -> list[Label]:
    """Return the letters of a sublist of numbers."""
    labels: list[Label] = []
    for item in sublist:
        if item is not Ellipsis and not (isinstance(item, int) and 0 <= item < len(LETTERS)):
            raise _bad(f"{item!r} in a sublist", f"subscripts are numbers from 0 to {len(LETTERS) - 1}, or ...",
                       "use smaller numbers")
        labels.append("..." if item is Ellipsis else LETTERS[item])
    return labels


def _parsed(arguments: Sequence[Any]) -> tuple[list[Any], list[list[Label]], list[Label] | None]:
    """Return operands, their labels, and those of the result, if given."""
    if not arguments or (isinstance(arguments[0], str) and len(arguments) < 2):
        raise _bad("no operands", "an equation comes first, or every operand is followed by its subscripts",
                   "pass at least one operand")
    if not isinstance(arguments[0], str):
        operands, sublists = list(arguments[:-1:2]), list(arguments[1::2])
        out = _listed(arguments[-1]) if len(arguments) % 2 else None
        return operands, [_listed(s) for s in sublists], out
    equation, operands = arguments[0], list(arguments[1:])
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = list(operands[0])
    left, arrow, right = equation.partition("->")
    return operands, [_labels(part, equation) for part in left.split(",")], _labels(right, equation) if arrow else None


def _numbered(operands: Sequence[Any], labels: list[list[Label]]) -> int:
    """Replace every ellipsis by the numbers of its dimensions; return the largest number of dimensions."""
    if len(operands) != len(labels):
        raise _bad(f"{len(operands)} operands for {len(labels)} lists of subscripts",
                   "there is one list of subscripts for every operand", "separate them with commas")
    widest = 0
    for position, (operand, own) in enumerate(zip(operands, labels, strict=True)):
        tensor_key("einsum", operand)
        dots = own.count("...")
        hidden = operand.ndim - len(own) + dots
        if dots > 1 or hidden < 0 or (hidden and not dots):
            raise _bad(f"{len(own) - dots} subscripts for operand {position} of shape {list(operand.shape)}",
                       "there is a subscript for every dimension, or one '...' for the rest", "add '...'")
        widest = max(widest, hidden)
        if dots:
            at = own.index("...")
            own[at:at + 1] = range(-hidden, 0)
    return widest


def _result_labels(labels: list[list[Label]], out: list[Label] | None, widest: int) -> list[Label]:
    """Return the labels of the result: those given, or the ellipsis and letters that appear once, sorted."""
    hidden: list[Label] = list(range(-widest, 0))
    counts = Counter(label for own in labels for label in own)
    if out is None:
        return [*hidden, *sorted(str(x) for x, n in counts.items() if n == 1 and not isinstance(x, int))]
    made = [label for x in out for label in (hidden if x == "..." else [x])]
    for label in made:
        if made.count(label) > 1 or label not in counts:
            raise _bad(f"{label!r} in the result's subscripts",
                       "every subscript of the result appears there once, and in an operand", "correct the equation")
    return made


def _check_sizes(terms: Sequence[Term]) -> None:
    sizes: dict[Label, int] = {}
    for tensor, labels in terms:
        for label, size in zip(labels, tensor.shape, strict=True):
            if size != 1 and sizes.setdefault(label, size) != size:
                raise ShapeError("einsum", f"sizes {sizes[label]} and {size} for the subscript {label!r}",
                                 "dimensions of one subscript have equal sizes, or 1", "check the operands' shapes")


def _diagonals(tensor: Any, labels: list[Label]) -> Term:
    """Return a term that has every label once: dimensions with the same label become their diagonal."""
    for label, count in Counter(labels).items():
        for _ in range(count - 1):
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if tensor.shape[first] != tensor.shape[second]:
                raise ShapeError("einsum", f"sizes {tensor.shape[first]} and {tensor.shape[second]} for {label!r}",
                                 "a repeated subscript of one operand has one size", "check the operand's shape")
            tensor = tensor.diagonal(0, first, second)
            labels = [*labels[:first], *labels[first + 1:second], *labels[second + 1:], label]
    return tensor, labels


def _summed(term: Term, keep: set[Label]) -> Term:
    """Return a term summed over the dimensions that neither the result nor another term needs."""
    tensor, labels = term
    gone = [k for k, label in enumerate(labels) if label not in keep]
    return (tensor.sum(gone) if gone else tensor), [label for label in labels if label in keep]


def _unbroadcast(term: Term, other: Term) -> Term:
    """Return a term without dimensions of size 1 that have another size in the other term."""
    tensor, labels = term
    sizes = dict(zip(other[1], other[0].shape, strict=True))
    gone = [k for k, label in enumerate(labels) if tensor.shape[k] == 1 and sizes.get(label, 1) != 1]
    return (tensor.squeeze(tuple(gone)) if gone else tensor), [x for k, x in enumerate(labels) if k not in gone]


def _arranged(term: Term, groups: Sequence[Sequence[Label]]) -> tuple[Any, list[tuple[int, ...]]]:
    """Return the dimensions in the order of groups of labels, and the sizes of each group."""
    tensor, labels = term
    order = [labels.index(label) for group in groups for label in group]
    sizes = [tuple(tensor.shape[labels.index(label)] for label in group) for group in groups]
    return (tensor if order == sorted(order) else tensor.permute(tuple(order))), sizes


def _pair(first: Term, second: Term, keep: set[Label]) -> Term:
    """Return the product of two terms, summed over the labels that neither the result nor another term needs."""
    first, second = _unbroadcast(first, second), _unbroadcast(second, first)
    first, second = _summed(first, keep | set(second[1])), _summed(second, keep | set(first[1]))
    shared = [x for x in first[1] if x in second[1]]
    batch, inner = [x for x in shared if x in keep], [x for x in shared if x not in keep]
    left, right = [x for x in first[1] if x not in shared], [x for x in second[1] if x not in shared]
    x, (b, rows, depth) = _arranged(first, (batch, left, inner))
    y, (_, _, columns) = _arranged(second, (batch, inner, right))
    if not inner:
        result = x.reshape((*b, *rows, *(1 for _ in right))) * y.reshape((*b, *(1 for _ in left), *columns))
        return result, [*batch, *left, *right]
    lead = (math.prod(b),) if batch else ()
    x = x.reshape((*lead, math.prod(rows), math.prod(depth)))
    y = y.reshape((*lead, math.prod(depth), math.prod(columns)))
    return call(product, x, y).reshape((*b, *rows, *columns)), [*batch, *left, *right]


def _cheapest(terms: Sequence[Term], out: Sequence[Label]) -> tuple[int, int]:
    """Return the pair whose product takes the fewest multiplications."""
    if len(terms) == 2:
        return 0, 1

    def work(i: int, j: int) -> int:
        sizes: dict[Label, int] = {}
        for tensor, labels in (terms[i], terms[j]):
            for label, size in zip(labels, tensor.shape, strict=True):
                sizes[label] = max(sizes.get(label, 1), size)
        return math.prod(sizes.values())

    return min(((i, j) for j in range(len(terms)) for i in range(j)), key=lambda pair: work(*pair))


@lru_cache(maxsize=4096)
def _plan(equation: str, first: tuple[int, ...], second: tuple[int, ...]
          ) -> Callable[[Any, Any], Any] | None:
    """Return a function for the usual case, by equation and shapes: two operands and one product of matrices.

    Returns:
        The function, or None if subscripts repeat in an operand, have several sizes, or are summed in one operand only;
        also for equations without a sum, with an ellipsis, or with an error.
    """
    left_part, arrow, out_part = equation.replace(" ", "").partition("->")
    x, comma, y = left_part.partition(",")
    if not (arrow and comma) or any(len(set(part)) != len(part) or not set(part) <= set(LETTERS)
                                    for part in (x, y, out_part)) or (len(x), len(y)) != (len(first), len(second)):
        return None
    sizes = dict(zip(x, first, strict=True))
    if any(sizes.setdefault(label, size) != size for label, size in zip(y, second, strict=True)):
        return None
    batch = [label for label in out_part if label in x and label in y]
    left = [label for label in out_part if label in x and label not in y]
    right = [label for label in out_part if label in y and label not in x]
    inner = [label for label in x if label in y and label not in out_part]
    if not inner or len(batch) + len(left) + len(right) != len(out_part) or (
            len(batch) + len(left) + len(inner), len(batch) + len(inner) + len(right)) != (len(x), len(y)):
        return None
    to_x = _mover(x, [batch, left, inner], sizes)
    to_y = _mover(y, [batch, inner, right], sizes)
    made = [*batch, *left, *right]
    shape = None if len(left) == 1 == len(right) else tuple(sizes[label] for label in made)
    order = None if made == list(out_part) else tuple(made.index(label) for label in out_part)

    def run(a: Any, b: Any) -> Any:
        result = to_x(a).matmul(to_y(b))
        if shape is not None:
            result = result.reshape(shape)
        return result if order is None else result.permute(order)

    return run


def _mover(labels: str, groups: Sequence[Sequence[str]], sizes: dict[str, int]) -> Callable[[Any], Any]:
    """Return a function that makes a batch of matrices: the first group's dimensions, then one for each other group."""
    wanted = [label for group in groups for label in group]
    order = None if wanted == list(labels) else tuple(labels.index(label) for label in wanted)
    shape = None if len(groups[1]) == 1 == len(groups[2]) else (
        *(sizes[label] for label in groups[0]), *(math.prod(sizes[label] for label in group) for group in groups[1:]))

    def move(tensor: Any) -> Any:
        if order is not None:
            tensor = tensor.permute(order)
        return tensor if shape is None else tensor.reshape(shape)

    return move


class _Einsum(Composite):
    """The composite that hands one form of its arguments to handlers: the equation, then the operands one by one."""

    def gathered(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        """Gather the arguments in this form."""
        args = _with_equation(args)
        listed = len(args) == 2 and isinstance(args[1], (tuple, list))
        return super().gathered((args[0], *args[1]) if listed else args, keywords)

    def run_function_mode(self, args: tuple[Any, ...]) -> Any:
        """Hand a call to the innermost function mode, with a list of operands as the caller passed it."""
        return super().run_function_mode((_with_equation(args[0]),))


def _with_equation(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments with an equation in place of sublists."""
    if not args or not isinstance(args[0], Tensor):
        return args
    operands, labels, out = _parsed(args)
    equation = ",".join(["".join(map(str, own)) for own in labels])
    return (equation if out is None else f"{equation}->{''.join(map(str, out))}", *operands)


@composite("einsum(any args) -> Tensor~", method=False, kind=_Einsum)
def einsum(*args: Any) -> Any:
    """Sum products of the operands' elements over the subscripts that the result does not have.

    Two operands at a time are multiplied as matrices, the cheapest pair first.

    Args:
        args: An equation such as ``"bij,bjk->bik"`` and its operands (or one list of them), or operands that are each
            followed by a list of numbers for their subscripts, with the result's at the end. ``...`` stands for
            broadcast dimensions. By default, the result has the subscripts that appear once, in alphabetical order.

    Returns:
        A tensor with one dimension for every subscript of the result.

    Raises:
        ArgumentError: The subscripts are invalid.
        ShapeError: Dimensions of one subscript have different sizes.
    """
    if len(args) == 3 and type(args[0]) is str and hasattr(args[1], "_key") and hasattr(args[2], "_key"):
        plan = _plan(args[0], tuple(args[1].shape), tuple(args[2].shape))
        if plan is not None:
            return plan(args[1], args[2])
    operands, labels, given = _parsed(args)
    widest = _numbered(operands, labels)
    out = _result_labels(labels, given, widest)
    terms = [_diagonals(x, own) for x, own in zip(operands, labels, strict=True)]
    _check_sizes(terms)
    while len(terms) > 1:
        i, j = _cheapest(terms, out)
        second, first = terms.pop(j), terms.pop(i)
        keep = set(out).union(*(own for _, own in terms))
        terms.append(_pair(first, second, keep))
    tensor, own = _summed(terms[0], set(out))
    if own != out:
        return tensor.permute(tuple(own.index(label) for label in out))
    return tensor.alias() if tensor is operands[0] else tensor
