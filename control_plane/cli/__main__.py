"""`python -m control_plane.cli` is `tidegate`."""

from control_plane.cli.start import main

main()
