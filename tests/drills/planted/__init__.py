"""Faults that are planted into the server, to see the drills find them."""
