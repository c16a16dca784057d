"""The cases of `harness client check`: what each does with a client program, and what it expects.

A case starts processes of the program, uses them as a run would, and raises `Failed` if one behaves wrongly.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final

from harness.clients.client_protocols import Record
from harness.clients.exec.adapter import Exec
from harness.clients.exec.consumer import ExecConsumer
from harness.clients.exec.producer import ExecProducer
from harness.clients.settings import Settings
from harness.protocol.error_codes import ClientError, TopicPartition

CASE_S: Final = 30.0  # for records or a rebalance that a case waits for
EXIT_S: Final = 5.0
GONE: Final = "127.0.0.1:9"  # nothing listens there
MANY: Final = 200


class Failed(Exception):
    """A program did something that docs/use/your-own-client.md does not allow."""


@dataclass(frozen=True)
class Case:
    name: str
    needs: tuple[str, ...]
    run: Callable[[Bench], None]


@dataclass
class Bench:
    """What a case works with: brokers, a topic of its own with two partitions, and processes of the client program.

    The processes are stopped when the case ends.

    make_topic  creates another topic with two partitions
    answer      replaces the rules by which the wire proxy changes responses; the rules end with the case
    """

    argv: Sequence[str]
    bootstrap: str
    topic: str
    user: str
    environment: Sequence[str]
    make_topic: Callable[[str], None]
    answer: Callable[..., None]
    stack: ExitStack = field(default_factory=ExitStack)
    numbers: Any = field(default_factory=itertools.count)

    def settings(self, **changes: Any) -> Settings:
        made = Settings(bootstrap=self.bootstrap, run=self.topic, process=next(self.numbers), library="exec")
        return replace(made, **changes)

    def program(self, made: Settings) -> Exec:
        library = Exec(self.argv, made, self.environment, self.user)
        self.stack.callback(library.close)
        return library

    def producer(self, **changes: Any) -> ExecProducer:
        made = self.settings(**changes)
        return self.program(made).producer(made)

    def consumer(self, **changes: Any) -> ExecConsumer:
        made = self.settings(**changes)
        return self.program(made).consumer(made)

    def at(self, partition: int = 0) -> TopicPartition:
        return self.topic, partition

    def send(self, producer: ExecProducer, values: Iterable[bytes], partition: int = 0) -> list[int | None]:
        """Sends records, waits for the delivery reports, and returns the offsets. Raises ClientError."""
        deliveries = [producer.send(self.at(partition), value) for value in values]
        producer.wait(deliveries, CASE_S)
        for delivery in deliveries:
            if delivery.error is not None:
                raise delivery.error
        return [delivery.offset for delivery in deliveries]

    def poll(self, consumer: ExecConsumer) -> Sequence[Record]:
        """Polls once, and returns the records.

        Returns () after an error that is not fatal, for example if the group has no coordinator yet.
        """
        try:
            return consumer.poll(0.2, 500).records
        except ClientError as error:
            if error.kind == "fatal":
                raise
            time.sleep(0.2)
            return ()

    def read(self, consumer: ExecConsumer, count: int, patience_s: float = CASE_S) -> list[Record]:
        """Polls until there are `count` records or `patience_s` has passed, and returns the records."""
        found: list[Record] = []
        deadline = time.monotonic() + patience_s
        while len(found) < count and time.monotonic() < deadline:
            found += self.poll(consumer)
        return found


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Failed(otherwise)


def record_values(records: Sequence[Record]) -> list[bytes | None]:
    return [record.value for record in records]


# --- producing and reading ---


def sends_are_answered_with_offsets(bench: Bench) -> None:
    offsets = bench.send(bench.producer(), [b"a", b"b", b"c"])
    expect(offsets == [0, 1, 2], f"the first three sends to an empty partition returned the offsets {offsets}")


def records_come_back_in_order(bench: Bench) -> None:
    values = [str(n).encode() for n in range(MANY)]
    bench.send(bench.producer(), values)
    consumer = bench.consumer()
    consumer.assign({bench.at(): 0})
    records = bench.read(consumer, MANY)
    same = record_values(records) == values
    expect(same, f"of {MANY} records sent in order, {len(records)} were read, or in another order")
    expect([each.offset for each in records] == list(range(MANY)), "the offsets of the records are not 0, 1, 2, ...")


def a_poll_takes_no_more_than_records_max(bench: Bench) -> None:
    bench.send(bench.producer(), [b"x"] * 10)
    consumer = bench.consumer()
    consumer.assign({bench.at(): 0})
    deadline, seen = time.monotonic() + CASE_S, 0
    while seen < 10 and time.monotonic() < deadline:
        seen += len(consumer.poll(0.2, 3).records)  # more than 3 break the protocol
    expect(seen == 10, f"polls of at most 3 records returned {seen} of 10 records")


def a_seek_goes_back(bench: Bench) -> None:
    bench.send(bench.producer(), [b"0", b"1", b"2", b"3"])
    consumer = bench.consumer()
    consumer.assign({bench.at(): 0})
    bench.read(consumer, 4)
    consumer.seek({bench.at(): 1}, 5.0)
    again = record_values(bench.read(consumer, 3))
    expect(again == [b"1", b"2", b"3"], f"after a seek to offset 1 of the offsets 0 to 3, {again} was read")


def an_assignment_begins_where_it_says(bench: Bench) -> None:
    bench.send(bench.producer(), [b"0", b"1", b"2"])
    bench.send(bench.producer(), [b"other"], partition=1)
    consumer = bench.consumer()
    consumer.assign({bench.at(0): 2, bench.at(1): 0})
    found = sorted(record_values(bench.read(consumer, 2)), key=str)
    expect(
        found == [b"2", b"other"],
        f"after an assignment at offset 2 of one partition and 0 of the other, {found} was read",
    )


def a_record_that_is_too_large_is_an_error(bench: Bench) -> None:
    producer = bench.producer()
    delivery = producer.send(bench.at(), b"x" * (3 << 20))
    producer.wait([delivery], CASE_S)
    expect(delivery.error is not None, "a record of 3 MiB was acknowledged, though brokers take 1 MiB")
    bench.send(producer, [b"small"])


def a_partition_that_does_not_exist_is_an_error(bench: Bench) -> None:
    producer = bench.producer()
    delivery = producer.send(bench.at(17), b"x")
    producer.wait([delivery], CASE_S)
    expect(delivery.error is not None, "a record for a partition that does not exist was acknowledged")


def without_brokers_a_send_is_an_error(bench: Bench) -> None:
    try:
        producer = bench.producer(bootstrap=GONE, delivery_timeout_s=3.0)
    except ClientError as error:  # of a library that connects when it is opened
        expect(not error.code.startswith("_CLIENT"), str(error))
        return
    delivery = producer.send(bench.at(), b"x")
    producer.wait([delivery], CASE_S)
    expect(delivery.error is not None, "a record was acknowledged without brokers")


def the_end_of_the_input_ends_the_process(bench: Bench) -> None:
    made = bench.settings()
    library = bench.program(made)
    library.producer(made)
    code = library.running().close_input(EXIT_S)
    expect(code is not None, f"the process still runs {EXIT_S:.0f} s after the end of its standard input")


# --- transactions ---


def a_committed_transaction_is_read_and_an_aborted_one_is_not(bench: Bench) -> None:
    producer = bench.producer(txn=True)
    producer.init(CASE_S)
    for value, end in ((b"aborted", producer.abort), (b"committed", producer.commit)):
        producer.begin()
        bench.send(producer, [value])
        end(CASE_S)
    consumer = bench.consumer()
    consumer.assign({bench.at(): 0})
    found = record_values(bench.read(consumer, 2, patience_s=3.0))
    expect(found == [b"committed"], f"with read_committed, {found} was read")
    dirty = bench.consumer(isolation_level="read_uncommitted")
    dirty.assign({bench.at(): 0})
    found = record_values(bench.read(dirty, 2))
    expect(found == [b"aborted", b"committed"], f"with read_uncommitted, {found} was read")


def an_older_producer_is_fenced(bench: Bench) -> None:
    old = bench.producer(txn=True, transactional_id=f"{bench.topic}-id")
    old.init(CASE_S)
    new = bench.producer(txn=True, transactional_id=f"{bench.topic}-id")
    new.init(CASE_S)
    try:
        old.begin()
        bench.send(old, [b"zombie"])
        old.commit(CASE_S)
    except ClientError:
        return
    raise Failed("a producer committed although a newer producer with the same transactional id had started")


def offsets_are_committed_with_a_transaction(bench: Bench) -> None:
    made = bench.settings(txn=True, group=f"{bench.topic}-group")
    library = bench.program(made)
    producer, consumer = library.producer(made), library.consumer(made)
    producer.init(CASE_S)
    bench.send(bench.producer(), [b"0", b"1", b"2"])
    events: list[str] = []
    consumer.subscribe([bench.topic], lambda event, partitions, committed: events.append(event))
    expect(len(bench.read(consumer, 3)) == 3, "a group of one member did not read three records")
    producer.begin()
    producer.send_offsets({bench.at(): 2}, consumer, CASE_S)
    producer.commit(CASE_S)
    consumer.close(leave=True)
    found = record_values(bench.read(member(bench, f"{bench.topic}-group"), 1))
    expect(found == [b"2"], f"after offset 2 was committed with a transaction, the group's next member read {found}")


# --- groups ---


def member(bench: Bench, group: str, events: list[Any] | None = None, **changes: Any) -> ExecConsumer:
    """Returns a consumer that has subscribed as a member of a group.

    events  list to which each rebalance appends (event, partitions)
    """
    consumer = bench.consumer(group=group, **changes)
    seen: list[Any] = [] if events is None else events
    consumer.subscribe([bench.topic], lambda event, partitions, committed: seen.append((event, sorted(partitions))))
    return consumer


def an_assignment_is_reported_before_its_records(bench: Bench) -> None:
    _assignment_first(bench)


def the_same_with_the_consumer_protocol(bench: Bench) -> None:
    _assignment_first(bench, consumer_config={"group.protocol": "consumer"})


def _assignment_first(bench: Bench, **changes: Any) -> None:
    bench.send(bench.producer(), [b"0"])
    events: list[Any] = []
    consumer = member(bench, f"{bench.topic}-group", events, **changes)
    deadline = time.monotonic() + CASE_S
    while time.monotonic() < deadline:
        records = bench.poll(consumer)
        owned = [each for event, partitions in events if event == "assigned" for each in partitions]
        if records:
            expect(
                bench.at() in owned, f"a record of {bench.topic}-0 came before the partition was reported as assigned"
            )
            return
    raise Failed(f"no record within {CASE_S:.0f} s of subscribing; events: {events}")


def committed_offsets_are_where_the_next_member_begins(bench: Bench) -> None:
    bench.send(bench.producer(), [b"0", b"1", b"2"])
    first = member(bench, f"{bench.topic}-group")
    expect(len(bench.read(first, 3)) == 3, "a group of one member did not read three records")
    first.commit({bench.at(): 1}, 10.0)
    first.close(leave=True)
    found = record_values(bench.read(member(bench, f"{bench.topic}-group"), 2))
    expect(found == [b"1", b"2"], f"after offset 1 was committed, the group's next member read {found}")


def a_revocation_comes_in_time_to_commit(bench: Bench) -> None:
    first = bench.consumer(group=f"{bench.topic}-group")
    _revocation(bench, first, lambda offsets: first.commit(offsets, 5.0))


def a_revocation_comes_in_time_for_a_transaction(bench: Bench) -> None:
    settings = bench.settings(txn=True, group=f"{bench.topic}-group")
    program = bench.program(settings)
    producer, first = program.producer(settings), program.consumer(settings)
    producer.init(CASE_S)
    output = f"{bench.topic}-output"
    bench.make_topic(output)
    committed: list[bytes] = []

    def transaction(offsets: Mapping[TopicPartition, int]) -> None:
        producer.begin()
        delivery = producer.send((output, 0), b"output")
        producer.wait([delivery], 5.0)
        if delivery.error is not None:
            raise delivery.error
        producer.send_offsets(offsets, first, 5.0)
        producer.commit(5.0)
        committed.append(b"output")

    _revocation(bench, first, transaction)
    reader = bench.consumer()
    reader.assign({(output, 0): 0})
    found = record_values(bench.read(reader, len(committed)))
    expect(found == committed, f"{committed} were sent and committed in transactions, and {found} was read")


def _revocation(bench: Bench, first: ExecConsumer, commit: Callable[[Mapping[TopicPartition, int]], None]) -> None:
    """Checks that a consumer can commit the offsets of partitions that a rebalance takes away from it.

    first   the consumer, which is made a member of a group; then a second member joins
    commit  commits offsets for `first`
    """
    bench.send(bench.producer(), [b"0", b"1"])
    bench.send(bench.producer(), [b"2", b"3"], partition=1)
    events: list[tuple[str, Sequence[TopicPartition]]] = []
    first_refusal: list[str] = []
    positions: dict[TopicPartition, int] = {}

    def rebalanced(event: str, partitions: Sequence[TopicPartition], committed: object) -> None:
        events.append((event, sorted(partitions)))
        if event == "revoked":
            try:
                commit({each: positions[each] for each in partitions if each in positions})
            except ClientError as error:
                first_refusal.append(str(error))

    first.subscribe([bench.topic], rebalanced)
    for record in bench.read(first, 4):
        positions[record.topic, record.partition] = record.offset + 1
    expect(len(positions) == 2, f"the only member of a group read {positions}, not both partitions")
    second = member(bench, f"{bench.topic}-group")
    deadline, given_up = time.monotonic() + CASE_S, False
    while not given_up and time.monotonic() < deadline:
        repeated = [*bench.poll(first), *bench.poll(second)]
        expect(not first_refusal, f"a commit within the revocation failed: {first_refusal}")
        expect(not repeated, f"records were read again after the second member joined: {repeated}; events: {events}")
        given_up = any(event != "assigned" for event, _ in events)
    expect(given_up, f"no revocation was reported within {CASE_S:.0f} s after a second member joined; events: {events}")
    more = [*bench.read(second, 1, 3.0), *bench.read(first, 1, 1.0)]
    expect(not more, f"records were read again though their offsets were committed on revocation: {more}")


CASES: Final = tuple(
    Case(run.__name__.replace("_", " "), needs, run)
    for run, needs in (
        (sends_are_answered_with_offsets, ("produce",)),
        (records_come_back_in_order, ("produce", "consume")),
        (a_poll_takes_no_more_than_records_max, ("produce", "consume")),
        (a_seek_goes_back, ("produce", "consume")),
        (an_assignment_begins_where_it_says, ("produce", "consume")),
        (a_record_that_is_too_large_is_an_error, ("produce",)),
        (a_partition_that_does_not_exist_is_an_error, ("produce",)),
        (without_brokers_a_send_is_an_error, ("produce",)),
        (the_end_of_the_input_ends_the_process, ("produce",)),
        (a_committed_transaction_is_read_and_an_aborted_one_is_not, ("transactions", "consume")),
        (an_older_producer_is_fenced, ("transactions",)),
        (an_assignment_is_reported_before_its_records, ("groups",)),
        (committed_offsets_are_where_the_next_member_begins, ("groups",)),
        (a_revocation_comes_in_time_to_commit, ("groups",)),
        (the_same_with_the_consumer_protocol, ("groups-consumer",)),
        (offsets_are_committed_with_a_transaction, ("send-offsets", "groups")),
        (a_revocation_comes_in_time_for_a_transaction, ("send-offsets", "groups")),
    )
)
