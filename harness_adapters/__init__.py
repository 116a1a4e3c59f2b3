"""Harness adapters: importers turn the files of other systems into epimem records."""
