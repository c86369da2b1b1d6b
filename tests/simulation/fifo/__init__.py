"""Universes of FIFO queues."""
