"""A bounded table of what was made for the keys that were asked for last. Knows nothing of what it holds."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry")


class LatestUsed(Generic[Key, Entry]):
    """Makes an entry when its key is first asked for, and keeps the `limit` entries that were asked for last.

    Any number of threads may use one cache. A thread whose entry exists never waits for another thread that makes one.

    With `serial`, one thread at a time makes an entry, so that no entry is made twice. This is for entries that take
    much memory, and for functions that are not safe to run side by side. Otherwise several threads may make the same
    entry: the first to finish stores it, and all of them get it.
    """

    def __init__(self, limit: int, *, serial: bool) -> None:
        self._limit = limit
        self._entries: OrderedDict[Key, Entry] = OrderedDict()
        self._lock = threading.Lock()  # held while the table is read or changed, never while an entry is made
        # Reentrant: making an entry may ask for another one.
        self._making: AbstractContextManager[object] = threading.RLock() if serial else nullcontext()

    def get(self, key: Key, make: Callable[[Key], Entry]) -> Entry:
        """The entry of `key`, made by ``make(key)`` if there is none. What `make` raises is passed on."""
        if found := self._use(key):
            return found[0]
        with self._making:
            if found := self._use(key):  # another thread may have made it in the meantime
                return found[0]
            entry = make(key)
            with self._lock:
                entry = self._entries.setdefault(key, entry)
                self._entries.move_to_end(key)
                if len(self._entries) > self._limit:
                    self._entries.popitem(last=False)
        return entry

    def _use(self, key: Key) -> tuple[Entry] | None:
        """The entry of `key`, which is now the one used last; None if there is none."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return (self._entries[key],)

    def items(self) -> list[tuple[Key, Entry]]:
        """Keys and entries; the one used last comes last."""
        with self._lock:
            return list(self._entries.items())

    def clear(self) -> None:
        """Drop all entries, and those that are being made if `serial`: waits for the thread that makes one."""
        with self._making, self._lock:
            self._entries.clear()
