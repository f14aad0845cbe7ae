"""Runner of cases, which maps every result or exception to one of the six outcomes."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import tensocket as ts

from .case import Case, Excluded, NotRun, Outcome, Result
from .numerics import Failure, Metric
from .subject import Subject

_TAIL = 6


@dataclass
class Run:
    """The outcomes so far; a case runs at most once.

    Attributes:
        subject: The device under test.
        cases: The cases that may run, by id.
        results: Their results.
        ledger: The host kernels that ran: (operator, dtype, kind) to (count, bytes).
    """

    subject: Subject
    cases: dict[str, Case]
    results: dict[str, Result] = field(default_factory=dict)
    ledger: dict[tuple[str, str, str], tuple[int, int]] = field(default_factory=dict)

    def all(self, chosen: Iterable[Case], report: Callable[[Result], None] = lambda result: None) -> list[Result]:
        """Run ``chosen``, and call ``report`` with each result."""
        results = []
        for case in chosen:
            results.append(self.one(case))
            report(results[-1])
        return results

    def one(self, case: Case) -> Result:
        """Return the result of one case; its prerequisites run before it."""
        if case.id not in self.results:
            self.results[case.id] = self._blocked(case) or self._execute(case)
        return self.results[case.id]

    def _blocked(self, case: Case) -> Result | None:
        if case.hardware and not self.subject.usable:
            reason = f"{self.subject.name} is {self.subject.state}: {self.subject.reason}"
            return Result(case, Outcome.NOT_RUN, message=reason)
        for case_id in case.requires:
            outcome = self.one(self.cases[case_id]).outcome if case_id in self.cases else Outcome.PASS
            if outcome in (Outcome.FAIL, Outcome.BLOCKED):
                return Result(case, Outcome.BLOCKED, message=f"needs {case_id}", blocked_by=case_id)
        return None

    def _execute(self, case: Case) -> Result:
        ts.reset_fallback_ledger()
        kernels = _kernels(self.subject)
        start = time.perf_counter()
        metric: Metric | None = None
        message = log = ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                metric = case.run(self.subject)
            outcome = Outcome.PASS
        except KeyboardInterrupt:
            raise
        except Excluded as reason:
            outcome, message = Outcome.EXCLUDED, str(reason)
        except NotRun as reason:
            outcome, message = Outcome.NOT_RUN, str(reason)
        except Failure as failure:
            outcome, message, metric = Outcome.FAIL, str(failure), failure.metric
        except BaseException as error:
            outcome = Outcome.FAIL
            message = f"{type(error).__name__}: {error}"
            log = "".join(traceback.format_exception(error)[-_TAIL:])
            if isinstance(error, ts.errors.UnsupportedOperator):
                outcome, message = _refused(case, message)
        else:
            if case.refusal:
                outcome, message = Outcome.FAIL, "what the profile does not declare was not refused"
        outcome, message = self._judge_ledger(outcome, message)
        return Result(case, outcome, time.perf_counter() - start, message, metric, log=log,
                      kernels=_kernels(self.subject) - kernels)

    def _judge_ledger(self, outcome: Outcome, message: str) -> tuple[Outcome, str]:
        """Reject a result that another device computed."""
        strangers = []
        for entry in ts.fallback_ledger():
            if str(entry.device).partition(":")[0] != self.subject.name:
                continue
            key = (str(entry.operator), str(entry.dtype), str(entry.kind))
            count, size = self.ledger.get(key, (0, 0))
            self.ledger[key] = (count + int(entry.count), size + int(entry.bytes))
            if entry.operator not in self.subject.host_kernels:
                strangers.append(f"{entry.operator} ({entry.kind})")
        if strangers and outcome is Outcome.PASS:
            return Outcome.FAIL, f"the host computed {', '.join(sorted(set(strangers)))}, which the profile " \
                                 "does not declare"
        return outcome, message


def open_run(subject: Subject, cases: Iterable[Case]) -> Run:
    """Return a run without fallback to another device."""
    ts.set_fallback(None)
    return Run(subject, {case.id: case for case in cases})


def _refused(case: Case, message: str) -> tuple[Outcome, str]:
    if case.refusal:
        return Outcome.UNSUPPORTED, "not declared, and refused as it should be"
    return Outcome.FAIL, f"the profile declares it, yet {message}"


def _kernels(subject: Subject) -> int:
    if not subject.usable:
        return 0
    stats: Any = ts.build_stats(subject.device)
    # A device without a code generator builds nothing.
    return 0 if stats is None else int(stats.kernels)
