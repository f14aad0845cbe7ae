"""Closures of operators settle: after some hundred calls of a program, none is made anew."""

from __future__ import annotations

import tensocket as ts
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS


def _closures():
    return {(name, key): closure for table in (OPERATORS, COMPOSITES) for name, operator in table.items()
            for key, closure in operator.table.items()}


def test_operators_do_not_make_each_others_closures_anew():
    scalar, row = ts.ones(()), ts.ones(4)

    def calls():
        for _ in range(50):
            scalar.view(1)
            row.view(2, 2)
            row[1:]

    for _ in range(40):
        calls()
    changes = []
    for _ in range(20):
        before = _closures()
        calls()
        after = _closures()
        changes += [name for name, closure in before.items() if after.get(name) is not closure]
    assert changes == []
