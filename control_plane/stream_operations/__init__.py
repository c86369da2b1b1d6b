"""Operations on streams as such: one module for each, or for those that belong together."""
