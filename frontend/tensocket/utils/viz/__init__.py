"""Pictures of programs: the computation graph of a loss, the modules of a model, memory over time.

matplotlib (the extra ``viz``) writes pictures as SVG, PNG, PDF or HTML, without other programs; texts need nothing.
"""

from __future__ import annotations

from .graph import ComputationGraph, computation_graph
from .memory import memory_timeline
from .summary import ModuleSummary, summary

__all__ = ["ComputationGraph", "ModuleSummary", "computation_graph", "memory_timeline", "summary"]
