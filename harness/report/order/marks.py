"""Determines, for each witness of an anomaly, what is highlighted on the order pages of its keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

from harness.model.check_result import AnomalyFound, Result
from harness.model.op import sends
from harness.report.text import witness_lookup
from harness.report.text.involved_ops import key_of
from harness.stored.op_log import OpLog

Witness = Mapping[str, Any]
# row: an offset; sent: a record and its send; polled: a record as polled by an operation; ended, began: the last or
# first record of the key that an operation polled; skipped: a record that readers skipped.
Kind = Literal["row", "sent", "polled", "ended", "began", "skipped"]

WITNESSES_MAX: Final = 20_000
OPS_LOOKED_UP_MAX: Final = 500
PER_KEY_MAX: Final = 200  # of each anomaly
SPOTS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Spot:
    """A send, poll or offset to highlight, as named by a witness. Fields that the witness does not name are None.

    kind  what is to be highlighted, see `Kind`
    """

    kind: Kind
    value: Any = None
    op: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """The sends, polls and offsets of one key that one witness names."""

    anomaly: str
    number: int
    witness: Witness
    spots: tuple[Spot, ...]

    @property
    def name(self) -> str:
        return f"{self.anomaly}#{self.number}"


@dataclass(slots=True)
class Suspect:
    """A key that occurs in at least one witness.

    bad     anomalies of the key that affect the verdict
    counts  anomaly -> number of witnesses that name the key
    marks   one mark for each of these witnesses (at most PER_KEY_MAX for each anomaly)
    """

    key: Any
    bad: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)


def shown(result: Result) -> list[AnomalyFound]:
    """Returns the anomalies whose keys get pages: those that affect the verdict, and `unseen`."""
    return [anomaly for anomaly in result.anomalies if (anomaly.bad or anomaly.name == "unseen") and anomaly.count]


def suspects(run: Path, result: Result) -> list[Suspect]:
    """Returns the keys that witnesses name.

    A key comes first if it has more different anomalies that affect the verdict. Keys with equally many are sorted by
    the number of witnesses of these anomalies, in descending order.
    """
    log = OpLog(run)
    by_key: dict[str, Suspect] = {}
    for anomaly in shown(result):
        limit = OPS_LOOKED_UP_MAX if anomaly.name == "torn-transaction" else WITNESSES_MAX
        for number, witness in enumerate(islice(witness_lookup.numbered(run, anomaly), limit), 1):
            for key, spots in _by_key(anomaly.name, witness, log):
                suspect = by_key.setdefault(repr(key), Suspect(key))
                suspect.counts[anomaly.name] = suspect.counts.get(anomaly.name, 0) + 1
                if anomaly.bad:
                    suspect.bad.add(anomaly.name)
                if suspect.counts[anomaly.name] <= PER_KEY_MAX:
                    suspect.marks.append(Mark(anomaly.name, number, witness, spots[:SPOTS_MAX]))
    return sorted(
        by_key.values(),
        key=lambda one: (-len(one.bad), -sum(one.counts[name] for name in one.bad), _natural(one.key)),
    )


def _natural(key: Any) -> tuple[bool, int, str]:
    return (type(key) is not int, key if type(key) is int else 0, str(key))


def _by_key(name: str, witness: Witness, log: OpLog) -> Iterator[tuple[Any, tuple[Spot, ...]]]:
    """Yields (key, what to mark in its log) for each key of a witness.

    Yields nothing if the format of the witness is unknown.
    """
    keys: dict[str, Any] = {}
    spots_of: dict[str, list[Spot]] = {}
    try:
        for key, spot in _spots(name, witness, log):
            keys.setdefault(repr(key), key)
            spots_of.setdefault(repr(key), []).append(spot)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return
    yield from ((keys[text], tuple(spots)) for text, spots in spots_of.items())


def _spots(name: str, witness: Witness, log: OpLog) -> Iterator[tuple[Any, Spot]]:
    if "steps" in witness:
        yield from _of_cycle(witness)
    elif name == "unseen":
        for text, values in (witness.get("messages") or {}).items():
            yield from ((key_of(text), Spot("sent", value)) for value in values)
    elif name == "torn-transaction":
        op = log.at(witness["op"])
        yield from ((key, Spot("sent", value, witness["op"])) for key, _, value in (sends(op) if op else ()))
    elif "key" in witness:
        yield from ((witness["key"], spot) for spot in _of_key(name, witness))


def _of_key(name: str, witness: Witness) -> Iterator[Spot]:
    """Yields the spots of a witness that names one key."""
    values, ops, op = witness.get("values") or [], witness.get("ops") or [], witness.get("op")
    if name == "inconsistent-offsets":
        yield Spot("row", offset=witness["offset"])
    elif name == "offset-regression":
        named = [witness.get("committed"), witness.get("found")]
        yield from (Spot("row", offset=offset) for offset in named if offset is not None and offset >= 0)
    elif name == "concurrent-owners":
        yield from (Spot("ended", op=commit) for commit in ops[1::2])
    elif name == "phantom-read":
        yield Spot("polled", witness["value"], op, witness.get("offset"))
    elif name.endswith("-send") or name == "int-send-skip":
        senders = ops or [op, op]
        yield from (Spot("sent", value, by) for value, by in zip(values, senders, strict=False))
    elif name in ("poll-skip", "nonmonotonic-poll"):
        if values:
            yield from (Spot("polled", value, by) for value, by in zip(values, ops, strict=False))
        else:
            yield from (Spot("ended", op=ops[0]), Spot("began", op=ops[1]))
    elif name.startswith("int-"):
        yield from (Spot("polled", value, op) for value in values)
    elif "group" in witness:  # of a share group
        yield Spot("row", offset=witness["offset"])
    elif "value" in witness:
        yield Spot("sent", witness["value"], witness.get("writer", op))
        reader = witness.get("reader", op)
        if reader is not None:
            yield Spot("polled", witness["value"], reader)
    yield from (Spot("skipped", value) for value in witness.get("skipped") or ())


def _of_cycle(witness: Witness) -> Iterator[tuple[Any, Spot]]:
    cycle = witness["cycle"]
    for number, step in enumerate(witness["steps"]):
        a, b, kind = cycle[number], cycle[number + 1], step.get("type")
        if kind == "ww":
            yield step["key"], Spot("sent", step["value"], a)
            yield step["key"], Spot("sent", step["value'"], b)
        elif kind == "wr":
            yield step["key"], Spot("sent", step["value"], a)
            yield step["key"], Spot("polled", step["value"], b)
        elif kind == "rw":
            if step.get("value") is not None:
                yield step["key"], Spot("polled", step["value"], a)
            yield step["key"], Spot("sent", step["value'"], b)
