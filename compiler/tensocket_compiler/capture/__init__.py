"""Observing a run: what it computed, and everything that Python may have read on the way."""
