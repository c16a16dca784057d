"""The catalogues of anomalies and faults, made from the tables that the code itself uses.

`python docs/generate.py` (or `make docs`) writes anomalies.md, errors.md, faults.md, versions.md beside this
file.
Nothing here knows an anomaly, a fault or a version by name: a new row of a table is a new section, or row. A
setting that has no wording yet is a KeyError here, so that it gets one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.catalogue import CATALOGUE
from checker.anomalies.counts_against_verdict import jepsen_allows_with_subscribe
from checker.anomalies.guarantees import Condition, Guarantee
from checker.anomalies.pipeline_modes import MODES
from checker.anomalies.pipeline_offsets import OFFSETS
from checker.anomalies.pipeline_outputs import OUTPUTS
from checker.cycles.dependency_edges import KINDS, RW
from checker.cycles.types_and_levels import EXISTS, LEVELS, SPECS
from harness.cli import fault_support
from harness.clients import error_outcomes as client_errors
from harness.cluster.distribution import versions as kafka
from harness.cluster.distribution.java import MINIMUM as JAVA_MINIMUM
from harness.model.check_options import CheckOptions, Settings
from harness.model.fault_and_generator_protocols import Fault
from harness.plan.test_plan import TestPlan
from nemesis import table as nemeses
from nemesis.schedule.timing import Timing
from nemesis.targets import CLIENT_TARGETS, EVERY_NODE, NODE_TARGETS

FOLDER: Final = Path(__file__).parent
NOTE: Final = "<!-- Made by docs/generate.py; `make docs` makes it again. -->"

# How a reader would write each condition of checker.anomalies.guarantees.
CONDITIONS: Final[Mapping[str, str]] = {
    "acks_all": "`acks=all` (or `acks=1` of one replica)",
    "copies_kept": "no copies of the log lost (below)",
    "clean_election": "no unclean leader election",
    "group_log_kept": "what groups have committed kept (below)",
    "transaction_log_kept": "what transactions have decided kept (below), where there are some",
    "place_kept": "partitions assigned by hand, or what groups have committed kept (below)",
    "damage_noticed": "no files damaged, or `check.crcs=true`",
    "exactly_once_log": "an idempotent or transactional producer",
    "in_order": "an idempotent or transactional producer, or one request in flight",
    "transactions": "transactions",
    "one_reader": "partitions assigned by hand, or by a group of the protocol classic or consumer",
    "not_compacted": "no compaction",
    "read_committed": "`isolation.level=read_committed`, or no transactions",
}

PLACES: Final[Mapping[str, type]] = {
    f"`{name}`": place.cluster for name, place in fault_support.places().items() if place.takes_faults
}


def sentence(text: str) -> str:
    """Text with a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _opening(thing: object) -> str:
    """The first sentence of a docstring, or the first clause of it, without a full stop."""
    return (thing.__doc__ or "").strip().split("\n")[0].split(";")[0].split(". ")[0].rstrip(".")


# --- anomalies ----------------------------------------------------------------------------------------


def _counted(anomaly: Anomaly) -> str:
    """When an anomaly makes a run invalid: the rules themselves are asked."""
    uncommitted = CheckOptions(settings=Settings(isolation_level="read_uncommitted"))
    read, unread = [{"complete": True}], [{"complete": False}]
    if not anomaly.bad(read, CheckOptions()):
        return "never"
    if not anomaly.bad(unread, CheckOptions()):
        return "where the final polls read the log to its end"
    if not anomaly.bad(read, uncommitted):
        return "always, except with `--isolation-level read_uncommitted`"
    return "always"


def _condition(condition: Condition) -> str:
    return CONDITIONS[condition.__name__]


def _forbidden(guarantee: Guarantee | None) -> list[str]:
    """What forbids an anomaly: settings, the guarantee in words, its source."""
    if guarantee is None:
        return ["- Forbidden by: no setting."]
    needed = "; ".join(_condition(each) for each in guarantee.conditions)
    return [
        f"- Forbidden by: {needed or 'all settings'}.",
        f"- Because {guarantee.says} ({guarantee.source}).",
    ]


def _anomaly(anomaly: Anomaly) -> list[str]:
    module = anomaly.name.replace("-", "_").lower()
    lines = [
        f"## {anomaly.name}",
        "",
        anomaly.summary,
        "",
        f"- Makes a run invalid: {_counted(anomaly)}.",
        *_forbidden(anomaly.guarantee),
        f"- Rule: {anomaly.source}; `checker/anomalies/{module}.py`.",
    ]
    if anomaly.jepsen_allows is jepsen_allows_with_subscribe:
        lines.append("- With `--jepsen-compatible`: not counted where consumers subscribe.")
    return [*lines, ""]


def _edges(kinds: int) -> str:
    return ", ".join(f"`{name}`" for bit, name in enumerate(KINDS) if kinds & (1 << bit))


def _cycles() -> list[str]:
    """The types of cycles, as tables."""
    lines = [
        "## Cycles",
        "",
        "Operations depend on each other: `ww`, the one sent a record just before the other's in the log;",
        "`wr`, the other polled what the one sent; `rw`, the other sent the record after the highest one",
        "that the one polled; `process` and `realtime`, the one had completed before the other began. A",
        "cycle of such edges is named after them (Adya 1999; Elle). `--edges` chooses the kinds;",
        "`ww,wr,realtime` unless told otherwise, and `--no-ww-deps` leaves `ww` out. In each strongly",
        "connected component the most severe types are reported; what they imply is not.",
        "",
        "Kafka interleaves the writes of transactions, so most cycles are legal and make no run invalid.",
        "One that no order of events explains does: a record polled before it was sent, or two",
        "transactions that read each other's records although `read_committed` shows them only after",
        "their commit. Such a witness says `forbidden: true` (`checker/cycles/event_cycles.py`). With",
        "`--jepsen-compatible`, Jepsen's list decides.",
        "",
        "Of those that are forbidden:",
        "",
        *(f"{line} (`{name}`)" for name in ("G1c", "G1c-realtime") for line in _forbidden(CATALOGUE[name].guarantee)),
        "",
        "| type | edges | what it is |",
        "| --- | --- | --- |",
    ]
    for spec in SPECS:
        kinds = spec.kinds if spec.rw == "none" else spec.kinds | 1 << RW
        lines.append(f"| {spec.name} | {_edges(kinds)} | {spec.summary} |")
    lines += [
        "",
        "Beside them, a level of isolation that cannot hold because its edges close some cycle, with the",
        "smallest component that shows it:",
        "",
        "| type | edges | level |",
        "| --- | --- | --- |",
    ]
    lines += [f"| {level.name}{EXISTS} | {_edges(level.kinds)} | {level.friendly} |" for level in LEVELS]
    return [*lines, ""]


def _modes(modes: frozenset[str]) -> str:
    return "all" if modes == MODES else ", ".join(f"`{mode}`" for mode in sorted(modes))


def _left() -> list[str]:
    """What the conditions above say of copies, and which faults weaken them."""
    lines = [
        "## What faults leave of a promise",
        "",
        "Nearly every promise rests on logs that keep what stands below their high watermark. A server that is",
        "killed keeps its copy, which its operating system still holds: where no fault has taken copies, one",
        "replica and `min.insync.replicas=1` are enough. Where one has:",
        "",
        "- Power: a copy is lost unless every record is flushed (`log.flush.interval.messages=1`, of the",
        "  brokers, for the internal topics as well). Fewer copies than the smaller of replication factor and",
        "  `min.insync.replicas` may go, and eligible leader replicas must be in force (KIP-966; a run asks its",
        "  cluster which features are): without them the last replica in sync leads again, whatever it has lost.",
        "- Damage: fewer copies than that leave the promise unknown, since it hangs on what was damaged: servers",
        "  look at the end of a log when they start, and believe the rest. As many leave nothing.",
        "- Unclean elections leave nothing, whether they are allowed by a setting or made by a fault.",
        "",
        "What groups have committed, and what transactions have decided, stand in topics of their own, with a",
        "replication factor, `min.insync.replicas` and flushes of their own: the same goes for them.",
        "",
        "A run asks its cluster for these settings (DescribeConfigs of its topics, of the internal topics and of",
        "the brokers; the features in force) and notes the answer in `events/harness.jsonl`, event `settings`.",
        "What the cluster said counts; the plan counts where it said nothing. What is not known leaves a promise",
        "unknown, and so does a history without a plan, of whose faults nothing is known.",
        "",
        "A fault that was asked for weakens the promises of the whole run:",
        "",
        "| fault | as if |",
        "| --- | --- |",
    ]
    for row in nemeses.VERBS.values():
        by_effect: dict[str, list[str]] = {}
        for target in [*(NODE_TARGETS if row.nodes else ()), *row.named]:
            fault = row.fault(target, Timing())
            effect = "; ".join(LEFT[name](value) for name, value in fault.settings.items() if name in LEFT)
            by_effect.setdefault(effect, []).append(f"`{fault.name}`")
        lines += [f"| {', '.join(names)} | {effect} |" for effect, names in by_effect.items() if effect]
    return [*lines, ""]


def _copies(what: str) -> Callable[[int], str]:
    return lambda count: f"{'every node' if count == EVERY_NODE else 'one node at a time'} {what}"


# What faults make of settings, in words.
LEFT: Final[Mapping[str, Callable[[Any], str]]] = {
    "unclean_election": lambda _: "`unclean.leader.election.enable=true`",
    "unsynced_copies": _copies("loses what it has not flushed"),
    "damaged_copies": _copies("loses its copy"),
    "min_insync_replicas": lambda count: f"`min.insync.replicas={count}`",
    "cleanup_policy": lambda policy: f"`cleanup.policy={policy}`",
    "deletes": lambda _: "records are deleted",
}


def _pipelines() -> list[str]:
    """What the checks of pipelines look for, as tables."""
    lines = [
        "## Pipelines",
        "",
        "What the checks of [pipelines](pipeline-checks.md) look for: outputs against inputs, and what the",
        "instances did with their offsets. The mode of the pipeline says what is promised, as far as the brokers",
        "keep the logs of its input, its output, its commits and its transactions (above; `work-unowned` and",
        "`work-unassigned` do not hang on them). An anomaly makes a run invalid in any mode, those marked *",
        "only where the mode promises that it does not happen.",
        "",
    ]
    for what, rows in (("outputs", OUTPUTS), ("offsets", OFFSETS)):
        head = f"| {what} | what it is | promised not to happen | source |"
        lines += [head, "| --- | --- | --- | --- |"]
        for name, row in rows.items():
            assert row.modes is not None
            mark = "" if row.modes.always_bad else " *"
            lines.append(f"| {name}{mark} | {row.summary} | {_modes(row.modes.promising)} | {row.source} |")
        lines.append("")
    return lines


def anomalies() -> str:
    """docs/anomalies.md."""
    lines = [
        "# Anomalies",
        "",
        NOTE,
        "",
        "What the checker looks for: when it makes a run invalid, and which settings forbid it. A run is",
        "invalid even where the settings did not forbid what was found; the verdict says which it is.",
        "[Reading results](reading-results.md) has the fields of the witnesses.",
        "",
    ]
    for anomaly in CATALOGUE.values():
        if anomaly.kind == "records":
            lines += _anomaly(anomaly)
    lines += _cycles() + _left() + _pipelines()
    return "\n".join(lines).rstrip() + "\n"


# --- faults -------------------------------------------------------------------------------------------


def _aliases(name: str) -> str:
    return ", ".join(f"`{short}`" for short, full in nemeses.aliases().items() if full == name)


def _places(needs: tuple[type, ...]) -> str:
    return ", ".join(place for place, kind in PLACES.items() if all(issubclass(kind, need) for need in needs))


def _weaker(faults: Sequence[Fault]) -> list[str]:
    """What is said of faults that change a run's settings for the verdict, and of those of groups."""
    changes = []
    for fault in faults:
        flat = {**fault.settings, **fault.settings.get("broker", {})}
        flat.pop("broker", None)
        flat.pop("deletes", None)  # which is what the fault is for
        changes += [f"`{fault.name}` as with `{name}={str(value).lower()}`" for name, value in flat.items()]
    lines = [f"A run is judged otherwise: with {', '.join(changes)}.", ""] if changes else []
    return [*lines, "Consumers must subscribe.", ""] if any(fault.subscribed for fault in faults) else lines


def _verb(verb: str) -> list[str]:
    row = nemeses.VERBS[verb]
    nodes = [*NODE_TARGETS, "n1"] if row.nodes else []
    rows = []
    for target in [*nodes, *(CLIENT_TARGETS if row.clients else ()), *row.named]:
        fault = row.fault(target, Timing())
        needs = ", ".join(need.__name__ for need in fault.needs) or "nothing"
        ops = ", ".join(f"`{f}`" for f in sorted(fault.nemesis.fs, key=lambda f: (f != verb, f)))
        shown = f"`{fault.name}`" + (", `n2`, ..." if target == "n1" else "")
        rows.append(f"| {shown} | {_aliases(fault.name)} | {ops} | {needs} | {_places(fault.needs)} |")
    return [
        f"## {verb}",
        "",
        sentence(row.summary),
        "",
        *_weaker([row.fault(target, Timing()) for target in row.named]),
        "| fault | short name | operations in the history | needs | where |",
        "| --- | --- | --- | --- | --- |",
        *rows,
        "",
    ]


def _targets() -> list[str]:
    rows = [
        *((name, _opening(choose)) for name, choose in NODE_TARGETS.items()),
        ("n1, n2, ...", "The node of that name"),
        *((name, _opening(choose)) for name, choose in CLIENT_TARGETS.items()),
        *((f"{verb}:{name}", what) for verb, row in nemeses.VERBS.items() for name, what in row.named.items()),
    ]
    return [
        "## Targets",
        "",
        "| target | what is hit |",
        "| --- | --- |",
        *(f"| {name} | {sentence(text)} |" for name, text in rows),
        "",
    ]


def _needs() -> list[str]:
    found = {
        need.__name__: _opening(need)
        for row in nemeses.VERBS.values()
        for target in row.targets
        for need in row.fault(target, Timing()).needs
    }
    return [
        "## What a fault needs",
        "",
        "A cluster says what it can do by the protocols of `harness/model/capabilities.py` that it",
        "satisfies; a fault that needs another one is refused before anything starts. Faults of clients need",
        "nothing. The simulated log (`--cluster sim`) takes no faults; it has bugs of its own: `--sim-bugs`.",
        "",
        *(f"- `{name}`: {sentence(text)}" for name, text in sorted(found.items())),
        "",
    ]


def faults() -> str:
    """docs/faults.md."""
    plan = TestPlan.model_fields
    first_s, interval_s = plan["nemesis_first_s"].default, plan["nemesis_interval_s"].default
    lines = [
        "# Faults",
        "",
        NOTE,
        "",
        "    harness run --nemesis leader-kill,pause:client",
        "",
        "A fault is written VERB:TARGET, or by its short name; of several, separated by commas, those on",
        "nodes take turns, and the others go on beside them. [Schedules](schedules.md) (`--schedule`) give",
        f"each its own rhythm or trigger. A fault begins after {first_s:g} s (`--nemesis-first`), stays on",
        f"for half of `--nemesis-interval` ({interval_s:g} s) from when its effect was seen, and off for the",
        "other half from when all is healthy again; one without an end of its own comes once an interval.",
        "After the load everything is healed. A fault that never took effect makes the verdict unknown.",
        "",
    ]
    for verb in nemeses.VERBS:
        lines += _verb(verb)
    lines += _targets() + _needs()
    return "\n".join(lines).rstrip() + "\n"


# --- versions -----------------------------------------------------------------------------------------


def _version(series: str, patch: str) -> str:
    default, *others = (f"`{metadata}`" for metadata in kafka.modes(patch))
    java = ", ".join(map(str, kafka.JAVA[series]))
    return f"| {series} | {patch} | {default} | {', '.join(others)} | {java} |"


def versions() -> str:
    """docs/versions.md."""
    oldest = ".".join(map(str, kafka.OLDEST))
    lines = [
        "# Versions of Kafka",
        "",
        NOTE,
        "",
        "    harness run --kafka-version 2.4 --nemesis leader-kill --acks all",
        "    harness run --kafka-version 3.9 --metadata zookeeper",
        "    harness run --controllers 3 --nemesis kill:controller",
        "",
        f"The local cluster runs any release from {oldest} on; the jars come from Maven Central, once.",
        f"Without `--kafka-version` it is {kafka.DEFAULT}. A series alone (`2.4`) means the patch that is",
        "named here, on which it was tried.",
        "",
        "| series | patch | metadata, unless told | or | started on Java |",
        "| --- | --- | --- | --- | --- |",
        *(_version(*row) for row in kafka.SERIES.items()),
        "",
        "The main job was run on Java 17; on the others clusters were started, and a killed controller was",
        "replaced.",
        "",
        f"The harness itself needs Java {JAVA_MINIMUM} or newer, and runs brokers with the same one.",
        "",
        "## Where the metadata is",
        "",
        "`--metadata kraft`: the first 1, 3 or 5 brokers (the largest odd number there is) are controllers",
        "too. With `--controllers N` there are N nodes `c1`, `c2`, ... that only control, and brokers only",
        "serve. The target `controller` is the node that leads the quorum, whichever kind it is.",
        "",
        "`--metadata zookeeper`: three ZooKeepers `z1`, `z2`, `z3` (one for fewer than three brokers), each",
        "a process on a host of its own. The target `controller` is the broker that controls.",
        "",
        "Controllers and ZooKeepers can be named: `kill:c1`, `pause:z2`. All other targets mean brokers.",
        "Whoever is isolated is cut off from them as well, and the cluster is healthy only when all of them",
        "answer.",
        "",
        "Sessions of brokers end after 3 s, where Kafka's own would after 9 (KRaft) or 18 (ZooKeeper; 6",
        "before 2.5), so that a leader that is gone is replaced within seconds. To have these back:",
        "`--broker-config broker.session.timeout.ms=9000`, or `zookeeper.session.timeout.ms=18000`.",
        "",
    ]
    return "\n".join(lines).rstrip() + "\n"


# --- errors of clients --------------------------------------------------------------------------------


def errors() -> str:
    """docs/errors.md."""
    rows = [
        f"| {situation} | {'any other' if code == client_errors.ANY else f'`{code}`'} "
        f"| {row.outcome}{', with `--retries 0`' if row.retries_off else ''} | {row.why} | {row.source} |"
        for (situation, code), row in client_errors.TABLE.items()
    ]
    lines = [
        "# What an error of a client proves",
        "",
        NOTE,
        "",
        "`fail` only where it is certain that the step has appended nothing to any log; whatever has no row",
        "is `info`: it may have. Rows that need `--retries 0` are `info` without it. How the steps of an",
        "operation add up is said in `harness/clients/queue.py`; the sources in `harness/clients/error_outcomes.py`.",
        "The names are librdkafka's, with an underscore where the library itself made the error; those of",
        "[other clients](clients.md) are translated.",
        "",
        "| step | error | proves | because | source |",
        "| --- | --- | --- | --- | --- |",
        *rows,
        "",
    ]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write all."""
    (FOLDER / "errors.md").write_text(errors())
    (FOLDER / "anomalies.md").write_text(anomalies())
    (FOLDER / "faults.md").write_text(faults())
    (FOLDER / "versions.md").write_text(versions())


if __name__ == "__main__":
    main()
