"""Softmax, and normalization by rows, groups and batches."""
