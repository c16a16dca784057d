"""Tests whether a broker still recognizes old sequence numbers, with requests that no client library would send.

By KIP-98, a batch that was appended before is not appended again: the broker repeats its first response, or responds
with DUPLICATE_SEQUENCE_NUMBER. A batch that leaves a gap in the sequence numbers is rejected.
"""

from __future__ import annotations

import time
from typing import Any, Final

from harness.protocol import requests
from harness.protocol.connections_and_retries import Link
from harness.protocol.encode_batch import encode
from harness.protocol.error_codes import ClientError

BATCHES: Final = 3
GAP: Final = 7


class Sequences:
    """An idempotent producer that appends batches of one record to partition 0 of a topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._link, self._topic = Link(bootstrap), topic
        self._producer, self._epoch, self._stamp = -1, -1, int(time.time() * 1000)

    def append(self) -> list[int]:
        """Appends BATCHES batches, and returns the offsets of the batches. Raises ClientError."""
        error, self._producer, self._epoch = self._link.at_leader(
            self._topic, 0, requests.INIT_PRODUCER_ID, requests.init_producer_id(None, 0), requests.initialised, _first
        )
        if error:
            raise ClientError(str(error), "no producer id was assigned")
        found = [self._send(sequence) for sequence in range(BATCHES)]
        if any(error for error, _ in found):
            raise ClientError(str(found[0][0]), "the first batches of a new producer were rejected")
        return [base for _, base in found]

    def again(self) -> dict[str, Any]:
        """Resends the last batch, then sends a batch that leaves a gap in the sequence numbers.

        Returns {"retry": [error, offset] of the repeated batch, "gap": error of the batch with the gap, "end": log end
        offset}. Errors are protocol error numbers. Raises ClientError.
        """
        self._link.placed(self._topic)  # the leader may have changed
        retry, gap = self._send(BATCHES - 1), self._send(BATCHES + GAP)
        request = requests.list_offsets(self._topic, 0, requests.LATEST, False)
        _, end = self._link.at_leader(self._topic, 0, requests.LIST_OFFSETS, request, requests.listed, _first)
        return {"retry": list(retry), "gap": gap[0], "end": end}

    def _send(self, sequence: int) -> tuple[int, int]:
        text = f"sequence {sequence}"
        batch = encode([(self._stamp, None, text)], "none", self._producer, self._epoch, sequence)
        request = requests.produce(self._topic, 0, batch, -1, None)
        return self._link.at_leader(self._topic, 0, requests.PRODUCE, request, requests.produced, _first)


def _first(found: tuple[int, ...]) -> int:
    return found[0]
