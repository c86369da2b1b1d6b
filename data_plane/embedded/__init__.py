"""Cells in a directory of this machine."""
