"""The sentences about steps between two records of a log: skips, steps back, and what a duplicate explains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from checker.anomalies.prose import step_between, step_inside
from harness.report.text.phrases import OpPhrases
from harness.stored.fault_spans import Span
from harness.stored.operations_and_records import OpFact, Record


@dataclass
class Read:
    """Facts of a run: value -> the offsets at which it was polled."""

    offsets: Mapping[int, tuple[int, ...]]
    spans: list[Span] = field(default_factory=list)

    def op(self, id_: int, /) -> OpFact | None:
        return None

    def sends(self, key: int, value: int, /) -> tuple[Record, ...]:
        return ()

    def polls(self, key: int, value: int, /) -> tuple[Record, ...]:
        return tuple(Record(3, value, offset) for offset in self.offsets.get(value, ()))

    def polls_by(self, key: int, op: int, /) -> tuple[Record, ...]:
        found = [(offset, value) for value, offsets in self.offsets.items() for offset in offsets]
        return tuple(Record(op, value, offset) for offset, value in sorted(found))


WITNESS = {"key": 1, "values": [1, 2], "op": 3, "delta": 4, "skipped": [2, 3, 4]}
DUPLICATE = "Value 2 is in the log 2 times (offsets 1, 4); the check uses only the last offset, so the duplicate alone "


def test_a_skip_between_adjacent_offsets_names_the_duplicate() -> None:
    phrases = OpPhrases(Read({1: (0,), 2: (1, 4), 3: (2,), 4: (3,)}))
    text = step_inside("polled")(WITNESS, phrases)
    assert text.startswith(
        "Op 3 polled key 1: value 1 at offset 0 and then value 2 at offset 1, skipping 3 records of the log "
        "(values 2, 3, 4). "
    )
    assert DUPLICATE in text


def test_a_step_back_after_a_duplicate_names_it() -> None:
    phrases = OpPhrases(Read({2: (1, 4), 3: (2,)}))
    text = step_inside("polled")({"key": 1, "values": [2, 3], "op": 3, "delta": -2}, phrases)
    assert "which is 2 positions earlier in the log. " + DUPLICATE in text


def test_a_real_skip_says_nothing_about_duplicates() -> None:
    phrases = OpPhrases(Read({1: (0,), 2: (4,), 3: (2,), 4: (3,)}))
    witness = {"key": 1, "ops": [1, 3], "delta": 3, "skipped": [3, 4]}
    text = step_between("polled")(witness, phrases)
    assert text == "Op 1 polled key 1, and the next time (op 3) continued, skipping 2 records of the log (values 3, 4)."
    sent = step_inside("sent")({**WITNESS, "skipped": [7, 8, 9]}, OpPhrases(None))
    assert sent.endswith("value 1 and then value 2, with 3 other records between them in the log (values 7, 8, 9).")
