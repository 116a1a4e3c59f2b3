"""Supervised fine-tuning: one recipe for both controllers."""
