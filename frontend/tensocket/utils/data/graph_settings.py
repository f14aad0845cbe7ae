"""Settings of all steps of a chain."""

from __future__ import annotations

from typing import Any

from .datapipes.datapipe import IterDataPipe, MapDataPipe
from .datapipes.iter.combinatorics import ShufflerIterDataPipe

__all__ = ["apply_random_seed", "apply_shuffle_settings", "get_all_graph_pipes"]


def get_all_graph_pipes(datapipe: Any) -> list[Any]:
    """Return a step and all steps before it."""
    found: dict[int, Any] = {}
    waiting = [datapipe]
    while waiting:
        each = waiting.pop()
        if isinstance(each, (list, tuple)):
            waiting.extend(each)
        elif isinstance(each, (IterDataPipe, MapDataPipe)) and id(each) not in found:
            found[id(each)] = each
            waiting.extend(vars(each).values())
    return list(found.values())


def _shufflers(datapipe: Any) -> list[ShufflerIterDataPipe]:
    return [each for each in get_all_graph_pipes(datapipe) if isinstance(each, ShufflerIterDataPipe)]


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Set whether the steps of a chain shuffle, and return the chain; one without such a step gets it at its end.

    Args:
        datapipe: The last step.
        shuffle: Whether they shuffle; None leaves them unchanged.
    """
    if shuffle is None:
        return datapipe
    if shuffle and not _shufflers(datapipe):
        datapipe = ShufflerIterDataPipe(datapipe)
    for each in _shufflers(datapipe):
        each.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Any) -> Any:
    """Set the seeds of the steps that shuffle, from draws of a generator, and return the chain.

    Args:
        datapipe: The last step.
        rng: The generator.
    """
    import tensocket

    for each in _shufflers(datapipe):
        each.set_seed(int(tensocket.randint(2 ** 62, (), generator=rng)))
    return datapipe
