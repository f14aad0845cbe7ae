"""Cases that do not test a single operator: loading, memory, bad input, gradients."""
