"""Execution: groups as steps over planned memory."""
