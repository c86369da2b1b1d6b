"""Spark jobs over what front ends and cells left: bills, audits, digests.

The same modules run under AWS Glue and in Spark's local mode. What computes is a function from
DataFrames to DataFrames, or plain Python; modules with a `main` are entries that take arguments,
open a session, read and write. Nothing here imports the planes: what jobs and planes share are the
formats of docs/usage.md and docs/storage.md.
"""

from typing import Final

VERSION: Final = "3"
"""Of what jobs compute: raised by a change that gives other results for the same inputs."""
