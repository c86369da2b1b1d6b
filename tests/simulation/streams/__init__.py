"""Universes of streams over several cells."""
