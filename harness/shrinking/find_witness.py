"""Runs the checker's kernels, in this process, on a reduced history: a part of the operations of the original history.

The operations keep their ids, so witnesses of the reduced history can be compared with those of the original one. Two
witnesses are the same if they have the same identity: the operations, keys and values that they name. Fields that
depend on other operations (counts, distances, skipped records) are not part of the identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Final

from checker import check
from checker.anomalies import torn_transaction
from checker.anomalies.catalogue import CATALOGUE
from checker.anomalies.counts_against_verdict import never
from checker.anomalies.cycle_anomalies import CYCLES
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.witness import plain
from checker.tables import make_tables
from checker.tables.buckets_of_a_history import in_memory
from checker.tables.coding import decoder, text_of
from harness.model.check_options import CheckOptions
from harness.model.op import Op
from harness.shrinking.sub_history import Name, name

Witness = Mapping[str, Any]
# Fields of a witness that depend on the rest of the history.
AROUND: Final = frozenset(
    [
        "index",
        "max-read-index",
        "max-read",
        "end",
        "offset",
        "offsets",
        "delta",
        "skipped",
        "count",
        "sent",
        "visible",
        "lost",
        "aborted",
        "messages",
        "complete",
        "time",
        "unseen",
        "forbidden",
        "scc-size",
    ]
)
UNSEEN: Final = "unseen"


@dataclass(frozen=True, slots=True)
class Findings:
    """What the kernels found in a reduced history.

    witnesses  anomaly -> its witnesses
    complete   keys whose logs were read to their ends
    """

    witnesses: Mapping[str, Sequence[Witness]]
    complete: frozenset[Name]


def _grounds(witness: Witness) -> set[str]:
    """Returns why a witness counts its record as lost, as a set.

    "end": clients read the log to its end. "beyond": a client read a later record.
    """
    grounds = {"end"} if witness.get("end") is not None else set()
    place, most = witness.get("index"), witness.get("max-read-index")
    if witness.get("max-read") is not None and place is not None and most is not None and place <= most:
        grounds.add("beyond")
    return grounds


def is_cycle(anomaly: str) -> bool:
    return anomaly in CYCLES


def identities(anomaly: str, witness: Witness) -> Iterator[str]:
    """Yields the identity of a witness as text; for a witness of `unseen`, one identity for each of its records."""
    if anomaly == UNSEEN:
        for value in witness.get("messages") or ():
            yield text_of([witness.get("key"), value])
        return
    named = {field: value for field, value in witness.items() if field not in AROUND}
    if anomaly == "inconsistent-offsets":  # only the position, as a part may show fewer of its values
        named = {"key": witness.get("key"), "offset": witness.get("offset")}
    yield text_of(named)


def findings(ops: Sequence[Op], options: CheckOptions, counts: Mapping[str, Mapping[str, int]]) -> Findings:
    """Finds all anomalies except cycles. Raises BadHistory.

    counts  f -> type -> number of operations in the original history. The checker judges a history differently if it
            contains indeterminate operations. With these counts, it does so even if the reduced history has none left.
    """
    tables = make_tables.of_ops(ops, part=True)
    bucket = _bucket(replace(tables, meta={**tables.meta, "counts": counts}), options)
    original = decoder(tables.texts)
    found: dict[str, Sequence[Witness]] = {}
    for anomaly, kernel in CATALOGUE.items():
        if kernel.find is None or (kernel.native and options.jepsen_compatible):
            continue
        rows = kernel.find(bucket)
        if rows.num_rows:
            found[anomaly] = plain(rows, original)
    if not options.jepsen_compatible:
        suspects = torn_transaction.suspects(bucket)
        torn = torn_transaction.reduce([torn_transaction.parts(bucket, suspects)])
        if torn.num_rows:
            found[torn_transaction.ANOMALY.name] = plain(torn, original)
    return Findings(found, _complete(bucket, original))


def complete(ops: Sequence[Op], options: CheckOptions) -> frozenset[Name]:
    """Returns the keys whose log is read to its end by at least one of `ops`. Raises BadHistory."""
    tables = make_tables.of_ops(ops, part=True)
    return _complete(_bucket(tables, options), decoder(tables.texts))


def _bucket(tables: make_tables.Tables, options: CheckOptions) -> Bucket:
    data, small = in_memory(tables).parts[0].load()
    return Bucket(data, small, data.visible_info(), options)


def _complete(bucket: Bucket, original: Mapping[int, Any]) -> frozenset[Name]:
    ends = bucket.ends
    return frozenset(name(original.get(code, code)) for code in ends.keys[ends.complete].tolist())


def cycles(ops: Sequence[Op], options: CheckOptions) -> Mapping[str, Sequence[Witness]]:
    """Finds the cycles. Returns anomaly -> witnesses. Raises BadHistory."""
    result = check.judge(in_memory(make_tables.of_ops(ops, part=True)), replace(options, checks=("queue",)))
    return {found.name: found.witnesses for found in result.anomalies if is_cycle(found.name)}


@dataclass(frozen=True, slots=True)
class Target:
    """A witness of the original history that a reduced history must also show.

    claim     the identity of the witness
    known     a function: anomaly -> the identities of its witnesses in the original history; the reduced history must
              show no others
    complete  keys whose logs are read to their ends in the original history
    """

    anomaly: str
    witness: Witness
    claim: str
    known: Callable[[str], AbstractSet[str]]
    complete: frozenset[Name]

    def among(self, witnesses: Sequence[Witness]) -> bool:
        """Returns whether `witnesses` contains the target, proved for at least the same reasons (see `_grounds`)."""
        return any(
            self.claim in identities(self.anomaly, candidate) and _grounds(self.witness) <= _grounds(candidate)
            for candidate in witnesses
        )

    def invented(self, found: Findings) -> list[tuple[str, Witness, str]]:
        """Returns (anomaly, witness, identity) of everything in `found` that the original history does not show."""
        return [
            (anomaly, witness, claim)
            for anomaly, witnesses in found.witnesses.items()
            if CATALOGUE[anomaly].bad is not never
            for witness in witnesses
            for claim in identities(anomaly, witness)
            if claim not in self.known(anomaly)
        ]

    def shown(self, found: Findings) -> bool:
        """Returns whether a reduced history shows the target for the same reasons, and nothing that the original does
        not show.

        If the original history reads the log of a lost or unseen record to its end, the reduced one must do so, too.
        """
        if not self.among(found.witnesses.get(self.anomaly, ())) or self.invented(found):
            return False
        missing = {
            name(witness["key"]) for anomaly in ("lost-write", UNSEEN) for witness in found.witnesses.get(anomaly, ())
        }
        return all(key in found.complete for key in missing & self.complete)

    def shown_cycle(self, witnesses: Mapping[str, Sequence[Witness]]) -> bool:
        """Returns whether the reduced history has a cycle of the target's type.

        If the target counts against the verdict, this cycle must do so too; otherwise, it must not. It need not be the
        same cycle, see `history_search`.
        """
        bad = bool(self.witness.get("forbidden"))
        return any(bool(witness.get("forbidden")) == bad for witness in witnesses.get(self.anomaly, ()))
