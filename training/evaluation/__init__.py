"""Evaluation of controllers by operation on held-out groups, and end to end."""
