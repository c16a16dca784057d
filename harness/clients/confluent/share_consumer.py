"""Members of share groups with confluent-kafka's ShareConsumer (a preview in 2.16).

Behaviour of the library that matters here (observed on brokers):
- With explicit acknowledgement, a poll raises an error unless every record of the poll before is acknowledged.
- `commit_sync` answers per partition. It does not answer for partitions of which nothing was pending.
- A callback reports the results of acknowledgements that a poll carries. The library calls it within the next calls.
- RENEW does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import confluent_kafka as ck

from harness.clients.call_timeout import bounded
from harness.clients.confluent.adapter import CLOSE_TIMEOUT_S, Confluent, destroy_beside
from harness.clients.confluent.dead_letters import dead_letters
from harness.clients.confluent.settings_and_errors import common, converted, made_with
from harness.clients.settings import Settings, parse_settings
from harness.clients.share.library import NO_ANSWER, REFUSED, Acknowledgement, Delivered, Place, Polled, Results
from harness.model.errors_and_exit_codes import Missing

FETCH_WAIT_MS: Final = 100


class ConfluentShareConsumer:
    """`share.library.ShareConsumer`, implemented with `confluent_kafka.ShareConsumer`."""

    def __init__(self, settings: Settings, group: str, topics: Sequence[str], acknowledgement: Acknowledgement) -> None:
        if not hasattr(ck, "ShareConsumer"):
            raise Missing(f"confluent-kafka {ck.__version__} has no share consumer; use 2.16 or later")
        config = common(settings) | {
            "group.id": group,
            "share.acknowledgement.mode": acknowledgement,
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "max.poll.records": settings.records_max,
        }
        self._consumer: Any = made_with(ck.ShareConsumer, config | dict(settings.consumer_config), "consumer")
        self._reported: dict[Place, str | None] = {}
        if acknowledgement == "implicit":
            self._consumer.set_acknowledgement_commit_callback(self._report)
        self._consumer.subscribe(list(topics))

    def _report(self, offsets: Mapping[Any, set[int]], error: Any) -> None:
        name = None if error is None else converted(error).code
        for at, numbers in offsets.items():
            self._reported |= {Place(at.topic, at.partition, number): name for number in numbers}

    def poll(self, timeout_s: float) -> Polled:
        try:
            messages = self._consumer.poll(timeout_s)
        except (ck.KafkaException, RuntimeError) as error:
            raise converted(error) from None
        records, errors = [], []
        for message in messages:
            if message.error() is not None:
                errors.append(str(converted(message.error())))
                continue
            place = Place(message.topic(), message.partition(), message.offset())
            records.append(Delivered(place, message.value(), message.delivery_count()))
        reported, self._reported = self._reported, {}
        return Polled(records, reported, errors)

    def acknowledge(self, kinds: Mapping[Place, str], timeout_s: float) -> Results:
        results: dict[Place, str | None] = {}
        for place, kind in kinds.items():
            try:
                self._consumer.acknowledge_offset(*place, getattr(ck.AcknowledgeType, kind.upper()))
                results[place] = NO_ANSWER
            except (ck.KafkaException, RuntimeError):
                results[place] = REFUSED
        if all(result == REFUSED for result in results.values()):
            return results
        try:
            answers = self._consumer.commit_sync(timeout_s)
        except (ck.KafkaException, RuntimeError) as error:
            raise converted(error) from None
        errors = {(at.topic, at.partition): None if e is None else converted(e).code for at, e in answers.items()}
        return {
            place: result if result == REFUSED else errors.get((place.topic, place.partition), NO_ANSWER)
            for place, result in results.items()
        }

    def close(self) -> None:
        holder, self._consumer = [self._consumer], None
        try:
            bounded(holder[0].close, CLOSE_TIMEOUT_S, "leaving the share group")
        except ck.KafkaException as error:
            raise converted(error) from None
        finally:
            destroy_beside(holder)

    def drop(self) -> None:
        holder, self._consumer = [self._consumer], None
        destroy_beside(holder)


class ConfluentShare(Confluent):
    """`share.library.ShareLibrary` for confluent-kafka."""

    def share_consumer(
        self, settings: Settings, group: str, topics: Sequence[str], acknowledgement: Acknowledgement
    ) -> ConfluentShareConsumer:
        try:
            return ConfluentShareConsumer(settings, group, topics, acknowledgement)
        except ck.KafkaException as error:
            raise converted(error) from None

    def dead_letters(self, settings: Settings, topic: str, timeout_s: float) -> list[Place]:
        return dead_letters(settings, topic, timeout_s)


def open_client(config: Mapping[str, Any]) -> Any:
    """Opens the client of one process: a `share.client.ShareClient`."""
    from harness.clients.share.client import ShareClient

    return ShareClient(parse_settings(config), ConfluentShare(), config["logic_options"])
