"""Further passes and tracers, whose interfaces may change."""
