"""Demonstrations: what a controller should have said, collected from a teacher, checked and split."""
