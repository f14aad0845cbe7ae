"""The kernel IR: nodes, verifier, text, reference interpreter, decompositions, schedules and printers.

``README.md`` in this folder is a short introduction. Import from the modules: ``ir.nodes``, ``ir.verify`` ...
"""
