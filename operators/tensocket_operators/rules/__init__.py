"""Rules for operators in function transforms."""
