"""Dispatch: keys, tables and closures, by which a call finds the code that runs it."""
