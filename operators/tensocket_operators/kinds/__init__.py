"""Kinds of operators: classes that turn records into closures."""
