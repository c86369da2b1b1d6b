"""What a server that has stopped left in its store: to export it, and to forge it."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from control_plane.export.layout import ExportedCell, write_export
from control_plane.export.source import copied_cell
from data_plane.dynamodb import items as dynamodb_items
from data_plane.embedded import encoding
from data_plane.embedded.store import Store, StoreSizes
from data_plane.ports import Attributes, Item, Key


class StoredItems(Protocol):
    """The items of a cell that nobody serves."""

    def read(self) -> list[Item]:
        """All of them."""

    def put(self, key: Key, attributes: Attributes) -> None:
        """Put an item, whatever is there, as no engine would."""

    def remove(self, key: Key) -> None:
        """Remove an item without a trace."""

    def export(self, out: Path) -> None:
        """Export all of them."""


@dataclass(frozen=True)
class Directory:
    """An embedded cell."""

    path: Path

    def read(self) -> list[Item]:
        """See StoredItems."""
        with copied_cell(self.path, self.path, time.time_ns() // 1000) as copied:
            return list(copied.items)

    def put(self, key: Key, attributes: Attributes) -> None:
        """See StoredItems."""
        self._write(key, attributes)

    def remove(self, key: Key) -> None:
        """See StoredItems."""
        self._write(key, None)

    def _write(self, key: Key, attributes: Attributes | None) -> None:
        store = Store(self.path, StoreSizes())
        try:
            txn, _room = store.begin()
            stored = encoding.encode_key(key)
            store.bodies.drop(txn, stored, txn.get(stored))
            txn.delete(stored)
            if attributes is not None:
                value = encoding.encode_item(attributes)
                txn.put(stored, store.bodies.split(txn, stored, value, encoding.time_to_live_s))
            txn.commit()
        finally:
            store.close()

    def export(self, out: Path) -> None:
        """See StoredItems: as `tidegate export` does."""
        with copied_cell(self.path, self.path, time.time_ns() // 1000) as copied:
            _write(out, "local", copied.as_of_us, copied.items)


@dataclass(frozen=True)
class Table:
    """A table of DynamoDB. What exports it is not the emulator, which cannot."""

    client: Any
    name: str

    def read(self) -> list[Item]:
        """See StoredItems."""
        pages = self.client.get_paginator("scan").paginate(TableName=self.name, ConsistentRead=True)
        return [dynamodb_items.decode_item(item) for page in pages for item in page["Items"]]

    def put(self, key: Key, attributes: Attributes) -> None:
        """See StoredItems."""
        item = dynamodb_items.encode_item(key, attributes)
        self.client.put_item(TableName=self.name, Item=item)

    def remove(self, key: Key) -> None:
        """See StoredItems."""
        self.client.delete_item(TableName=self.name, Key=dynamodb_items.encode_key(key))

    def export(self, out: Path) -> None:
        """See StoredItems."""
        _write(out, self.name, time.time_ns() // 1000, self.read())


def _write(out: Path, cell: str, as_of_us: int, items: Iterable[Item]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_export(out, ExportedCell(cell, as_of_us), items, as_of_us // 1000)
