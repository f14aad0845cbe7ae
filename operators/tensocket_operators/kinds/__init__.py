"""Kinds of operators: how a record becomes closures."""
