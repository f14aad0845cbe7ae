"""Scheduling: operations in order become groups, and each group one kernel or one call."""
