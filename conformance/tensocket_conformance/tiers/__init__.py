"""Cases that are not about one operator: loading, memory, bad input."""
