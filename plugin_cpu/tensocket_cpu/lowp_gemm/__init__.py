"""Products of 16-bit floats and of integers: packed operands, a microkernel, blocks of both."""
