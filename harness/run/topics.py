"""The topics of a run: each is created before one of its keys is first used."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, Final

from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.model.op import Op
from harness.pipeline_app.partition_numbers import place_of
from harness.run.roles import Call

AHEAD: Final = 2  # topics created before a key needs them
LATELY: Final = 500  # sends
CREATE_TIMEOUT_S: Final = 30.0


class Topics:
    """Creates the topic of a key before the key is first used. Creates a few topics in advance, so that no op waits.

    Key k stands for partition k mod P of the topic `<run>-<k div P>`.

    inputs  for a pipeline, its number of input topics; the keys of sends are then partition numbers as in
            `harness.pipeline_app.partition_numbers`, and all topics are created at the start
    created  number of partitions with which a topic is created; 0: `partitions`
    """

    def __init__(
        self,
        call: Call,
        run: str,
        partitions: int,
        replication: int,
        config: Mapping[str, str],
        inputs: int = 0,
        created: int = 0,
    ) -> None:
        self._call, self._run, self._inputs = call, run, inputs
        self._partitions, self._replication, self._config = partitions, replication, config
        self._created = created or partitions
        self._made = 0
        self._lock = threading.Lock()
        self._ahead: threading.Thread | None = None
        self._keys: deque[int] = deque(maxlen=LATELY)

    def name(self, number: int) -> str:
        return f"{self._run}-{number}"

    def created(self) -> dict[str, Any]:
        """Returns the topics that the cluster has acknowledged to have created, and with which properties.

        The result: {"names", "partitions": per topic, "replication": replicas per partition, "config": settings}.
        """
        with self._lock:
            names = [self.name(number) for number in range(self._made)]
        return {
            "names": names,
            "partitions": self._created,
            "replication": self._replication,
            "config": dict(self._config),
        }

    def ensure(self, key_max: int) -> None:
        """Creates the topics of the keys up to `key_max`, and a few more. Raises ClusterTrouble."""
        with self._lock:
            needed = key_max // self._partitions + 1 + AHEAD
            if needed <= self._made:
                return
            names = [self.name(number) for number in range(self._made, needed)]
            for last in (False, False, True):
                try:
                    self._create(names)
                    break
                except ClusterTrouble:
                    if last:
                        raise
            self._made = needed

    def _create(self, names: list[str]) -> None:
        self._call(
            "create_topics",
            CREATE_TIMEOUT_S + 2.0,
            names=names,
            partitions=self._created,
            replication=self._replication,
            config=dict(self._config),
            timeout_s=CREATE_TIMEOUT_S,
        )

    def before(self, op: Op) -> None:
        """Creates the topics of an op's keys. Called before the op is dispatched.

        Waits only if a topic does not exist yet.
        """
        if not isinstance(op.value, list):
            return
        for mop in op.value:
            if isinstance(mop, list) and mop[0] == "send":
                number = mop[1] // self._partitions
                self._keys.append(mop[1])
                if self._inputs:
                    continue
                if number >= self._made:
                    self.ensure(mop[1])
                elif number + AHEAD >= self._made and (self._ahead is None or not self._ahead.is_alive()):
                    self._ahead = threading.Thread(target=self._make_ahead, args=(mop[1],), daemon=True)
                    self._ahead.start()

    def sends(self) -> dict[tuple[str, int], int]:
        """Returns (topic, partition) -> number of sends among the last LATELY sends of the run."""
        found = Counter(self._keys.copy())
        return {self._place(key): n for key, n in found.items()}

    def _place(self, key: int) -> tuple[str, int]:
        if self._inputs:
            topic, partition = place_of(key, self._inputs)
            return self.name(topic), partition
        return self.name(key // self._partitions), key % self._partitions

    def _make_ahead(self, key: int) -> None:
        """Creates topics in advance, in a thread. Ignores errors: `before` tries again when a topic is needed."""
        with contextlib.suppress(ClusterTrouble):
            self.ensure(key)
