"""Building blocks that authors of backends reuse."""
