"""Cells in memory."""
