"""Universes of consumer groups: members that freeze, come late and die, over shards that change."""
