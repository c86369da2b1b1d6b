"""How tests are run: what a change must pass, and what takes a night."""
