"""The rules and values of the data plane: no I/O, no clock, no randomness of its own."""
