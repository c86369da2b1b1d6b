"""Universes of queues whose messages lie in several cells."""
