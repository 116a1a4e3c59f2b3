"""One file per schema change; the first is the baseline."""
