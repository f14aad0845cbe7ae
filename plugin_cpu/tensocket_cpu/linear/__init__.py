"""Matrix products and decompositions by the vendor's library."""
