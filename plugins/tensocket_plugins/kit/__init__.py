"""What authors of backends reuse."""
