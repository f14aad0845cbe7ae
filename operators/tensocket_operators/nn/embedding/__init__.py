"""Embeddings and bags of them."""
