"""The table of recovery scenarios. Sources: KAFKA-615; KIP-101; Kafka's LogManager and LogLoader, 4.1.

Segments are 1 MiB, the minimum since Kafka 4.0, so about 52 records of 20 kB fill one. A scenario sends RECORDS records
to one partition, whose log then has four segments. The act `settle` waits until all segments but the last one are
flushed and recovery-point-offset-checkpoint says so. The last segment is therefore the only one after the recovery
point.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from workloads.recovery.step_types import Act, Read, Recovers, Scenario, Send

RECORDS: Final = 200
EVERY: Final = 1000  # more than any number of nodes: all of them
SHARED: Final[Mapping[str, Any]] = {
    "key_count": 1,
    "partitions_per_topic": 1,
    "record_bytes": 20_000,
    "concurrency": 5,
    "time_limit_s": 400.0,
    "op_timeout_s": 15.0,
    "delivery_timeout_s": 13.0,
    "keep_data": True,
}
BROKER: Final[Mapping[str, str]] = {
    "log.segment.bytes": str(1 << 20),
    "log.flush.offset.checkpoint.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}
FLUSHED: Final[Mapping[str, Any]] = {"broker_config": {"log.flush.interval.messages": "1"}}
ONE: Final[Mapping[str, Any]] = {"nodes": 1}
BEGIN: Final = (Send(RECORDS), Act("append", "all"), Act("settle", "all"))
AGAIN: Final = (Act("elect"), Act("again", "all"))


def _start(recovers: Recovers, *says: str, who: str = "leader", never: tuple[str, ...] = (), **more: Any) -> Act:
    expect: dict[str, Any] = {"recovers": recovers, **more}
    expect |= {"says": list(says)} if says else {}
    expect |= {"never": list(never)} if never else {}
    return Act("start", who, expect=expect)


def _restarted(how: str, kind: str, start: Act, who: str = "leader") -> tuple[Any, ...]:
    """Returns the steps of a scenario with one restart of a server.

    The steps: send records, stop or kill (`how`) the server (`who`), damage one of its files if `kind` is not empty,
    start it, send more records.
    """
    damage = (Act("damage", who, kind),) if kind else ()
    return (*BEGIN, Act(how, who), *damage, start, Send(20))


def _scenario(name: str, shows: str, *steps: Any, **more: Any) -> Scenario:
    return Scenario(name, shows, steps, **more)


def _marks() -> list[Scenario]:
    """Returns the scenarios on the two files that decide how much a server recovers when it starts.

    These files are the marker of a clean shutdown, and the checkpoint of the recovery point.
    """
    quiet = ("corrupt", "invalid-messages")
    rows = [
        ("clean-restart", "stop", "", "none", (), "a clean shutdown: no segment is recovered"),
        ("kill-restart", "kill", "", "point", (), "a kill: the segments after the recovery point are recovered"),
        ("no-point", "stop", "no-point", "none", (),
         "a clean shutdown, then the recovery point is deleted: no segment is recovered"),
        ("no-marker", "stop", "no-marker", "point", (),
         "the clean shutdown marker is deleted: recovery starts at the recovery point, which is at the log end"),
        ("no-point-no-marker", "stop", "no-point-no-marker", "all", (),
         "the recovery point and the marker are deleted: every segment is recovered"),
        ("no-point-killed", "kill", "no-point", "all", (),
         "a kill, then the recovery point is deleted: every segment is recovered"),
        ("point-bad", "kill", "point-bad", "all", ("point-unread",),
         "a kill, and the recovery point is unreadable: every segment is recovered"),
        ("point-high", "kill", "point-high", "point", (),
         "a kill, and the recovery point is beyond the log end: the last segment is recovered"),
    ]  # fmt: skip
    return [
        _scenario(name, shows, *_restarted(how, kind, _start(recovers, *says, never=quiet)), *AGAIN)  # type: ignore[arg-type]
        for name, how, kind, recovers, says, shows in rows
    ]


def _after() -> list[Scenario]:
    """Returns the scenarios with damage after the recovery point. Recovery scans this part of the log."""
    kinds = {
        "flip-last": "a flipped bit in the last segment",
        "tail-last": "a partially written last batch",
        "zero-last": "a page of zeroes in the last segment",
    }
    found = []
    for kind, what in kinds.items():
        for who in ("leader", "follower"):
            steps = _restarted("kill", kind, _start("point", "corrupt", who=who), who)
            text = f"{what}, on the {who}: the log is truncated there and the rest replicated again"
            found.append(_scenario(f"{kind}-{who}", text, *steps, damaged=1, nodes_min=2))
        steps = _restarted("kill", kind, _start("point", "corrupt"))
        text = f"{what}, on the only replica: the log is truncated there and the rest is lost"
        found.append(_scenario(f"{kind}-only", text, *steps, lost=True, settings=ONE, damaged=1))
        steps = _restarted("kill", kind, _start("point", "corrupt", who="all"), "all")
        text = f"{what}, on every replica: the log is truncated there and the rest is lost"
        found.append(_scenario(f"{kind}-all", text, *steps, lost=True, damaged=EVERY, nodes_min=2))
    return found


def _before() -> list[Scenario]:
    """Returns the scenarios with damage before the recovery point.

    Recovery does not scan this part of the log, so the damage is found only when it is read.
    """
    found = []
    unseen = ("corrupt", "invalid-messages")
    for kind, what in {"flip-first": "a flipped bit", "zero-first": "a page of zeroes"}.items():
        for who in ("leader", "follower"):
            found.append(
                _scenario(
                    f"{kind}-{who}",
                    f"{what} in an earlier segment, on the {who}: no start detects it, readers get a checksum error; "
                    "the replica is erased and replicated again",
                    *BEGIN, Act("kill", who), Act("damage", who, kind),
                    _start("point", who=who, never=unseen),
                    Act("elect", who), Read(), Act("kill", who), Act("damage", who, "erase"),
                    _start("any", who=who), Send(20),
                    reported=True, damaged=1, nodes_min=3,
                )
            )  # fmt: skip
    found.append(
        _scenario(
            "flip-first-only",
            "a flipped bit in an earlier segment, on the only replica: reads fail",
            *_restarted("kill", "flip-first", _start("point", never=unseen)), Read(),
            lost=True, reported=True, settings={**ONE, "final_time_limit_s": 25.0}, damaged=1,
        )
    )  # fmt: skip
    found.append(
        _scenario(
            "flip-first-all",
            "a flipped bit in an earlier segment, on every replica: reads fail",
            *_restarted("kill", "flip-first", _start("point", who="all", never=unseen), "all"), Read(),
            lost=True, reported=True, settings={"final_time_limit_s": 25.0}, damaged=EVERY, nodes_min=2,
        )
    )  # fmt: skip
    found.append(
        _scenario(
            "flip-first-scanned",
            "a flipped bit in an earlier segment and no recovery point: recovery scans every segment, truncates the "
            "log there, and the rest is replicated again",
            *BEGIN, Act("kill"), Act("damage", kind="flip-first"), Act("damage", kind="no-point"),
            _start("any", "corrupt"), Send(20),
            damaged=1, nodes_min=2,
        )
    )  # fmt: skip
    return found


def _aids() -> list[Scenario]:
    """Returns the scenarios with damage to the other files of a log: indexes, producer snapshots, epoch checkpoints."""
    found = []
    kinds = {
        "index-bad": "garbage at the beginning of every offset index",
        "timeindex-bad": "garbage at the beginning of every time index",
        "index-short": "indexes that end in the middle of an entry",
        "index-gone": "missing indexes",
        "snapshot-bad": "garbage in the producer snapshots",
    }
    for how, state in {"kill": "killed", "stop": "stopped"}.items():
        for kind, what in kinds.items():
            says = ("index-rebuilt",) if kind == "index-gone" else ()
            found.append(
                _scenario(
                    f"{kind}-{state}",
                    f"{what}, on a {state} leader that becomes leader again: all records are readable",
                    *BEGIN, Act(how), Act("damage", kind=kind), _start("any", *says), *AGAIN,
                    Read(), Send(20),
                    damaged=1,
                )
            )  # fmt: skip
    found.append(
        _scenario(
            "epochs-bad",
            "an unreadable leader-epoch-checkpoint: the server refuses to start; once erased it starts and recovers",
            *BEGIN, Act("kill"), Act("damage", kind="epochs-bad"), _start("any", "malformed", ends=True),
            Act("damage", kind="erase"), _start("any"), Send(20),
            damaged=1, nodes_min=3,
        )
    )  # fmt: skip
    return found


def _truncation() -> list[Scenario]:
    return [
        _scenario(
            "truncate-crash",
            "a leader is cut off with records that no follower has; it is reconnected, killed while it truncates, and "
            "started again: no truncated record reappears",
            *BEGIN, Act("cut-off"), Send(60), Act("kill"), Act("join"), Send(120),
            Act("start-kill", kind=r"partition=\S+-0-0[,\]].*Truncating to offset"), _start("any"), Send(20),
            settings={"delivery_timeout_s": 4.0, "op_timeout_s": 6.0, "concurrency": 15},
            needs=frozenset({"network"}), nodes_min=3,
        )
    ]  # fmt: skip


def _power() -> list[Scenario]:
    found = []
    needs = frozenset({"disks"})
    for name, who, count, nodes in (("one", "leader", 1, 2), ("two", "two", 2, 3), ("all", "all", EVERY, 1)):
        for flushed in (False, True):
            lost = not flushed and name != "one"
            how = "log.flush.interval.messages=1" if flushed else "only the operating system flushes"
            found.append(
                _scenario(
                    f"power-{name}{'-flushed' if flushed else ''}",
                    f"a power loss of {name} of the servers; {how}",
                    Send(RECORDS), Act("power-off", who), _start("any", who=who), Send(20),
                    lost=lost, settings=FLUSHED if flushed else {}, needs=needs, unsynced=count,
                    nodes_min=nodes,
                )
            )  # fmt: skip
    return found


def _formats() -> list[Scenario]:
    """Returns the scenarios with a power cut shortly after a node was formatted and started for the first time."""
    begun = (Send(60), Act("kill", "follower"))
    cut = (_start("any", who="follower"), Act("power-off", "follower"))
    needs = frozenset({"disks"})
    return [
        _scenario(
            "format-unsynced",
            "a server loses power soon after it was formatted, before bootstrap.checkpoint was synced: it refuses to "
            "start; formatted again, it starts (until Kafka 4.3; later versions sync the file)",
            *begun, Act("damage", "follower", "format-unsynced"), *cut,
            _start("any", "no-features", who="follower", ends=True), Act("damage", "follower", "format"),
            _start("any", who="follower"), Send(20),
            needs=needs, damaged=1, unsynced=1, nodes_min=3, settings={"kafka_version": "4.1.2"}, before="4.4.0",
        ),
        _scenario(
            "format-synced",
            "a server loses power soon after it was formatted, with the formatted files synced: it starts",
            *begun, Act("damage", "follower", "format"), *cut, _start("any", who="follower"), Send(20),
            needs=needs, damaged=1, unsynced=1, nodes_min=3,
        ),
    ]  # fmt: skip


def _full() -> list[Scenario]:
    needs = frozenset({"disks"})
    return [
        _scenario(
            "full-append",
            "the leader's disk fills up: it shuts down and another server leads; with free space it recovers",
            Send(60), Send(RECORDS, Act("fill", more={"ends": True}), 0.3), Act("free"), _start("any"),
            Send(20),
            needs=needs, nodes_min=3,
        ),
        _scenario(
            "full-recovery",
            "the disk is full while indexes are rebuilt: the server does not start; with free space it recovers",
            *BEGIN, Act("kill"), Act("damage", kind="index-gone"), Act("damage", kind="no-point"),
            Act("fill"),
            _start("any", "no-room|no-page", ends=True), Act("free"), _start("any"), Send(20),
            needs=needs, nodes_min=3,
        ),
    ]  # fmt: skip


def _folders() -> list[Scenario]:
    return [
        _scenario(
            "two-folders",
            "one of two log directories fails at runtime, is missing at a start, and is restored: other servers lead "
            "meanwhile",
            *BEGIN, Act("damage", kind="folder-fails"), Send(RECORDS), Act("kill"),
            Act("start", expect={"says": ["directory-refused"]}, more={"unwell": True}), Send(100),
            Act("stop"), Act("damage", kind="folder-back"), _start("any"), Send(20), *AGAIN,
            settings={"log_dirs": 2, "key_count": 4}, damaged=1, nodes_min=3,
        )
    ]  # fmt: skip


SCENARIOS: Final[Mapping[str, Scenario]] = {
    row.name: row
    for row in (
        *_marks(),
        *_after(),
        *_before(),
        *_aids(),
        *_truncation(),
        *_power(),
        *_formats(),
        *_full(),
        *_folders(),
    )
}


def settings(name: str) -> dict[str, Any]:
    """Returns the fields of the plan that the scenario `name` sets, with their values."""
    own = dict(SCENARIOS[name].settings)
    broker = {**BROKER, **own.pop("broker_config", {})}
    return {**SHARED, **own, "broker_config": broker}
