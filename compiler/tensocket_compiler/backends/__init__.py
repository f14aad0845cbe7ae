"""Backends of programs: graphs of public functions, and compiled functions that run what a backend makes of them."""
