"""Consumer groups over cells: their items, what members say, and how far they are."""
