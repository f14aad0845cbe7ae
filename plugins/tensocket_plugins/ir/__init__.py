"""The kernel IR: nodes, verifier, text, reference interpreter, decompositions, schedules and printers.

``README.md`` in this folder is a short introduction. Import from the modules: ``ir.nodes``, ``ir.verify`` ...
"""

from __future__ import annotations

from tensocket_plugins.later import later

#: Modules of kernels load with the first one.
__getattr__ = later(__name__, "nodes", "philox")
