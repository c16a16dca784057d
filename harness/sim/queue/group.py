"""A simulated consumer group: the assignment of keys to members, in generations, and the committed offsets.

The group follows a simplified eager protocol: any change of members or subscriptions starts a new generation. At the
next poll of a member, all of its keys are revoked, and its new share is assigned. Commits from an older generation are
rejected. New owners start at the group's committed offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Group:
    """The consumer group. Members are identified by process numbers, topics by numbers.

    With P partitions per topic, topic number t has the keys t*P to t*P + P-1.

    Not thread-safe.
    """

    def __init__(self, partitions_per_topic: int) -> None:
        self._partitions = partitions_per_topic
        self._topics: dict[int, frozenset[int]] = {}
        self._committed: dict[int, int] = {}
        self._before: dict[int, int | None] = {}
        self.generation = 0

    def subscribe(self, member: int, keys: Iterable[int]) -> None:
        """Subscribes the member to the topics of these keys: it joins the group, or changes its subscription."""
        self._topics[member] = frozenset(key // self._partitions for key in keys)
        self.generation += 1

    def leave(self, member: int) -> None:
        if self._topics.pop(member, None) is not None:
            self.generation += 1

    def share(self, member: int) -> list[int]:
        """Returns the keys (partitions) that the member owns in the current generation.

        The partitions of each topic are assigned round robin.
        """
        keys: list[int] = []
        for topic in sorted(self._topics.get(member, ())):
            members = sorted(each for each, topics in self._topics.items() if topic in topics)
            first = members.index(member)
            keys += [topic * self._partitions + at for at in range(first, self._partitions, len(members))]
        return keys

    def of_others(self, member: int) -> list[int]:
        """Returns the keys of the member's topics that other members own in the current generation."""
        keys = {
            topic * self._partitions + at for topic in self._topics.get(member, ()) for at in range(self._partitions)
        }
        return sorted(keys - set(self.share(member)))

    def commit(self, generation: int, positions: Mapping[int, int]) -> bool:
        """Commits `positions` (key -> position). If `generation` is not current, commits nothing and returns False."""
        if generation != self.generation:
            return False
        for key, position in positions.items():
            self._before[key] = self._committed.get(key)
            self._committed[key] = position
        return True

    def committed(self, key: int) -> int | None:
        return self._committed.get(key)

    def forget(self, key: int) -> None:
        """Simulates the bug `lose-commit`: undoes the last commit for the key."""
        before = self._before.pop(key, None)
        if before is None:
            self._committed.pop(key, None)
        else:
            self._committed[key] = before
