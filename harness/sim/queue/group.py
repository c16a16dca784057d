"""A consumer group: who reads which keys, in generations, and the offsets it has committed.

The eager protocol, in short: any change of members or subscriptions starts a generation; a member finds out
at its next poll, is revoked everything and assigned its new share; a commit from an older generation is
refused. New owners begin where the group has committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Group:
    """Members by name. A topic is a number; it holds the keys topic*P .. topic*P + P-1. Not thread-safe."""

    def __init__(self, partitions_per_topic: int) -> None:
        self._partitions = partitions_per_topic
        self._topics: dict[int, frozenset[int]] = {}
        self._committed: dict[int, int] = {}
        self._before: dict[int, int | None] = {}
        self.generation = 0

    def subscribe(self, member: int, keys: Iterable[int]) -> None:
        """Join, or change the subscription to the topics that hold these keys."""
        self._topics[member] = frozenset(key // self._partitions for key in keys)
        self.generation += 1

    def leave(self, member: int) -> None:
        if self._topics.pop(member, None) is not None:
            self.generation += 1

    def share(self, member: int) -> list[int]:
        """The keys that the member reads in this generation: partitions go round the topic's subscribers."""
        keys: list[int] = []
        for topic in sorted(self._topics.get(member, ())):
            members = sorted(each for each, topics in self._topics.items() if topic in topics)
            first = members.index(member)
            keys += [topic * self._partitions + at for at in range(first, self._partitions, len(members))]
        return keys

    def commit(self, generation: int, positions: Mapping[int, int]) -> bool:
        """Commit positions by key; False, and nothing done, when the generation has passed."""
        if generation != self.generation:
            return False
        for key, position in positions.items():
            self._before[key] = self._committed.get(key)
            self._committed[key] = position
        return True

    def committed(self, key: int) -> int | None:
        return self._committed.get(key)

    def forget(self, key: int) -> None:
        """A bug: the key's last commit is lost."""
        before = self._before.pop(key, None)
        if before is None:
            self._committed.pop(key, None)
        else:
            self._committed[key] = before
