"""Adapter for Kafka's own Java client, of any version, through py4j.

Every client has a JVM of its own (`machine`), so that one which crashes vanishes as a process does.
How the Java client behaves where it matters here (its own documentation, and seen on brokers):
- `poll` hands over a list; its text names every record with its offset and the size of its value, so one call
  brings them all.
- There is no event for the end of a partition; the position is beyond transaction markers by itself.
- Rebalance listeners are called on the thread that polls, and the consumer may not be called from another
  meanwhile. The queue's only notes what happened; what the group has committed is asked for after the poll.
- `close` of a producer without time leaves its transaction open.
- Administration and metadata are librdkafka's, as for every client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.clients.java.consumer import JavaConsumer
from harness.clients.java.jvm import Machine
from harness.clients.java.producer import JavaProducer
from harness.clients.settings import Settings, settings
from harness.model.errors_and_exit_codes import BadInput
from harness.protocol.error_codes import ClientError


class Java:
    """`api.Library`. The JVM starts with the first producer or consumer, and again after it was killed."""

    def __init__(self, java: Mapping[str, str]) -> None:
        self._java = java
        self._machine: Machine | None = None

    def _running(self) -> Machine:
        if self._machine is None or self._machine.ended:
            self._machine = Machine(self._java)
        return self._machine

    def producer(self, made: Settings) -> JavaProducer:
        return JavaProducer(self._running(), made)

    def consumer(self, made: Settings) -> JavaConsumer:
        return JavaConsumer(self._running(), made)

    def admin(self, made: Settings) -> Any:
        from harness.clients.confluent.adapter import Confluent

        return Confluent().admin(made)

    def close(self) -> None:
        """End the JVM."""
        if self._machine is not None:
            self._machine.kill()


def problem(config: Mapping[str, Any]) -> str:
    """What it has against the settings, or ""; starts a JVM for it. See `table.Library`."""
    library, made = Java(config["java"]), settings(config)
    try:
        library.producer(made).close()
        library.consumer(made).close(leave=False)
    except (BadInput, ClientError) as error:
        return str(error)
    finally:
        library.close()
    return ""


def open_client(config: Mapping[str, Any]) -> Any:
    """A client of one process (`queue.QueueClient`)."""
    from harness.clients.queue import QueueClient

    library = Java(config["java"])
    return QueueClient(settings(config), library, library.close)
