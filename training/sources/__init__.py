"""Readers of public data sets by hub id: questions to collect runs on."""
