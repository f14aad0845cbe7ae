"""Every rung of the ladder computes the bits of ``compose``, on all samples of conformance; see ``rungs``.

With more than the default of ``TENSOCKET_TEST_EXAMPLES``, all operators with all their samples take part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tensocket as ts
import tensocket.nn.functional as F
from tensocket_core.device import open_device
from tensocket_core.dispatch.registry import OPERATORS, clear_tables
from tensocket_core.launch import entries, replay
from tensocket_operators.kinds import noted_views
from tensocket_operators.unrolled import fronts as unrolled

from . import rungs

ops = pytest.importorskip("tensocket_conformance.ops")
suite = pytest.importorskip("tensocket_conformance.suite")

EXAMPLES = int(os.environ.get("TENSOCKET_TEST_EXAMPLES", "60"))
FULL = EXAMPLES > 60
#: Of so many operators of a family one takes part in the quick run.
EACH = 1 if FULL else 14
#: So many samples of an operator take part.
SAMPLES = max(4, EXAMPLES // 15) if FULL else 2
#: Operators whose kernels take seconds to compile; the quick run leaves them out.
SLOW = frozenset({"special.gammainc", "special.gammaincc"})
#: Families whose operators work element by element or reduce: their samples are tiled.
TILED = frozenset({"pointwise", "inplace", "reduction", "casts", "complexes", "elementary", "activations", "numeric",
                   "special"})
#: Operators whose rungs add up in another order than ``compose``: the reason, and a small call that shows it. They are
#: compared in every way nevertheless, and their differences are counted.
ORDERS: dict[str, tuple[str, Callable[[], Any]]] = {
    "sum": ("NumPy and entries add rows in another order than generated kernels",
            lambda: ts.randn(15, 5, dtype=ts.float64).sum(1)),
    "mean": ("entries add in another order than generated kernels", lambda: ts.randn(65555, dtype=ts.float64).mean()),
    "matmul": ("vectors meet transposed matrices in another order", lambda: ts.randn(13) @ ts.randn(5, 13).T),
    "attend": ("the host kernel takes products in another order", lambda: F.scaled_dot_product_attention(
        ts.randn(2, 3, 7, 8), ts.randn(2, 3, 5, 8), ts.randn(2, 3, 5, 5))),
    "class_loss": ("NumPy adds in another order", lambda: F.cross_entropy(ts.randn(64, 13), ts.arange(64) % 13)),
    "normalize_rows": ("plans add rows in another order than the composition",
                       lambda: F.layer_norm(ts.randn(70, 13), (13,), ts.randn(13), ts.randn(13))),
    "normalize_rms": ("plans add rows in another order than the composition",
                      lambda: F.rms_norm(ts.randn(70, 13), (13,), ts.randn(13))),
}


def _records() -> Iterator[Any]:
    for family in ops.FAMILIES:
        area = family.__name__.rpartition(".")[2]
        for record in family.OPERATORS[EACH > 1::EACH]:
            if not FULL and record.name in SLOW:
                continue
            yield pytest.param(area, record, id=f"{area}-{record.name}")


@pytest.fixture(autouse=True)
def compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Entries that count calls are compiled in the first one, launches of composites are recorded in the second one."""
    state = open_device("cpu")
    before = dict(state.native_entries)
    monkeypatch.setattr(entries, "_CALLS", 1)
    monkeypatch.setattr(unrolled, "LAUNCHED_CALLS", 2)
    monkeypatch.setattr(replay, "PATIENCE", 3)
    monkeypatch.setattr(replay, "ELEMENTS_PER_CALL", 1 << 40)
    monkeypatch.setattr(unrolled, "ELEMENTS_PER_CALL", 1 << 40)
    monkeypatch.setattr(noted_views, "_CALLS", 1)
    clear_tables()
    yield
    state.native_entries.clear()
    state.native_entries.update(before)
    clear_tables()


def compared(area: str, record: Any) -> Any:
    """The report on the cases of one operator."""
    report, subject = rungs.Report(), suite.subject("cpu")
    cases = [case for case in record.cases(subject.dtypes) if not case.refusal]
    seen: set[Any] = set()
    for case in cases[::-(-len(cases) // SAMPLES) or 1]:
        for call in rungs.collected(report, lambda case=case: case.run(subject)):
            if call.place in seen:
                report.skipped["the same call as before"] += 1
                continue
            seen.add(call.place)
            rungs.compare_call(call, report)
            if area in TILED:
                rungs.compare_call(call, report, large=True)
            else:
                report.skipped["family is not tiled"] += 1
    return report


def unexpected(report: Any) -> str:
    """Differences that are not only of the order of additions."""
    return "\n".join(f"{x.operator} {x.rung}: {x.text}" for x in report.differences
                     if x.operator not in ORDERS or "bytes, from" not in x.text)


@pytest.mark.native
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("area", "record"), list(_records()))
def test_all_rungs_agree(area: str, record: Any, record_property: Callable[[str, object], None]) -> None:
    report = compared(area, record)
    for name in ("compared", "variants", "skipped"):
        record_property(name, str(dict(getattr(report, name))))
    record_property("differences", str([(x.operator, x.rung) for x in report.differences]))
    assert report.compared or report.skipped
    assert not unexpected(report), unexpected(report)


def _of(run: Callable[[], Any], name: str) -> Any:
    """The report on the calls of one operator in ``run``."""
    report = rungs.Report()
    calls = [call for call in rungs.collected(report, run) if call.operator.name == name]
    assert calls
    for call in calls:
        rungs.compare_call(call, report)
    return report


@pytest.mark.native
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason))
    for name, (reason, _) in ORDERS.items()])
def test_additions_have_one_order(name: str) -> None:
    ts.manual_seed(0)
    assert not _of(ORDERS[name][1], name).differences


@pytest.mark.native
def test_all_kinds_of_rungs_and_variants_are_compared() -> None:
    ts.manual_seed(0)
    report = rungs.Report()
    for run in (lambda: ts.add(ts.randn(3, 5), ts.randn(3, 5)), lambda: F.softplus(ts.randn(3, 5))):
        for call in rungs.collected(report, run):
            rungs.compare_call(call, report)
            rungs.compare_call(call, report, large=True)
    assert not report.differences
    assert {"entry", "host kernel", "replay", "plan"} & report.compared.keys() >= {"entry", "host kernel", "plan"}
    sizes = {f"{size} {layout}" for size, layouts in (("small", rungs.LAYOUTS), ("large", ("dense", "transposed")))
             for layout in layouts}
    assert {name.partition(",")[0] for name in report.variants} == sizes
    assert {name.partition(", ")[2] for name in report.variants} == {"contents", "changed contents", "changed number"}


@pytest.mark.parametrize("spoil", [
    lambda r: ts.ones_like(r), lambda r: r.to(ts.float64), lambda r: r.T.clone(memory_format=ts.contiguous_format).T,
    lambda r: r.reshape(-1), lambda r: -r * 0, lambda r: r / 0 * 0])
def test_a_wrong_closure_is_seen(monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Any], Any]) -> None:
    add = OPERATORS["add"]
    right = type(add).rungs

    def wrong(self: Any, key: int, state: Any) -> list[tuple[str, Any]]:
        found = right(self, key, state)
        return [("planted", lambda *args: spoil(found[-1][1](*args))), *found] if self is add else found

    monkeypatch.setattr(type(add), "rungs", wrong)
    report = _of(lambda: ts.add(ts.zeros(3, 5), ts.zeros(3, 5)), "add")
    assert {x.rung for x in report.differences} == {"planted"}


def test_tensors_of_other_shapes_and_lists_are_not_tiled() -> None:
    report = rungs.Report()
    calls = rungs.collected(report, lambda: (ts.ones(3, 2) + ts.ones(2), ts.cat([ts.ones(2), ts.ones(2)])))
    reasons = [rungs.tiled(call) for call in calls]
    assert any("shapes differ" in str(reason) for reason in reasons)
    assert any("lists of tensors" in str(reason) for reason in reasons)
