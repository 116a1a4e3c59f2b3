"""Streams of tasks with their checkers, for methods that learn from one task after the other."""
