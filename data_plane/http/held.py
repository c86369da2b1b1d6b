"""How many bytes are held for whom: of bodies on their way in, of answers on their way out."""


class Held:
    """Bytes that are held now, `bytes_max` at most.

    An account may hold as long as it holds less than is free then: alone it gets half, `n` that
    want more get one part in `n + 1` each. Bytes of nobody in particular ("") are held to
    `bytes_max` alone.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._by_account: dict[str, int] = {}
        self.total = 0

    def take(self, account: str, size: int) -> bool:
        """Whether there is room for so much more, which is taken then."""
        free = self._bytes_max - self.total - size
        held = self._by_account.get(account, 0) + size
        if free < 0 or (account and held > free):
            return False
        self.total += size
        self._by_account[account] = held
        return True

    def leave(self, account: str, size: int) -> None:
        """So much of what was taken is not held any more."""
        self.total -= size
        left = self._by_account[account] - size
        if left:
            self._by_account[account] = left
        else:
            del self._by_account[account]
