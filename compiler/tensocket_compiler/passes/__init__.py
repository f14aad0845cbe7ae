"""Passes over the operations of a run, before they are scheduled."""
