"""Gradients through compiled programs, against differences of the references: the checks of tier T4, compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tensocket as ts

from ..numerics import FORMATS, Metric
from ..record import Draw, Operator
from ..subject import Subject
from .gradients import CHECKED, check_sample, in_domain


def is_checked(record: Operator) -> bool:
    """Whether a record has samples for gradients."""
    return record.name in CHECKED


def check_gradient(subject: Subject, record: Operator, short: str, case_id: str,
                   options: dict[str, Any], finish: Callable[[Subject, str, Any, bool], None]) -> Metric | None:
    """Check gradients of a compiled operator call by call; ``finish`` notes whether a graph served calls."""
    run = ts.compile(lambda *args, **kwargs: record.call(*args, **kwargs), options=options)
    compiled, worst = replace(record, call=run), None
    label = CHECKED[record.name][0]
    for number in range(5):
        rng = subject.rng(f"{case_id} {number}")
        sample = in_domain(record, record.samples[label](Draw(rng, FORMATS[short])))
        metric = check_sample(subject, compiled, sample, short, rng)
        worst = metric if worst is None or (metric is not None and metric.error > worst.error) else worst
    finish(subject, case_id, run, False)
    return worst
