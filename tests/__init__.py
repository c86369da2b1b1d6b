"""A package, so that a distribution which ships a `tests` of its own does not take its place."""
