"""The random parameters of a run: settings as in a plan, faults, gaps of the recorded history, and lies.

A lie is behaviour that a correct Kafka with correct clients never shows, whatever the settings. Settings and faults
alone may have the same effect: then the anomaly happened too, but was not ruled out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from harness.model.check_options import CheckOptions, Settings
from harness.model.randomness import Draw
from harness.plan import resolve
from harness.plan.test_plan import TestPlan
from tests.oracle.log import RECORD_BYTES

FAULTS = (
    "kill:leader",
    "kill:majority",
    "elect-unclean:leader",
    "power-loss:all",
    "power-loss:leader",
    "truncate-tail:leader",
    "config-change:retention",
    "config-change:compact",
    "config-change:min-isr-down",
    "delete-records:some",
    "clock-bump:one",
)
LIES = (
    "lose-record",
    "lose-tail",
    "lose-head",
    "aborted-visible",
    "failed-visible",
    "own-visible",
    "early-read",
    "overwritten",
    "duplicate",
    "reorder",
    "stale-place",
    "skip-poll",
    "repeat-poll",
    "int-skip-poll",
    "int-repeat-poll",
    "phantom",
    "bad-payload",
    "lose-commit",
)


@dataclass(frozen=True, slots=True)
class Case:
    """The parameters of one run.

    final          the final polls: complete, short (they stop too early), absent, without seek,
                   partial (of some keys only)
    cut            what is missing in the history: "", tail, lines; named: process 0 is called nemesis
    plain          the settings are unknown and no final polls are expected, as for a foreign history
    demands_final  final polls are expected
    elr            eligible leader replicas are enabled (KIP-966); None: unknown
    keep_cleaned   which checkpoints of the log cleaner are recorded: all, some, none
    """

    seed: int
    ops: int
    processes: int = 3
    keys: int = 2
    txn: bool = False
    mixed: bool = False
    acks: str = "all"
    retries: int | None = None
    idempotence: bool | None = None
    replication: int = 3
    min_isr: int = 2
    isolation: str = "read_committed"
    reset: str = "earliest"
    sub_via: tuple[str, ...] = ("assign",)
    broker: Mapping[str, str] = field(default_factory=dict)
    producer: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    lies: frozenset[str] = frozenset()
    final: str = "complete"
    cut: str = ""
    plain: bool = False
    demands_final: bool = True
    keep_cleaned: str = "all"
    records_per_segment: int = 3
    client_deletes: bool = False
    trouble: float = 0.04
    elr: bool | None = None

    def plan(self) -> TestPlan:
        return TestPlan(
            acks=self.acks,
            retries=self.retries,
            idempotence=self.idempotence,
            txn=self.txn,
            replication=self.replication,
            min_insync_replicas=self.min_isr,
            isolation_level=self.isolation,
            auto_offset_reset=self.reset,
            sub_via=self.sub_via,
            broker_config=dict(self.broker),
            producer_config=dict(self.producer),
            nemesis=self.faults,
        )

    def options(self) -> CheckOptions:
        """The check options of a run with this plan."""
        if self.plain:
            return CheckOptions(sub_via=frozenset(self.sub_via))
        options = replace(resolve.judged_by(self.plan()), require_final_polls=self.demands_final)
        options = replace(options, settings=replace(options.settings, eligible_leader_replicas=self.elr))
        if self.record_bytes_known():
            known: dict[str, Any] = {"record_bytes": RECORD_BYTES}
            options = replace(options, settings=replace(options.settings, **known))
        return options

    def record_bytes_known(self) -> bool:
        """Whether the settings limit the size of a record."""
        return not self.plain and any(each.name == "record_bytes" for each in fields(Settings))

    # --- how brokers and clients interpret the settings ---------------------------------------------------

    @property
    def true_acks(self) -> str:
        acks = str(self.producer.get("acks", self.acks))
        return "all" if acks == "-1" else acks

    @property
    def idempotent(self) -> bool:
        """KIP-679: enabled, unless disabled explicitly or by other settings."""
        if self.txn:
            return True
        if "enable.idempotence" in self.producer:
            return self.producer["enable.idempotence"].strip().lower() == "true"
        if self.idempotence is not None:
            return self.idempotence
        return self.true_acks == "all" and self.retries != 0

    @property
    def unclean_enabled(self) -> bool:
        """ConfigDef trims values, and reads booleans in any case."""
        return self.broker.get("unclean.leader.election.enable", "false").strip().lower() == "true"

    @property
    def retention_ms(self) -> int | None:
        """log.retention.ms overrides .minutes, which overrides .hours; -1: no limit. The default is a week."""
        for name, factor in (
            ("log.retention.ms", 1),
            ("log.retention.minutes", 60_000),
            ("log.retention.hours", 3_600_000),
        ):
            if name in self.broker:
                value = int(self.broker[name])
                return None if value < 0 else value * factor
        return 168 * 3_600_000

    @property
    def retention_bytes(self) -> int | None:
        value = int(self.broker.get("log.retention.bytes", "-1"))
        return None if value < 0 else value


def draw_case(seed: int, ops: int | None = None) -> Case:
    """A case from a seed; with `ops`, the same case with that many operations."""
    draw = Draw.of(seed, "oracle-case", 0)
    count = draw.between(10, 80)
    txn = draw.random() < 0.4
    replication = draw.choice((1, 2, 3, 3, 3))
    acks = "all" if txn else draw.choice(("0", "1", "all", "all"))
    broker: dict[str, str] = {}
    producer: dict[str, str] = {}
    if draw.random() < 0.15:
        broker["unclean.leader.election.enable"] = draw.choice(("true", "TRUE", "True", "false", "FALSE"))
    if draw.random() < 0.1:
        broker["log.flush.interval.messages"] = "1"
    if draw.random() < 0.12:
        broker["log.retention.ms"] = str(draw.choice((500, 1500, 60_000, -1)))
    if draw.random() < 0.05:
        broker["log.retention.hours"] = draw.choice(("1", "24", "-1"))
    if draw.random() < 0.08:
        broker["log.retention.bytes"] = str(draw.choice((300, 700, 1_000_000)))
    if acks == "all" and draw.random() < 0.1:
        producer["acks"] = "-1"
    retries = None if txn else draw.choice((None, None, 0, 3))
    idempotence = draw.choice((None, None, False)) if acks == "all" and not txn else None
    faults: list[str] = []
    for _ in range(draw.choice((0, 0, 1, 1, 2))):
        fault = draw.choice(FAULTS)
        if fault not in faults and not (fault == "elect-unclean:leader" and replication == 1):
            faults.append(fault)
    lies = frozenset(draw.choice(LIES) for _ in range(draw.choice((0, 0, 0, 1, 1, 2))))
    drawn = Case(
        seed=seed,
        ops=count if ops is None else ops,
        processes=draw.between(1, 4),
        keys=draw.between(1, 3),
        txn=txn,
        mixed=draw.random() < 0.15,
        acks=acks,
        retries=retries,
        idempotence=idempotence,
        replication=replication,
        min_isr=min(replication, draw.choice((1, 2, 2))),
        isolation=draw.choice(("read_committed", "read_committed", "read_uncommitted")),
        reset=draw.choice(("earliest", "earliest", "latest")),
        sub_via=draw.choice((("assign",), ("assign",), ("subscribe",), ("assign", "subscribe"))),
        broker=broker,
        producer=producer,
        faults=tuple(faults),
        lies=lies,
        final=draw.choice(("complete",) * 7 + ("short", "absent", "without seek", "partial")),
        cut=draw.choice(("",) * 20 + ("tail", "tail", "lines", "lines", "named")),
        plain=draw.random() < 0.1,
        demands_final=draw.random() < 0.7,
        keep_cleaned=draw.choice(("all", "all", "some", "none")),
        records_per_segment=draw.between(1, 6),
        client_deletes=draw.random() < 0.15,
        trouble=draw.choice((0.0, 0.02, 0.06)),
        elr=draw.choice((None, True, False)),
    )
    return _themed(drawn, draw)


def _themed(case: Case, draw: Draw) -> Case:
    """Half of all cases have a theme, so that circumstances that matter only in combination occur together."""
    theme = draw.choice(("", "", "", "", "in doubt", "deletes", "compacts", "open transactions", "copies", "lines"))
    if theme == "in doubt":
        return replace(
            case,
            ops=min(case.ops, draw.between(6, 24)),
            keys=draw.between(3, 6),
            txn=False,
            plain=False,
            final=draw.choice(("partial", "partial", "absent", "complete")),
            demands_final=False,
            trouble=0.2,
            cut="",
        )
    if theme == "deletes":
        chosen = ("delete-records:some", "config-change:retention", "clock-bump:one")
        return replace(
            case,
            client_deletes=draw.random() < 0.7,
            broker=draw.choice(
                ({}, {"log.retention.ms": "4000"}, {"log.retention.ms": "1500"}, {"log.retention.bytes": "500"})
            ),
            faults=tuple(sorted({draw.choice(chosen) for _ in range(draw.between(0, 2))})),
            lies=frozenset({draw.choice(("lose-record", "lose-head", "lose-tail", "skip-poll", "none"))}) & set(LIES),
            cut="",
        )
    if theme == "compacts":
        return replace(
            case,
            acks="all",
            faults=("config-change:compact",),
            broker={},
            lies=frozenset({draw.choice(("lose-record", "overwritten", "lose-tail", "none"))}) & set(LIES),
            cut="",
        )
    if theme == "open transactions":
        isolation = draw.choice(("read_committed", "read_uncommitted"))
        return replace(
            case, txn=True, acks="all", retries=None, idempotence=None, isolation=isolation, trouble=0.12, cut=""
        )
    if theme == "copies":
        chosen = ("kill:leader", "elect-unclean:leader", "power-loss:all", "power-loss:leader", "truncate-tail:leader")
        fault = draw.choice((*chosen, "config-change:min-isr-down", "kill:majority"))
        faults = () if case.replication == 1 and fault == "elect-unclean:leader" else (fault,)
        lies = (
            "duplicate",
            "skip-poll",
            "repeat-poll",
            "int-skip-poll",
            "aborted-visible",
            "lose-record",
            "overwritten",
        )
        broker = draw.choice(
            ({}, {}, {"unclean.leader.election.enable": draw.choice(("true", "TRUE", "True", "false"))})
        )
        return replace(case, faults=faults, broker=broker, lies=frozenset({draw.choice(lies)}), plain=False, cut="")
    return replace(case, cut="lines", plain=False) if theme == "lines" else case
