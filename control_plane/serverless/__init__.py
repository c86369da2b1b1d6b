"""Tidegate as functions in AWS Lambda: their settings, what they open, their doors and tasks."""
