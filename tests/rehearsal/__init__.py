"""Rehearsals on engines that stand in for AWS, and over networks that fail: `make rehearse`."""
