"""Mappings with weak keys, and weak references to tensors."""

from __future__ import annotations

import copy

import pytest

import tensocket as torch
from tensocket.utils.weak import TensorWeakRef, WeakIdKeyDictionary, WeakIdRef, WeakTensorKeyDictionary


def test_keys_are_tensors_by_identity():
    a, b = torch.ones(2), torch.ones(2)
    known = WeakTensorKeyDictionary({a: 1})
    assert a in known
    assert b not in known
    assert 3 not in known
    known[b] = 2
    assert [known[a], known[b], len(known)] == [1, 2, 2]
    assert known.get(torch.ones(2), 5) == 5
    del known[a]
    assert list(known) == [b]
    assert list(known.values()) == [2]


def test_pairs_go_with_their_key():
    a, b = torch.ones(2), torch.ones(2)
    known = WeakIdKeyDictionary([(a, 1), (b, 2)])
    del b
    assert list(known.items()) == [(a, 1)]
    del a
    assert len(known) == 0
    assert known.keyrefs() == []


def test_copies_and_unions():
    a, b = torch.ones(2), torch.zeros(2)
    known = WeakIdKeyDictionary({a: [1]})
    same, deep = known.copy(), copy.deepcopy(known)
    assert same == known == deep
    assert same[a] is known[a]
    assert deep[a] is not known[a]
    assert (known | {b: 2})[b] == 2
    assert ({b: 2} | known)[b] == 2
    known |= {b: 3}
    assert known.pop(b) == 3
    assert known.setdefault(b, 4) == 4
    assert known.popitem() == (b, 4)
    assert known != {b: 1}


def test_references():
    a, b = torch.ones(2), torch.ones(2)
    assert WeakIdRef(a) == WeakIdRef(a)
    assert WeakIdRef(a) != WeakIdRef(b)
    reference = TensorWeakRef(a)
    assert reference() is a
    del a
    assert reference() is None


def test_updates_read_all_pairs_first():
    a, b = torch.ones(2), torch.zeros(2)
    known = WeakIdKeyDictionary({a: 1})

    class Pairs:
        def keys(self):
            return iter([a, b])

        def __getitem__(self, key):
            return 7 if key is a else 1 // 0

    for given, error in ((Pairs(), ZeroDivisionError), (42, TypeError), ([(b, 1), (1, 2, 3)], ValueError)):
        with pytest.raises(error):
            known.update(given)
        assert list(known.items()) == [(a, 1)]
    known.update(None)
    known.update([(a, 2), (b, 3)])
    assert list(known.items()) == [(a, 2), (b, 3)]
