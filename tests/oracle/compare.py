"""The checker's answer beside the oracle's: where they differ, one of them is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from checker import check
from checker.tables import make_tables
from checker.tables.buckets_of_a_history import in_memory
from harness.model.check_result import INVALID, UNKNOWN, VALID, Result
from harness.model.errors_and_exit_codes import HarnessError
from harness.model.op import INVOKE, OK
from harness.report.text.witness_text import witness_text
from tests.oracle.case import Case, draw_case
from tests.oracle.evidence import Known, known
from tests.oracle.fates import Fates
from tests.oracle.history import History
from tests.oracle.lies import Lie
from tests.oracle.promises import promises
from tests.oracle.run import Run, simulate

# What the oracle calls by one name, and the names under which the checker may say it.
NAMES: Mapping[str, frozenset[str]] = {
    "lost": frozenset({"lost-write", "unseen", "torn-transaction"}),
    "duplicate": frozenset({"duplicate"}),
    "inconsistent-offsets": frozenset({"inconsistent-offsets"}),
    "G1a": frozenset({"G1a", "torn-transaction"}),
    "precommitted-read": frozenset({"precommitted-read"}),
    "phantom-read": frozenset({"phantom-read"}),
    "order": frozenset({"nonmonotonic-send", "int-nonmonotonic-send", "stale-send"}),
    "back": frozenset({"nonmonotonic-poll", "int-nonmonotonic-poll"}),
    "skip": frozenset({"poll-skip", "int-poll-skip"}),
}
VALID_BUT_SHOWN = "valid, though the history shows what happened"
VALID_BUT_OPEN = "valid, though it cannot be known"
ACCUSED = "accused of what did not happen"
PROMISE_INVENTED = "a promise that was not given"
PROMISE_DENIED = "a promise denied that was given"
NOT_NAMED = "found invalid, without naming what happened"
GONE = "valid, though a record that was read is gone"
TEXT = "called acknowledged, which it never was"
ORACLE = "the oracle contradicts the truth"


@dataclass(slots=True)
class Comparison:
    """wrong: (kind, what) of each difference; missed: whether `unknown` was said of what can be known."""

    case: Case
    run: Run
    known: Known
    result: Result
    lie: Lie | None = None
    wrong: list[tuple[str, str]] = field(default_factory=list)
    missed: str = ""
    definite: bool = False


def judged(run: Run, lie: Lie | None) -> Result:
    """As `harness check --spark-master none` judges a history file; one that is refused is not called anything."""
    ops, options = run.recorded, run.case.options()
    if lie is not None:
        ops, options = lie.deceive(run.case, ops, options)
    try:
        return check.judge(in_memory(make_tables.of_ops(ops)), options)
    except HarnessError as error:
        return Result(UNKNOWN, reasons=(str(error),))


def compare(seed: int, ops: int | None = None) -> Comparison:
    return compare_case(draw_case(seed, ops))


def compare_case(case: Case, lie: Lie | None = None) -> Comparison:
    """Both answers; `lie`: what the checker is made to believe."""
    run = simulate(case)
    shows, fates = known(case, run.recorded), Fates(run)
    found = Comparison(case, run, shows, judged(run, lie), lie)
    _oracle_is_right(found, fates)
    _verdict(found)
    _accusations(found, fates)
    _promises(found)
    return found


def answers(found: Comparison) -> dict[str, str]:
    """The oracle's answer by anomaly, as it names them (`NAMES`)."""
    happened = Fates(found.run).happened()
    given: dict[str, str] = {}
    for name, reported in NAMES.items():
        if found.known.shown.get(name):
            given[name] = "happened"
        elif found.known.maybe.get(name) or (name == "lost" and found.known.open):
            given[name] = "cannot be known"
        else:
            given[name] = "hidden, if it happened" if reported & happened else "did not happen"
    return given


def _oracle_is_right(found: Comparison, fates: Fates) -> None:
    for record in found.known.shown.get("lost", ()):
        if not fates.lost(record) and record not in fates.cut_off:
            found.wrong.append((ORACLE, f"{record} is {fates.fate.get(record)}, not lost"))
    for record in found.known.maybe.get("gone", ()):
        if not fates.lost(record) and record not in fates.cut_off:
            found.wrong.append((ORACLE, f"{record} is {fates.fate.get(record)}, not gone"))
    happened = fates.happened()
    for name, things in found.known.shown.items():
        if things and name in NAMES and not NAMES[name] & happened and name not in ("lost",):
            found.wrong.append((ORACLE, f"{name} {sorted(things, key=str)[:3]} shown, and did not happen"))

    if not found.run.truth.world.told:  # what is promised does not happen in a cluster that is no liar
        given = promises(found.case)
        for name, things in found.known.shown.items():
            if things and name in NAMES and all(given.get(each) for each in NAMES[name]):
                found.wrong.append((ORACLE, f"{name} {sorted(things, key=str)[:3]} is promised not to happen"))


def _verdict(found: Comparison) -> None:
    result, shows = found.result, found.known
    shown = sorted(name for name, things in shows.shown.items() if things)
    found.definite = bool(shown) or not (shows.open or shows.lenient)
    if ("lines are missing" in shows.open or found.case.cut == "named") and result.valid == UNKNOWN:
        found.definite = False  # a history that does not fit together may be refused as a whole
        return
    if result.valid == VALID:
        found.wrong += [(VALID_BUT_SHOWN, f"{name}: {sorted(shows.shown[name], key=str)[:4]}") for name in shown]
        if not shown:
            found.wrong += [(VALID_BUT_OPEN, why) for why in shows.open[:1]]
        if shows.maybe.get("gone"):
            found.wrong.append((GONE, f"{sorted(shows.maybe['gone'], key=str)[:4]}"))
    elif result.valid == UNKNOWN and found.definite:
        found.missed = f"unknown, though it is {'invalid: ' + ', '.join(shown) if shown else 'valid'}: {result.reasons}"
    elif result.valid == INVALID:
        bad = {each.name for each in result.anomalies if each.bad}
        for name in shown:
            looks_wrong_in_many_ways = name in ("order", "back", "skip") or (name == "lost" and found.case.plain)
            if name in NAMES and not looks_wrong_in_many_ways and not NAMES[name] & bad and not bad & {"phantom-read"}:
                found.wrong.append((NOT_NAMED, f"{name}: {sorted(shows.shown[name], key=str)[:4]}; bad: {sorted(bad)}"))


def _accusations(found: Comparison, fates: Fates) -> None:
    happened = fates.happened()
    for anomaly in found.result.anomalies:
        if not anomaly.bad or anomaly.name.startswith(("G0", "G1c", "G-", "G2", "PL-", "strong-")):
            continue
        if anomaly.name == "lost-write":
            for witness in anomaly.witnesses:
                _lost(found, fates, (witness["key"], witness["value"]), witness)
        elif anomaly.name == "unseen":
            for witness in anomaly.witnesses:
                for key in witness["read_to_end"]:
                    for value in witness["messages"].get(key, ()):
                        _lost(found, fates, (int(key), value), None)
        elif not _seen(found, anomaly.name) and anomaly.name not in happened:
            found.wrong.append((ACCUSED, f"{anomaly.name}: {anomaly.witnesses[:2]}"))


def _lost(found: Comparison, fates: Fates, record: tuple[int, Any], witness: Mapping[str, Any] | None) -> None:
    """A record that the checker takes for lost."""
    if fates.lost(record):
        text = "" if witness is None else witness_text("lost-write", witness, None)
        if found.lie is not None and found.lie.text is not None:
            text = found.lie.text(text)
        if "cknowledged record" in text and not _acknowledged(found, record):
            found.wrong.append((TEXT, f"{record}: {text}"))
    elif record not in fates.cut_off and not fates.unread_by_lies():
        found.wrong.append((ACCUSED, f"lost {record}, which is {fates.fate.get(record)}: {witness}"))


def _acknowledged(found: Comparison, record: tuple[int, Any]) -> bool:
    """Whether a broker is recorded to have acknowledged a record."""
    history = History(found.case, found.run.recorded)
    if record in history.acked:
        return True
    asked = history.writer.get(record)
    return asked is not None and found.case.true_acks != "0" and asked.type == OK


def _seen(found: Comparison, name: str) -> bool:
    """Whether the oracle saw it in the history, if only so that nobody must report it."""
    own = {each for each, names in NAMES.items() if name in names}
    return any(found.known.shown.get(each) or found.known.maybe.get(each) for each in own)


def _promises(found: Comparison) -> None:
    given = promises(found.case)
    for anomaly in found.result.anomalies:
        if anomaly.promised is None or anomaly.name not in given or anomaly.promised == given[anomaly.name]:
            continue
        if anomaly.bad:
            kind = PROMISE_INVENTED if anomaly.promised else PROMISE_DENIED
            found.wrong.append((kind, anomaly.name))


def told(found: Comparison) -> str:
    """The difference in words: seed, settings, history, both answers."""
    settings = {each.name: getattr(found.case, each.name) for each in fields(found.case)}
    lines = [
        ", ".join(f"{name} {value}" for name, value in settings.items() if value not in ((), {}, None, "", frozenset()))
    ]
    lines.append("history:")
    for op in found.run.recorded:
        if (
            op.extra.get("final")
            and (op.type == INVOKE or op.value == [["poll", []]])
            and op is not found.run.recorded[-1]
        ):
            continue  # what the final polls found is in those that found something
        extra = f" {dict(op.extra)}" if op.extra else ""
        error = f" ({op.error})" if op.error else ""
        where = f"  {op.index:3} {op.time_ns // 1_000_000:6}ms {op.process!s:8}"
        lines.append(f"{where} {op.type:6} {op.f:8} {op.value}{error}{extra}")
    shown: dict[str, Any] = {name: things for name, things in found.known.shown.items() if things}
    maybe: dict[str, Any] = {name: things for name, things in found.known.maybe.items() if things}
    lines += [f"oracle: {answers(found)}"]
    lines += [f"  shown {shown}, maybe {maybe}", f"  open {found.known.open}", f"  lenient {found.known.lenient}"]
    lines += [f"  promises {promises(found.case)}", f"  lies {found.run.truth.world.told}"]
    lines += [f"checker: {found.result.valid}, {found.result.reasons}"]
    lines += [
        f"  {each.name} bad={each.bad} promised={each.promised} {each.witnesses}" for each in found.result.anomalies
    ]
    lines += [f"WRONG {kind}: {what}" for kind, what in found.wrong]
    if found.missed:
        lines.append(f"MISSED {found.missed}")
    return "\n".join(lines)
