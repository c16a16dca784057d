"""Adapter for aiokafka, a client in Python on asyncio. Every producer and consumer has a loop of its own.

How aiokafka behaves where it matters here, read in its source (0.14) and seen on brokers:
- It has no count of retries. Without idempotence a send is given up after `request_timeout_ms`, and only
  between tries; with it, never: what a call waits for is bounded here.
- One request at a time goes to each broker, so sends of a partition keep their order without idempotence too.
- What failed for good leaves a hole in the sequence numbers of an idempotent producer, and nothing fills it:
  such a producer is given up.
- Groups rebalance beside the calls, not within `poll` as with other libraries: see `group`.
- Offsets go to a transaction without the member's generation (TxnOffsetCommit, version 0; KIP-447 added it),
  and committed offsets are asked for without waiting for pending transactions: a consumer that has lost its
  partitions without knowing is not fenced. One that knows does not commit them.
- `stop` flushes and leaves the group. To vanish as a crashed process would, all tasks are cancelled and the
  connections closed.
- Administration and metadata are librdkafka's, as for every client.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from harness.clients.aiokafka.consumer import AiokafkaConsumer
from harness.clients.aiokafka.producer import AiokafkaProducer
from harness.clients.settings import Settings, settings
from harness.model.errors_and_exit_codes import BadInput


class Aiokafka:
    """`api.Library`."""

    def __init__(self) -> None:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # its errors are raised as well

    def producer(self, made: Settings) -> AiokafkaProducer:
        return AiokafkaProducer(made)

    def consumer(self, made: Settings) -> AiokafkaConsumer:
        return AiokafkaConsumer(made)

    def admin(self, made: Settings) -> Any:
        from harness.clients.confluent.adapter import Confluent

        return Confluent().admin(made)


def problem(config: Mapping[str, Any]) -> str:
    """What it has against the settings, or "": see `table.Library`."""
    library, made = Aiokafka(), settings(config)
    try:
        library.producer(made).close()
        library.consumer(made).close(leave=False)
    except BadInput as error:
        return str(error)
    return ""


def open_client(config: Mapping[str, Any]) -> Any:
    """A client of one process (`queue.QueueClient`)."""
    from harness.clients.queue import QueueClient

    return QueueClient(settings(config), Aiokafka())
