"""Export of what was trained: adapter or merged weights, model card, serving command."""
