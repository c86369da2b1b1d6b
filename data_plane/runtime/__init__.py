"""Adapters of the Waits port: how coroutines of the core overlap and wait."""
