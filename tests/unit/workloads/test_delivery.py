"""The delivery workload in simulated time."""

from __future__ import annotations

from harness.generator import Clients, Limit
from harness.model.op import INVOKE, Op
from tests.unit.harness.simulated_time import simulate
from workloads.delivery import PRIMER, Options, workload


def sent(options: Options, limit: int = 100) -> list[Op]:
    events = simulate(Clients(Limit(workload(options).generator, limit)), seed=1)
    return [event for event in events if event.type == INVOKE]


def test_every_record_is_sent_once_to_keys_in_turn() -> None:
    assert [op.value for op in sent(Options(records=5, keys=2))] == [
        [["send", key, value]] for key, value in [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]
    ]


def test_without_a_number_of_records_time_decides() -> None:
    assert len(sent(Options())) == 100


def test_the_primer_goes_alone() -> None:
    events = simulate(Clients(workload(Options(records=10, primer=True)).generator), seed=1)
    assert [event.type for event in events[:2]] == [INVOKE, "ok"]
    assert events[0].value == [["send", 0, PRIMER]]
    assert events[0].extra["patient"] is True
    assert all("patient" not in event.extra for event in events[2:])
    assert sum(event.type == INVOKE for event in events) == 11
