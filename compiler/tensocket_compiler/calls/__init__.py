"""Compiled calls: functions that observe, capture, and then run graphs in place of Python."""
