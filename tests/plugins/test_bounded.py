"""The cache that is emptied when it is full."""

from __future__ import annotations

from tensocket_plugins.kit.bounded import BoundedCache


def test_it_holds_as_many_as_it_may():
    cache = BoundedCache(3)
    for k in range(3):
        cache[k] = -k
    assert dict(cache) == {0: 0, 1: -1, 2: -2}
    cache[3] = -3
    assert dict(cache) == {3: -3}


def test_reading_is_that_of_a_dict():
    cache = BoundedCache(1)
    assert cache.get("a") is None
    cache["a"] = 1
    assert cache["a"] == cache.get("a") == 1
