"""Programs as C libraries: the launches of a run on a device without arithmetic, printed as C."""
