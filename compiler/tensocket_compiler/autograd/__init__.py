"""Gradients of compiled functions: the joint graph of forward and backward pass, and its node."""
