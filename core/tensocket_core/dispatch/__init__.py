"""Keys, tables and closures: how a call finds what runs it."""
