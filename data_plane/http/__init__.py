"""HTTP in front of the front end: the server, its metrics and its logs."""
