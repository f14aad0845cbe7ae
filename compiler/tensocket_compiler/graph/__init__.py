"""Graphs of operator calls: nodes, generated code, interpreter and checks."""
