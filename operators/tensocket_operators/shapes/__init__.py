"""Views, copies and other shapes of the same elements."""
