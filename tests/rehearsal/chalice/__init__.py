"""Chalice's own command line on app.py: what it packages, and what it serves."""
