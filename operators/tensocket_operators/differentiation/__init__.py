"""Jacobians, Hessians and checks of gradients."""
