"""Drills: a real server on a real file system, while power, disk or process fail."""
