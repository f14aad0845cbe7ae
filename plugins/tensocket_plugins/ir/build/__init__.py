"""Builders of kernel programs: mathematics, element types and loop nests as kernel IR."""
