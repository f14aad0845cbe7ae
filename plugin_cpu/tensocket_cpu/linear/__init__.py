"""Products and decompositions of matrices by the vendor's library."""
