"""Segments of memory that several processes see."""

from __future__ import annotations

import os
import weakref

import numpy as np
import pytest

from tensocket_operators.interop.shared import Segment, place_in_segment
from tensocket_plugins.contract.errors import OutOfMemoryError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="segments are mapped as POSIX says")


def test_two_mappings_are_the_same_memory():
    first = Segment.create(100)
    second = Segment(os.dup(first.descriptor), 100)
    a, b = first.array(0, 100), second.array(10, 20)
    a[...] = np.arange(100)
    assert b.tolist() == list(range(10, 30))
    assert place_in_segment(b[5:]) == (second, 10)
    assert place_in_segment(np.zeros(3)) is None


def test_a_view_keeps_memory_and_lease():
    class Lease:
        pass

    lease = Lease()
    alive = weakref.ref(lease)
    segment = Segment.create(64)
    mapped = weakref.ref(segment)
    view = segment.array(0, 64, lease)[3:9].reshape(2, 3)
    del lease, segment
    view[...] = 7
    assert view.sum() == 42
    assert alive() is not None
    del view
    assert alive() is None
    assert mapped() is None


def test_without_a_descriptor_the_mapping_stays():
    segment = Segment.create(10)
    segment.close()
    segment.close()
    assert segment.descriptor == -1
    assert segment.array(0, 10).tolist() == [0] * 10


def test_systems_that_refuse(monkeypatch):
    with pytest.raises(OutOfMemoryError, match=r"10 bytes — the system gives no shared memory: Bad file"):
        Segment(-1, 10)

    def full(descriptor, size):
        raise OSError(28, "No space left on device")

    descriptors = len(os.listdir("/dev/fd"))
    monkeypatch.setattr(os, "truncate", full)
    with pytest.raises(OutOfMemoryError, match="the system gives no shared memory: No space left on device"):
        Segment.create(10)
    assert len(os.listdir("/dev/fd")) == descriptors
