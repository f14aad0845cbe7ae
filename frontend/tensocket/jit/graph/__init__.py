"""Graphs of scripts: nodes, types, operators, and their forms as Python functions and as printed code."""
