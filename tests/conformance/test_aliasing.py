"""No operator returns memory of an argument unless its schema says so, in any case of the suite."""

from __future__ import annotations

from tensocket_conformance import runner, suite
from tensocket_core.dispatch.overrides import TorchFunctionMode, participants
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS
from tensocket_core.geometry import memory_of

_RECORDS = {record.public: record for record in (*OPERATORS.values(), *COMPOSITES.values()) if record.public}


class Watch(TorchFunctionMode):
    """Collects the operators whose results lie in the memory of an argument without a word in their schema."""

    def __init__(self):
        self.found = set()
        self.seen = set()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        given = kwargs or {}
        result = func(*args, **given)
        record = _RECORDS.get(func)
        if record is not None and "out" not in given:
            self.seen.add(record.name)
            if not record.schema.may_alias and memory([*args, *given.values()]) & memory([result]):
                self.found.add(record.name)
        return result


def memory(values):
    """Identities of what owns the memory of the dense tensors among values; these keep it alive."""
    arrays = [x._array for x in participants(values) if not x.is_sparse]
    return {id(memory_of(array)) for array in arrays if array.size}


def _one_of_each(cases, number):
    families = {}
    for case in cases:
        if case.tier == "T2":
            families.setdefault(case.family, []).append(case)
    return [members[number] for members in families.values()]


def test_results_lie_in_the_memory_of_arguments_only_where_schemas_say_so():
    tested = suite.subject("cpu", 0)
    cases = suite.all_cases(tested.dtypes)
    # Two cases of each operator, as a rule of different element types and sample classes.
    chosen = [case for number in (0, -1) for case in _one_of_each(cases, number)]
    run = runner.open_run(tested, cases)
    watch = Watch()
    with watch:
        for case in chosen:
            run._execute(case)
    assert watch.found == set()
    assert len(watch.seen) > 300  # it did look


def test_the_watch_notices_a_result_in_the_memory_of_an_argument(monkeypatch):
    import tensocket as ts

    record = COMPOSITES["reshape"]
    monkeypatch.setattr(record, "schema", type(record.schema)("reshape", record.schema.parameters, "Tensor", ""))
    watch = Watch()
    with watch:
        ts.ones(4).reshape(2, 2)
    assert watch.found == {"reshape"}


