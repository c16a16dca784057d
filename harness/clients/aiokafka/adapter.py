"""Adapter for aiokafka, a Python client on asyncio. Every producer and consumer has its own event loop.

Behaviour of aiokafka that matters here, from its source (0.14) and observed on brokers:
- The number of retries is not limited. Without idempotence, a send fails after `request_timeout_ms`; this limit is
  checked only between attempts. With idempotence, a send is retried forever. So the adapter limits how long a call
  waits.
- Only one request at a time is sent to each broker, so sends to a partition keep their order without idempotence too.
- A send that failed permanently leaves a gap in an idempotent producer's sequence numbers, which is never filled.
  So the adapter then replaces the producer.
- Groups rebalance concurrently with the calls, not within `poll` as in other libraries: see `group`.
- Offsets are added to a transaction without the member's generation (TxnOffsetCommit, version 0; KIP-447 added the
  generation), and committed offsets are fetched without waiting for pending transactions. So a consumer that has lost
  its partitions without noticing is not fenced. Once it has noticed, the adapter does not commit their offsets.
- `stop` flushes and leaves the group. To disappear like a crashed process, the adapter cancels all tasks and closes
  the connections.
- Admin and metadata requests go through librdkafka, whichever client is used.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from harness.clients.aiokafka.consumer import AiokafkaConsumer
from harness.clients.aiokafka.producer import AiokafkaProducer
from harness.clients.settings import Settings, parse_settings
from harness.model.errors_and_exit_codes import BadInput


class Aiokafka:
    """`client_protocols.Library` for aiokafka."""

    def __init__(self) -> None:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it also raises the errors that it logs

    def producer(self, settings: Settings) -> AiokafkaProducer:
        return AiokafkaProducer(settings)

    def consumer(self, settings: Settings) -> AiokafkaConsumer:
        return AiokafkaConsumer(settings)

    def admin(self, settings: Settings) -> Any:
        from harness.clients.confluent.adapter import Confluent

        return Confluent().admin(settings)


def problem(config: Mapping[str, Any]) -> str:
    """Returns why the library rejects the settings, or "" if it accepts them: see `table.Library`."""
    library, settings = Aiokafka(), parse_settings(config)
    try:
        library.producer(settings).close()
        library.consumer(settings).close(leave=False)
    except BadInput as error:
        return str(error)
    return ""


def open_client(config: Mapping[str, Any]) -> Any:
    """Opens the client of one process: a `queue.QueueClient`."""
    from harness.clients.queue import QueueClient

    return QueueClient(parse_settings(config), Aiokafka())
