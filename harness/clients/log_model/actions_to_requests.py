"""The log role of a worker: carries out actions of the log model as requests to brokers, and reports offsets.

Each action is a single request where possible. A batch has the sequence numbers that its producer would assign, a retry
sends the same batch again, and a fetch has the given byte limit and filters aborted transactions as in KIP-98. The
log end offset shows whether an append without sequence numbers succeeded if the response is missing: no other client
writes to the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from harness.protocol import error_codes, requests
from harness.protocol.connections_and_retries import Link, Uncertain
from harness.protocol.encode_batch import Triple, encode, encode_old
from harness.protocol.error_codes import ClientError
from harness.protocol.fetched_batches import visible, whole
from harness.sim.log_model.action_types import Action
from harness.sim.log_model.model import SENT_KEPT
from harness.sim.log_model.records import NO_TIMESTAMP
from harness.sim.log_model.senders import Producer, Sent

Answer = dict[str, Any]
TXN_TIMEOUT_MS: Final = 900_000  # the maximum that brokers allow, so that no transaction times out in a run
FETCH_BYTES: Final = 1 << 20
TRIES: Final = 5
_OF_TIERS: Final = {
    "earliest-local": (requests.LIST_LOCAL_OFFSETS, requests.EARLIEST_LOCAL),
    "latest-tiered": (requests.LIST_TIERED_OFFSETS, requests.LATEST_TIERED),
}


@dataclass(slots=True)
class Identity:
    """The producer id and epoch that a broker has given to a producer of the log model.

    number  the producer id
    known   the producer's own state, such as its next sequence numbers
    raised  how many times the producer was initialised again, which raises the epoch
    """

    number: int
    epoch: int
    known: Producer = field(default_factory=Producer)
    raised: int = 0


class LogRole:
    """Carries out actions of the log model on a topic.

    Its methods are called by name, one at a time: see `harness.run.worker`.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._link = Link(config["bootstrap"])
        self._checked = config.get("consumer_config", {}).get("check.crcs") != "false"
        self._topic, self._partitions, self._acks, self._tiered = "", 1, -1, False
        self._producers: dict[int, Identity] = {}
        self._ends: dict[int, int] = {}

    def open(self, topic: str, partitions: int, tiered: bool = False) -> None:
        """Switches to another topic, and forgets all producers. `tiered`: whether the topic uses tiered storage."""
        self._topic, self._partitions, self._tiered = topic, partitions, tiered
        self._producers, self._ends = {}, dict.fromkeys(range(partitions), 0)
        self._acks = -1

    def hold(self, held: bool) -> None:
        """Records whether followers are cut off from their leaders (`held`).

        While they are, appends without sequence numbers use acks=1, because acks=all would wait for the followers.
        """
        self._acks = 1 if held else -1

    def apply(self, f: str, args: Mapping[str, Any], now: int) -> Answer:
        """Carries out an action of the log model, given its name `f` and its arguments.

        The arguments must contain absolute offsets instead of relative positions. `now` is the time in ms. Returns a
        dict:

        error  name of a protocol error; empty for success
        value  result of the action
        size   size of the appended batch in bytes

        Raises ClientError if the action could not be carried out.
        """
        return _DO[f](self, Action(f, args), now)

    def seen(self, tiers: Sequence[str] = ()) -> list[list[int]]:
        """Returns one row of offsets for each partition.

        A row contains the log start offset, high watermark, last stable offset, log end offset, and then the offsets
        named in `tiers`: "earliest-local", "latest-tiered" or both.
        """
        rows = []
        for partition in range(self._partitions):
            offsets = [
                self._offset(partition, requests.EARLIEST, False),
                self._offset(partition, requests.LATEST, False),
                self._offset(partition, requests.LATEST, True),
                self._offset(partition, requests.LATEST, False, requests.DEBUGGING),
            ]
            self._ends[partition] = offsets[3]
            rows.append([*offsets, *(self._tier_offset(partition, what) for what in tiers)])
        return rows

    def where(self) -> list[list[Any]]:
        """Returns [leader (-1: none), leader epoch, replicas, ISR] for each partition."""
        places = self._link.placed(self._topic).partitions
        return [list(places.get(partition, (-1, -1, (), ()))) for partition in range(self._partitions)]

    def config(self, name: str) -> list[str]:
        """Returns the values that the brokers report for a setting of the topic, one for each broker.

        The value is "" for a broker that does not respond.
        """
        request = requests.describe_config(self._topic, name)
        values = []
        for address in self._link.brokers(self._topic):
            try:
                values.append(requests.described(self._link.ask(address, requests.DESCRIBE_CONFIGS, request)))
            except OSError:  # the connection is from before a restart; the next call opens a new one
                values.append("")
        return values

    # --- writing ---

    def _identity(self, producer: int) -> Identity:
        if producer not in self._producers:
            number, epoch = self._initialised(producer)
            self._producers[producer] = Identity(number, epoch)
        return self._producers[producer]

    def _id(self, producer: int) -> str:
        return f"{self._topic}-{producer}"

    def _initialised(self, producer: int) -> tuple[int, int]:
        name = self._id(producer)
        request = requests.init_producer_id(name, TXN_TIMEOUT_MS)
        error, number, epoch = self._link.at_coordinator(
            name, self._topic, requests.INIT_PRODUCER_ID, request, requests.initialised, lambda answer: answer[0]
        )
        if error:
            raise ClientError(error_codes.name(error), "no producer id was assigned")
        return number, epoch

    def append(self, action: Action, now: int) -> Answer:
        magic = action.arg("magic")
        triples = tuple((now - age if magic else NO_TIMESTAMP, key, value) for key, value, age in action.arg("records"))
        partition, codec = action.arg("partition"), action.arg("codec")
        if action.arg("producer") < 0:
            batch = encode(triples, codec)
            if magic == 2:
                request = requests.produce(self._topic, partition, batch, self._acks, None)
                return self._plain(partition, requests.PRODUCE, request, len(triples), len(batch))
            # The broker converts it to a batch of format 2, of the same size as `batch`.
            request = requests.produce_old(self._topic, partition, encode_old(triples, magic), self._acks)
            return self._plain(partition, requests.PRODUCE_OLD, request, len(triples), len(batch))
        who = self._identity(action.arg("producer"))
        known = who.known
        sent = Sent(who.epoch, known.next.get(partition, 0), triples, action.arg("txn"))
        if sent.transactional and partition not in known.partitions:
            self._add(action.arg("producer"), who, partition)
        answer = self._send(action.arg("producer"), partition, sent, codec)
        if not answer["error"]:
            known.next[partition] = sent.sequence + len(triples)
            kept = [*known.sent.get(partition, []), replace(sent, end=answer["value"][1])]
            known.sent[partition] = kept[-SENT_KEPT:]
            if sent.transactional:
                known.partitions.add(partition)
        return answer

    def _add(self, producer: int, who: Identity, partition: int) -> None:
        name = self._id(producer)
        request = requests.add_partition(name, who.number, who.epoch, self._topic, partition)
        error = self._link.at_coordinator(
            name, self._topic, requests.ADD_PARTITIONS, request, requests.added, lambda answer: answer
        )
        if error:
            raise ClientError(error_codes.name(error), "the partition was not added to the transaction")

    def _send(self, producer: int, partition: int, sent: Sent, codec: str = "none") -> Answer:
        """Sends a batch with sequence numbers, and repeats this until there is a response.

        The broker recognizes the sequence numbers, so it appends the batch only once.
        """
        who = self._producers[producer]
        batch = encode(sent.triples, codec, who.number, sent.epoch, sent.sequence, sent.transactional)
        name = self._id(producer) if sent.transactional else None
        request = requests.produce(self._topic, partition, batch, -1, name)
        error, base = self._link.at_leader(
            self._topic, partition, requests.PRODUCE, request, requests.produced, lambda answer: answer[0]
        )
        return _appended(error, base, len(sent.triples), len(batch))

    def _plain(self, partition: int, api: tuple[int, int], request: bytes, count: int, size: int) -> Answer:
        """Sends a batch of `count` records (`size` bytes) without sequence numbers, in an encoded Produce request.

        Repeats this only if the batch was certainly not appended.
        """
        for _ in range(TRIES):
            try:
                error, base = self._link.at_leader(
                    self._topic, partition, api, request, requests.produced, lambda answer: answer[0], True
                )
                return _appended(error, base, count, size)
            except Uncertain:
                before, end = (
                    self._ends[partition],
                    self._offset(partition, requests.LATEST, False, requests.DEBUGGING),
                )
                if end == before + count:
                    return _appended(0, before, count, size)
                if end != before:
                    raise ClientError("_FAIL", f"the log end offset changed from {before} to {end}") from None
        raise ClientError("_TIMED_OUT", f"nothing was appended in {TRIES} attempts")

    def retry(self, action: Action, now: int) -> Answer:
        partition, producer, back = (action.arg(name) for name in ("partition", "producer", "back"))
        sent = self._identity(producer).known.sent.get(partition, [])
        if not 0 <= back < len(sent):
            return _value(None)
        return self._send(producer, partition, sent[-1 - back])

    def gap(self, action: Action, now: int) -> Answer:
        partition, producer = action.arg("partition"), action.arg("producer")
        known = self._identity(producer).known
        if not known.sent.get(partition):
            return _value(None)
        triples: tuple[Triple, ...] = ((now, "gap", "gap"),)
        epoch = self._producers[producer].epoch
        return self._send(producer, partition, Sent(epoch, known.next[partition] + 3, triples, False))

    def zombie(self, action: Action, now: int) -> Answer:
        producer = action.arg("producer")
        who = self._identity(producer)
        if not who.raised:
            return _value(None)
        return self._send(producer, action.arg("partition"), Sent(who.epoch - 1, 0, ((now, "z", "z"),), True))

    def init(self, action: Action, now: int) -> Answer:
        who = self._identity(action.arg("producer"))
        number, epoch = self._initialised(action.arg("producer"))
        fresh = number != who.number or epoch > who.epoch
        if not fresh:
            return {"error": "EPOCH_NOT_RAISED", "value": [who.epoch, epoch], "size": 0}
        self._producers[action.arg("producer")] = Identity(number, epoch, Producer(), who.raised + 1)
        return _value(who.raised + 1)

    def commit(self, action: Action, now: int) -> Answer:
        producer = action.arg("producer")
        who, name = self._identity(producer), self._id(producer)
        request = requests.end_txn(name, who.number, who.epoch, action.f == "commit")
        error = self._link.at_coordinator(
            name, self._topic, requests.END_TXN, request, requests.ended, lambda answer: answer
        )
        who.known.partitions = set()
        return _value(None) if not error else _failed(error)

    # --- reading ---

    def _offset(self, partition: int, at: int, committed: bool, replica: int = requests.CONSUMER) -> int:
        request = requests.list_offsets(self._topic, partition, at, committed, replica)
        error, offset = self._link.at_leader(
            self._topic, partition, requests.LIST_OFFSETS, request, requests.listed, lambda answer: answer[0]
        )
        if error:
            raise ClientError(error_codes.name(error), "the broker returned no offset")
        return offset

    def _tier_offset(self, partition: int, what: str) -> int:
        api, at = _OF_TIERS[what]
        request = requests.list_tier_offsets(self._topic, partition, at)
        error, offset = self._link.at_leader(
            self._topic, partition, api, request, requests.listed_of_tier, lambda answer: answer[0]
        )
        if error:
            raise ClientError(error_codes.name(error), f"the broker returned no offset: {what}")
        return offset

    def list_offsets(self, action: Action, now: int) -> Answer:
        what, committed = action.arg("what"), action.arg("isolation") == "read_committed"
        if what in _OF_TIERS:
            return _value(self._tier_offset(action.arg("partition"), what))
        at = {"earliest": requests.EARLIEST, "latest": requests.LATEST}.get(what, now - action.arg("age"))
        return _value(self._offset(action.arg("partition"), at, committed))

    def read(self, action: Action, now: int) -> Answer:
        return self._fetch(action, action.arg("at"), action.arg("max_bytes"))

    def _fetch(self, action: Action, at: int, max_bytes: int) -> Answer:
        committed = action.arg("isolation") == "read_committed"
        partition = action.arg("partition")
        request = requests.fetch(self._topic, partition, at, committed, max_bytes, self._tiered)
        fetched = self._link.at_leader(
            self._topic, action.arg("partition"), requests.FETCH, request, requests.fetched, lambda got: got.error
        )
        if fetched.error:
            return _failed(fetched.error)
        batches = list(whole(fetched.data, self._checked))
        position = max(at, batches[-1].last + 1) if batches else at
        return _value([visible(batches, at, fetched.aborted if committed else ()), position])

    def read_all(self, action: Action, now: int) -> Answer:
        """Fetches all records from the log start offset, until a fetch no longer advances the position."""
        at, before = self._offset(action.arg("partition"), requests.EARLIEST, False), -1
        records: list[Any] = []
        while at != before:
            before, answer = at, self._fetch(action, at, FETCH_BYTES)
            if answer["error"]:
                return answer
            records += answer["value"][0]
            at = answer["value"][1]
        return _value([records, at])

    def delete_records(self, action: Action, now: int) -> Answer:
        request = requests.delete_records(self._topic, action.arg("partition"), action.arg("at"))
        error, start = self._link.at_leader(
            self._topic,
            action.arg("partition"),
            requests.DELETE_RECORDS,
            request,
            requests.deleted,
            lambda answer: answer[0],
        )
        return _failed(error) if error else _value(start)


def _value(value: Any) -> Answer:
    return {"error": "", "value": value, "size": 0}


def _failed(error: int) -> Answer:
    return {"error": error_codes.name(error), "value": None, "size": 0}


def _appended(error: int, base: int, count: int, size: int) -> Answer:
    answer = _failed(error) if error else _value([base, base + count])
    return {**answer, "size": size}


_DO: Final[Mapping[str, Callable[[LogRole, Action, int], Answer]]] = {
    "append": LogRole.append,
    "retry": LogRole.retry,
    "gap": LogRole.gap,
    "zombie": LogRole.zombie,
    "init": LogRole.init,
    "commit": LogRole.commit,
    "abort": LogRole.commit,
    "read": LogRole.read,
    "read-all": LogRole.read_all,
    "list": LogRole.list_offsets,
    "delete-records": LogRole.delete_records,
}
