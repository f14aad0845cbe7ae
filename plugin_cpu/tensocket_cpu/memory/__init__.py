"""Host memory: the allocator and its pools."""
