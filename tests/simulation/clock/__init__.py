"""Universes in which the clock of a service's machine is set by hours and days."""
