"""A line search that satisfies the strong Wolfe conditions (Nocedal and Wright, algorithms 3.5 and 3.6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

#: The least decrease of the loss, and the largest slope at the end, as fractions of the slope at the start.
DECREASE: Final = 1e-4
FLATNESS: Final = 0.9
#: Largest number of evaluations of the loss.
LIMIT: Final = 25
#: An interval this short (as a change of a parameter) needs no more search.
SHORTEST: Final = 1e-9


class Point(NamedTuple):
    """A point on the line, with the loss, its gradient and its slope along the line."""

    place: float
    value: float
    gradient: Any
    slope: float


def strong_wolfe(evaluate: Callable[[float], Point], length: float, start: Point, size: float) -> tuple[Point, int]:
    """Search for a point whose loss is low enough and flat enough.

    Args:
        evaluate: A function from a point to the loss.
        length: The first point to try.
        start: The point 0; the slope there is negative.
        size: The largest component of the direction.

    Returns:
        The point, and the number of evaluations.
    """
    found, count, settled = _bracket(evaluate, length, start)
    if settled:
        return found[0], count
    return _zoom(evaluate, found, start, size, count)


def _bracket(evaluate: Callable[[float], Point], length: float, start: Point) -> tuple[list[Point], int, bool]:
    """Return two points around a minimum, or one that is already good enough."""
    before, here, count = start, evaluate(length), 1
    for tries in range(LIMIT):
        if _too_high(here, start) or (tries > 1 and here.value >= before.value):
            return [before, here], count, False
        if _flat(here, start):
            return [here], count, True
        if here.slope >= 0:
            return [before, here], count, False
        lower, upper = here.place + 0.01 * (here.place - before.place), here.place * 10
        place = _cubic(before, here, lower, upper)
        before, here = here, evaluate(place)
        count += 1
    return [start, here], count, False


def _zoom(evaluate: Callable[[float], Point], ends: list[Point], start: Point, size: float,
          count: int) -> tuple[Point, int]:
    """Shrink the interval; ``ends`` change, and the lower of them is the answer."""
    low, high = (ends[0], ends[1]) if ends[0].value <= ends[1].value else (ends[1], ends[0])
    stalled = False
    tries = count - 1
    while tries < LIMIT:
        if abs(high.place - low.place) * size < SHORTEST:
            break
        place, stalled = _inside(low, high, stalled)
        here = evaluate(place)
        count, tries = count + 1, tries + 1
        if _too_high(here, start) or here.value >= low.value:
            high = here
            if high.value < low.value:
                low, high = high, low
            continue
        if _flat(here, start):
            return here, count
        if here.slope * (high.place - low.place) >= 0:
            high = low
        low = here
    return low, count


def _inside(low: Point, high: Point, stalled: bool) -> tuple[float, bool]:
    """Return the next point between the ends, away from them if that would stall the search."""
    left, right = min(low.place, high.place), max(low.place, high.place)
    place = _cubic(low, high, left, right)
    margin = 0.1 * (right - left)
    if min(right - place, place - left) >= margin:
        return place, False
    if stalled or place >= right or place <= left:
        return (right - margin if abs(place - right) < abs(place - left) else left + margin), False
    return place, True


def _too_high(here: Point, start: Point) -> bool:
    return here.value > start.value + DECREASE * here.place * start.slope


def _flat(here: Point, start: Point) -> bool:
    return abs(here.slope) <= -FLATNESS * start.slope


def _cubic(first: Point, second: Point, lower: float, upper: float) -> float:
    """Return the minimum, between the bounds, of the cubic through two points with slopes; the middle if there is
    none.
    """
    if first.place > second.place:
        first, second = second, first
    if first.place == second.place:
        return (lower + upper) / 2
    sum_of_slopes = first.slope + second.slope
    bend = sum_of_slopes - 3 * (first.value - second.value) / (first.place - second.place)
    square = bend * bend - first.slope * second.slope
    if not square >= 0:
        return (lower + upper) / 2
    root = math.sqrt(square)
    width, spread = second.place - first.place, second.slope - first.slope + 2 * root
    if spread == 0:
        return (lower + upper) / 2
    place = second.place - width * (second.slope + root - bend) / spread
    return min(max(place, lower), upper)
