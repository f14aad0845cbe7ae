"""Memory of a recorded run: buffers, the regions of them that tensors are, lifetimes and the arena."""
