"""The kernel IR: nodes, verifier, text, reference interpreter, decompositions, schedules and printers.

``README.md`` beside this file shows it in one sitting. Import from the modules: ``ir.nodes``, ``ir.verify`` ...
"""
