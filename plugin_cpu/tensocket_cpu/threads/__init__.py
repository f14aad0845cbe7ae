"""Threads that share the work of a kernel, and streams."""
