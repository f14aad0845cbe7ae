"""Random functions, compiled: views, changes in place, sums, products, gathers, draws and backward passes.

Each is called with new numbers, other sizes, other layouts and shared memory, plain and compiled, and both must do the
same: results with their geometry, memory and nodes, gradients, changed arguments and captured tensors, versions, random
numbers, errors.
"""

from __future__ import annotations

from collections import Counter

from .campaign import Campaign
from .graph_calls import difference_of, shrink
from .graph_programs import draw_program


def fuzz(campaign: Campaign) -> None:
    """Compare random functions; a word among the options names the device."""
    device = campaign.options[0] if campaign.options else "cpu"
    served, reasons = 0, Counter[str]()
    for _, rng in campaign.each():
        program = draw_program(rng, device)
        campaign.called()
        verdict = difference_of(program)
        served += verdict.served > 0
        reasons.update({" ".join(x.partition(" at ")[0].split()[:7]) for x in verdict.reasons})
        if verdict.found:
            small = shrink(program)
            campaign.differ(f"{verdict.found}\n{small.script()}{difference_of(small).found}")
    if campaign.loud:
        print(f"graphs served {served} of {campaign.ran} functions")
        for reason, count in reasons.most_common(25):
            print(f"{count:7} × {reason}")
