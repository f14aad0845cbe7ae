"""Threads that kernels are divided over, and streams."""
