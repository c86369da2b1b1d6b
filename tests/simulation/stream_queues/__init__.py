"""Universes of queues that read streams."""
