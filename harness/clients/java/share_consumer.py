"""Members of share groups with Kafka's Java client: KafkaShareConsumer (stable since 4.2).

Behaviour of the client that matters here (from its documentation, KIP-1222, and observed on brokers):
- With explicit acknowledgement, a poll raises IllegalStateException unless every record of the poll before is
  acknowledged. `acknowledge` with an offset is only for records that could not be deserialized.
- After a record's lock was renewed, a later poll hands the record over again, to be acknowledged.
- A callback reports the results of acknowledgements that a poll carries. It runs on the polling thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from harness.clients.call_timeout import bounded
from harness.clients.java import settings_and_errors
from harness.clients.java.adapter import Java
from harness.clients.java.consumer import CLOSE_TIMEOUT_S, GRACE_S, lists_of
from harness.clients.java.jvm import Machine
from harness.clients.java.records import parsed
from harness.clients.settings import Settings, parse_settings
from harness.clients.share.library import NO_ANSWER, REFUSED, Acknowledgement, Delivered, Place, Polled, Results
from harness.protocol.error_codes import ClientError

# Properties of a consumer that KafkaShareConsumer refuses, because the group decides (KIP-932).
_OF_THE_GROUP: Final = (
    "isolation.level", "auto.offset.reset", "enable.auto.commit", "session.timeout.ms", "heartbeat.interval.ms",
)  # fmt: skip


class _Listener:
    """An AcknowledgementCommitCallback that records the results."""

    def __init__(self, named: Callable[[Any], str]) -> None:
        self._named = named
        self.reported: dict[Place, str | None] = {}

    def onComplete(self, offsets: Any, exception: Any) -> None:
        name = None if exception is None else self._named(exception)
        for entry in offsets.entrySet():
            at = entry.getKey()
            topic, partition = str(at.topic()), int(at.partition())
            self.reported |= {Place(topic, partition, int(offset)): name for offset in entry.getValue()}

    class Java:
        implements = ("org.apache.kafka.clients.consumer.AcknowledgementCommitCallback",)


class JavaShareConsumer:
    """`share.library.ShareConsumer`, implemented with KafkaShareConsumer."""

    def __init__(
        self, machine: Machine, settings: Settings, group: str, topics: Sequence[str], acknowledgement: Acknowledgement
    ) -> None:
        self._machine, self._listener = machine, _Listener(self._name)
        # record -> the Java list of the poll that handed it over, and its index there
        self._handed_over: dict[Place, tuple[Any, int]] = {}
        properties = settings_and_errors.consumer(settings)
        config = {name: value for name, value in properties.items() if name not in _OF_THE_GROUP}
        config |= {"group.id": group, "share.acknowledgement.mode": acknowledgement}
        self._consumer = self._call(lambda: machine.KafkaShareConsumer(machine.properties(config)))
        if acknowledgement == "implicit":
            machine.listen()
            self._call(lambda: self._consumer.setAcknowledgementCommitCallback(self._listener))
        self._call(lambda: self._consumer.subscribe(list(topics)))

    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as raised:
            raise self._machine.converted(raised) from None

    def _name(self, exception: Any) -> str:
        """Returns the protocol's name of a Java exception's error."""
        return str(self._machine.Errors.forException(exception).name())

    def poll(self, timeout_s: float) -> Polled:
        polled = self._call(lambda: self._consumer.poll(self._machine.millis(timeout_s)))
        delivered = []
        for text, records in self._call(lambda: lists_of(polled)):
            for number, each in enumerate(parsed(text)):
                place = Place(each.topic, each.partition, each.offset)
                self._handed_over[place] = (records, number)
                delivered.append(Delivered(place, each.value, each.deliveries))
        reported, self._listener.reported = self._listener.reported, {}
        return Polled(delivered, reported)

    def acknowledge(self, kinds: Mapping[Place, str], timeout_s: float) -> Results:
        results: dict[Place, str | None] = {}
        types = self._call(lambda: {kind: self._type(kind) for kind in set(kinds.values())})
        for place, kind in kinds.items():
            records, number = self._handed_over.get(place, (None, 0))
            if records is None:
                results[place] = REFUSED
                continue
            try:
                self._consumer.acknowledge(records.get(number), types[kind])
                results[place] = NO_ANSWER
            except Exception as raised:
                error = self._machine.converted(raised)
                if error.code != "_IllegalStateException":
                    raise error from None
                results[place] = REFUSED
        self._handed_over.clear()
        if all(result == REFUSED for result in results.values()):
            return results
        errors = self._call(lambda: self._errors(self._consumer.commitSync(self._machine.millis(timeout_s))))
        return {
            place: result if result == REFUSED else errors.get((place.topic, place.partition), NO_ANSWER)
            for place, result in results.items()
        }

    def _type(self, kind: str) -> Any:
        return getattr(self._machine.AcknowledgeType, kind.upper())

    def _errors(self, answers: Any) -> dict[tuple[str, int], str | None]:
        """Returns partition -> error name or None, of a Java map of partition -> optional exception."""
        found = {}
        for entry in answers.entrySet():
            at, exception = entry.getKey(), entry.getValue()
            name = self._name(exception.get()) if exception.isPresent() else None
            found[str(at.topic()), int(at.partition())] = name
        return found

    def close(self) -> None:
        bounded(
            lambda: self._call(lambda: self._consumer.close(self._machine.millis(CLOSE_TIMEOUT_S))),
            CLOSE_TIMEOUT_S + GRACE_S,
            "leaving the share group",
        )

    def drop(self) -> None:
        self._machine.kill()


class JavaShare(Java):
    """`share.library.ShareLibrary` for the Java client."""

    def share_consumer(
        self, settings: Settings, group: str, topics: Sequence[str], acknowledgement: Acknowledgement
    ) -> JavaShareConsumer:
        try:
            machine = self._running()
        except Exception as error:  # an OSError, or one of py4j's exceptions, which have no common base class
            raise ClientError("_JVM", f"the client's JVM did not start: {error}", "fatal") from None
        return JavaShareConsumer(machine, settings, group, topics, acknowledgement)

    def dead_letters(self, settings: Settings, topic: str, timeout_s: float) -> list[Place]:
        from harness.clients.confluent.dead_letters import dead_letters

        return dead_letters(settings, topic, timeout_s)


def open_client(config: Mapping[str, Any]) -> Any:
    """Opens the client of one process: a `share.client.ShareClient`."""
    from harness.clients.share.client import ShareClient

    library = JavaShare(config["java"])
    return ShareClient(parse_settings(config), library, config["logic_options"], library.close)
