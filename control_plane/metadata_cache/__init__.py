"""The shared second-level cache of the registry's items, which may be lost at any time."""
