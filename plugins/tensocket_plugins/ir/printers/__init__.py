"""Printers, which turn a scheduled program into the language that a target compiles."""
