"""Finds the operations, keys, offsets and values that a witness is about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.model.op import sends
from harness.report.text import pipeline_moments
from harness.report.text.op_text import Focus, focus_of
from harness.stored.op_log import OpLog
from harness.stored.operations_and_records import Facts

Witness = Mapping[str, Any]

OPS: Final = ("writer", "op", "ops", "reader", "max-read", "cycle", "scc")
OPS_MAX: Final = 64
VALUES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Involved:
    """What a witness is about.

    ops     ids of the operations, in the order in which the witness names them
    keys    the keys that the witness names
    places  (key, offset or None, value) of each record that it names
    focus   text of a key -> the values to show; an empty set stands for all values
    """

    ops: tuple[int, ...]
    keys: tuple[Any, ...]
    places: tuple[tuple[Any, int | None, Any], ...]
    focus: Focus


def named_ops(witness: Witness) -> list[int]:
    """Returns the ids of the operations that a witness names, without duplicates."""
    found: list[int] = []
    for name in OPS:
        ids = witness.get(name)
        found += (op for op in (ids if isinstance(ids, list) else [ids]) if type(op) is int)
    return list(dict.fromkeys(found))[:OPS_MAX]


def pairs(witness: Witness) -> Iterator[tuple[Any, Any]]:
    """Yields (key, value) of each record that a witness names. If it names only a key, the value is None."""
    if "key" in witness:
        key = witness["key"]
        named = [witness["value"]] if "value" in witness else list(witness.get("values") or ())[:VALUES_MAX]
        yield from ((key, value) for value in named or [None])
    for step in witness.get("steps") or ():
        if isinstance(step, Mapping) and "key" in step:
            yield from ((step["key"], step[name]) for name in ("value", "value'") if step.get(name) is not None)
    for text in sorted((witness.get("unseen") or {}).items(), key=lambda item: -item[1]):
        key = key_of(text[0])
        messages = (witness.get("messages") or {}).get(text[0]) or [None]
        yield from ((key, value) for value in messages[:VALUES_MAX])


def key_of(text: str) -> Any:
    """Returns the key that a text in a witness of `unseen` stands for."""
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text


def offsets(witness: Witness) -> list[int]:
    """Returns the offsets that a witness names."""
    named = witness.get("offsets") or [witness.get("offset")]
    return [offset for offset in named if type(offset) is int and offset >= 0][:VALUES_MAX]


def of_witness(name: str, witness: Witness, facts: Facts | None, log: OpLog) -> Involved:
    """Returns what a witness is about; nothing if its format is unknown (it may be from another version)."""
    try:
        return _of_witness(name, witness, facts, log)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError):
        return Involved((), (), (), {})


def _of_witness(name: str, witness: Witness, facts: Facts | None, log: OpLog) -> Involved:
    """Returns what a witness is about. Raises an error if its format is unknown.

    The witnesses of the anomalies in LOOKED_UP do not name operations. For such a witness, the operations that wrote
    and first read its values are looked up.
    """
    if pipeline_moments.is_one(name):
        return _of_pipeline(witness, facts, log)
    by_text = {(repr(key), repr(value)): (key, value) for key, value in pairs(witness)}
    named, ops = list(by_text.values()), named_ops(witness)
    if name == "torn-transaction" and not named and ops:
        op = log.at(ops[0])
        named = [(key, value) for key, _, value in sends(op)][:VALUES_MAX] if op is not None else []
    if facts is not None and name in LOOKED_UP:
        for key, value in named[:4]:
            ops += [record.op for record in facts.sends(key, value)[:2]]
            ops += [record.op for record in facts.polls(key, value)[:1]]
    keys = list({repr(key): key for key, _ in named}.values())
    return Involved(tuple(dict.fromkeys(ops)), tuple(keys), tuple(_places(witness, named, facts)), focus_of(named))


def _of_pipeline(witness: Witness, facts: Facts | None, log: OpLog) -> Involved:
    """Returns the operation that sent the record of a pipeline anomaly's witness, with the record's partition and
    offset.

    The partition is returned as the number that is its key in the history. This number is not the key of the Kafka
    record.
    """
    number = pipeline_moments.log_of(log.run, witness)
    if number is None:
        return Involved((), (), (), {})
    places = pipeline_moments.places(number, witness)
    values = [(number, value) for _, _, value in places if value is not None]
    ops = tuple(dict.fromkeys(pipeline_moments.senders(number, witness, facts)))
    return Involved(ops, (number,), tuple(places), focus_of(values))


# Anomalies whose witnesses do not name the operations that wrote and read the records.
LOOKED_UP: Final = frozenset({"inconsistent-offsets", "duplicate", "unseen"})


def _places(
    witness: Witness, named: list[tuple[Any, Any]], facts: Facts | None
) -> Iterator[tuple[Any, int | None, Any]]:
    named_offsets = offsets(witness)
    if "key" in witness and named_offsets:
        yield from ((witness["key"], offset, witness.get("value")) for offset in named_offsets)
        return
    for key, value in named[:VALUES_MAX]:
        if value is not None:
            yield key, _offset(key, value, facts), value


def _offset(key: Any, value: Any, facts: Facts | None) -> int | None:
    records = (*facts.sends(key, value), *facts.polls(key, value)) if facts is not None else ()
    return next((record.offset for record in records if record.offset is not None), None)
