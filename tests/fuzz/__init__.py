"""Fuzzing of what reads bytes of strangers: `python -m tests.fuzz --help`."""
