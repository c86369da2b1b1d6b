"""Bytes to parameters and back: the wire protocols, their shapes, operations as values."""
