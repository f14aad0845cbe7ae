"""Running passes: their base class, their order, and the partitioning of graphs."""
