"""Small random histories for comparing checkers: from nonsensical ones to almost correct logs."""

from __future__ import annotations

import random
from typing import Any

from harness.model.op import Op

KEYS = 2
GONE = "gone"


def scheduled(steps: list[tuple[int, str, str, Any, dict[str, Any], int]]) -> list[Op]:
    """Overlapping ops, from steps (process, type, f, value, extra, hold).

    A step's op completes after `hold` further steps have started, or when its process is needed again. The type
    `open` means an op without completion, whose process p continues as p + 100.
    """
    ops: list[Op] = []
    waiting: list[tuple[int, int, str, str, Any, dict[str, Any]]] = []
    moved: dict[int, int] = {}

    def complete(due: Any) -> None:
        for each in [each for each in waiting if due(each)]:
            waiting.remove(each)
            _, process, kind, f, value, extra = each
            ops.append(Op(len(ops), 10 * len(ops), process, kind, f, value, None, extra))

    for at, (slot, kind, f, value, extra, hold) in enumerate(steps):
        process = moved.get(slot, slot)
        complete(lambda each, at=at, process=process: each[0] <= at or each[1] == process)
        ops.append(Op(len(ops), 10 * len(ops), process, "invoke", f, bare(f, value)))
        if kind == "open":
            moved[slot] = process + 100
        else:
            waiting.append((at + 1 + hold, process, kind, f, value, extra))
    complete(lambda each: True)
    return ops


def bare(f: str, value: Any) -> Any:
    """The value of an invocation, given that of its completion."""
    if f not in ("send", "poll", "txn"):
        return value
    return [["poll"] if mop[0] == "poll" else ["send", mop[1], _sent(mop[2])] for mop in value]


def _sent(value: Any) -> Any:
    return value[1] if isinstance(value, list) else value


def nearly_right(seed: int) -> list[Op]:
    """Transactions over two logs in random order, polled in random pieces, which have many cycles."""
    draw = random.Random(seed)
    shapes = [[draw.random() < 0.6 for _ in range(draw.randint(1, 3))] for _ in range(draw.randint(2, 8))]
    written: list[list[int]] = [[] for _ in range(KEYS)]
    drafts = [[_draft(send, written, draw) for send in shape] for shape in shapes]
    logs = [_log(values, draw) for values in written]
    steps = []
    for mops in drafts:
        value = [_filled(mop, logs, draw) for mop in mops]
        kinds = {mop[0] for mop in value}
        f = kinds.pop() if len(kinds) == 1 else "txn"
        kind = draw.choices(["ok", "info", "fail", "open"], [14, 2, 1, 1])[0]
        if kind == "open":
            value = bare(f, value)
        steps.append((draw.randrange(4), kind, f, value, {}, draw.randint(0, 3)))
    if draw.random() < 0.3:
        listed = draw.sample(range(KEYS), draw.randint(0, KEYS))
        place = draw.randrange(len(steps))
        steps.insert(place, (draw.randrange(4), "ok", draw.choice(["assign", "subscribe"]), listed, {}, 0))
    return scheduled(steps)


def _draft(send: bool, written: list[list[int]], draw: random.Random) -> list[Any]:
    if not send:
        return ["poll"]
    key = draw.randrange(KEYS)
    again = written[key] and draw.random() < 0.03
    value = draw.choice(written[key]) if again else len(written[key])
    if not again:
        written[key].append(value)
    return ["send", key, value]


def _log(values: list[int], draw: random.Random) -> list[tuple[int, int]]:
    """(offset, value), ascending: usually in random order, with gaps, rarely with duplicates or shared offsets."""
    order = draw.sample(values, len(values)) if draw.random() < 0.7 else list(values)
    if order and draw.random() < 0.1:
        order.insert(draw.randint(0, len(order)), draw.choice(order))
    log, offset = [], 0
    for value in order:
        log.append((offset, value))
        offset += draw.choices([1, 2, 0], [16, 3, 1])[0]
    return log


def _filled(mop: list[Any], logs: list[list[tuple[int, int]]], draw: random.Random) -> list[Any]:
    if mop[0] == "send":
        offset = next(offset for offset, value in logs[mop[1]] if value == mop[2])
        return ["send", mop[1], [offset if draw.random() < 0.9 else None, mop[2]]]
    polled = []
    for key in draw.sample(range(KEYS), draw.randint(0, KEYS)):
        start = draw.randint(0, len(logs[key]))
        run = [list(record) for record in logs[key][start : start + draw.randint(0, 3)]]
        if len(run) > 1 and draw.random() < 0.1:
            run.pop(0)
        if run and draw.random() < 0.05:
            run.append(run[0])
        polled.append([key, run])
    return ["poll", polled]
