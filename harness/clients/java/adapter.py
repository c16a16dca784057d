"""Adapter for Kafka's Java client, in any version, through py4j.

Every client has its own JVM (`jvm`), so that a crash of a client is the crash of a process.
Behaviour of the Java client that matters here (from its documentation, and observed on brokers):
- `poll` returns a list. The text of the list contains every record with its offset and the size of its value, so a
  single py4j call transfers all records.
- There is no end-of-partition event. But once the consumer has reached the end of a partition, its position is already
  past any transaction markers.
- Rebalance listeners are called on the polling thread, and no other thread may call the consumer during a poll.
  So the listener of the queue workload only records the events, and committed offsets are fetched after the poll.
- Closing a producer with timeout 0 leaves its transaction open.
- Admin and metadata requests go through librdkafka, whichever client is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.clients.java.consumer import JavaConsumer
from harness.clients.java.jvm import Machine
from harness.clients.java.producer import JavaProducer
from harness.clients.settings import Settings, parse_settings
from harness.model.errors_and_exit_codes import BadInput
from harness.protocol.error_codes import ClientError


class Java:
    """`client_protocols.Library` for the Java client.

    The first producer or consumer starts the JVM. If the JVM is killed, the next producer or consumer starts a new one.
    """

    def __init__(self, java: Mapping[str, str]) -> None:
        self._java = java
        self._machine: Machine | None = None

    def _running(self) -> Machine:
        if self._machine is None or self._machine.ended:
            self._machine = Machine(self._java)
        return self._machine

    def producer(self, settings: Settings) -> JavaProducer:
        return JavaProducer(self._running(), settings)

    def consumer(self, settings: Settings) -> JavaConsumer:
        return JavaConsumer(self._running(), settings)

    def admin(self, settings: Settings) -> Any:
        from harness.clients.confluent.adapter import Confluent

        return Confluent().admin(settings)

    def close(self) -> None:
        """Ends the JVM."""
        if self._machine is not None:
            self._machine.kill()


def problem(config: Mapping[str, Any]) -> str:
    """Returns why the library rejects the settings, or "" if it accepts them: see `table.Library`.

    Starts a JVM for the check.
    """
    library, settings = Java(config["java"]), parse_settings(config)
    try:
        library.producer(settings).close()
        library.consumer(settings).close(leave=False)
    except (BadInput, ClientError) as error:
        return str(error)
    finally:
        library.close()
    return ""


def open_client(config: Mapping[str, Any]) -> Any:
    """Opens the client of one process: a `queue.QueueClient`."""
    from harness.clients.queue import QueueClient

    library = Java(config["java"])
    return QueueClient(parse_settings(config), library, library.close)
