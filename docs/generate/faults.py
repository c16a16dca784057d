"""The page reference/faults.md, from the tables of faults and targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from docs.generate.markdown import NOTE, cell, opening, sentence
from harness.cli import fault_support
from harness.model.fault_and_generator_protocols import Fault
from nemesis import table as nemeses
from nemesis.schedule.timing import Timing
from nemesis.targets import CLIENT_TARGETS, EVERY_NODE, NODE_TARGETS

PLACES: Final[Mapping[str, type]] = {
    f"`{name}`": place.cluster for name, place in fault_support.places().items() if place.takes_faults
}


def _copies(what: str) -> Callable[[int], str]:
    return lambda count: f"{'every node' if count == EVERY_NODE else 'one node at a time'} {what}"


# The effect of a fault on the settings by which a run is judged.
EFFECTS: Final[Mapping[str, Callable[[Any], str]]] = {
    "unclean_election": lambda _: "`unclean.leader.election.enable=true`",
    "unsynced_copies": _copies("loses what it has not flushed"),
    "damaged_copies": _copies("loses its copy"),
    "min_insync_replicas": lambda count: f"`min.insync.replicas={count}`",
    "cleanup_policy": lambda policy: f"`cleanup.policy={policy}`",
    "deletes": lambda _: "records are deleted",
}


def _places(needs: tuple[type, ...]) -> str:
    return ", ".join(place for place, kind in PLACES.items() if all(issubclass(kind, need) for need in needs)) or "none"


def _kinds_of_target(row: Any) -> Iterator[tuple[str, list[Fault]]]:
    """The kinds of targets of a verb, each with its faults. A kind whose targets differ in their needs is split."""
    kinds = (
        ("nodes", row.nodes, [target for target in NODE_TARGETS if target in row.targets]),
        ("clients", row.clients, [target for target in CLIENT_TARGETS if target in row.targets]),
        ("", bool(row.named), list(row.named)),
    )
    for kind, accepted, targets in kinds:
        by_needs: dict[tuple[type, ...], dict[str, Fault]] = {}
        for target in targets if accepted else ():
            fault = row.fault(target, Timing())
            by_needs.setdefault(tuple(fault.needs), {})[target] = fault
        for group in by_needs.values():
            names = [kind] if kind and len(by_needs) == 1 else [f"`{target}`" for target in group]
            yield ", ".join(f"[{name}](#targets)" for name in names), list(group.values())


def _verb(verb: str) -> str:
    """The row of one verb."""
    row = nemeses.VERBS[verb]
    targets, needs, operations = [], [], []
    for word, group in _kinds_of_target(row):
        targets.append(word)
        needed = ", ".join(f"[{need.__name__}](#capabilities)" for need in group[0].needs) or "nothing"
        needs.append((word.replace("[", "").replace("](#targets)", ""), needed))
        operations += [f for fault in group for f in sorted(fault.nemesis.fs, key=lambda f: (f != verb, f))]
    if len({needed for _, needed in needs}) == 1:
        needs = needs[:1]
    needed = "<br>".join(f"{word}: {text}" if len(needs) > 1 else text for word, text in needs)
    listed = ", ".join(f"`{f}`" for f in dict.fromkeys(operations))
    return f"| `{verb}` | {cell(sentence(row.summary))} | {', '.join(targets)} | {needed} | {listed} |"


def _short_names() -> list[str]:
    return [
        "## Short names",
        "",
        "| short name | fault |",
        "| --- | --- |",
        *(f"| `{short}` | `{full}` |" for short, full in nemeses.aliases().items()),
        "",
    ]


def _effects() -> list[str]:
    """The faults that change what is promised, as a table."""
    lines = [
        "## Faults that weaken promises",
        "",
        "A run with one of these faults is judged as if the statement on the right were true during the whole run (see",
        "[Promises](../understand/promises.md#faults)).",
        "",
        "| fault | as if |",
        "| --- | --- |",
    ]
    for row in nemeses.VERBS.values():
        by_effect: dict[str, list[str]] = {}
        for target in [*(NODE_TARGETS if row.nodes else ()), *row.named]:
            fault = row.fault(target, Timing())
            effect = "; ".join(EFFECTS[name](value) for name, value in fault.settings.items() if name in EFFECTS)
            by_effect.setdefault(effect, []).append(f"`{fault.name}`")
        lines += [f"| {', '.join(names)} | {effect} |" for effect, names in by_effect.items() if effect]
    return [*lines, ""]


def _targets() -> list[str]:
    rows = [
        *((f"`{name}`", opening(choose)) for name, choose in NODE_TARGETS.items()),
        ("`n1`, `n2`, ...", "the node of that name"),
        *((f"`{name}`", opening(choose)) for name, choose in CLIENT_TARGETS.items()),
        *((f"`{verb}:{name}`", what) for verb, row in nemeses.VERBS.items() for name, what in row.named.items()),
    ]
    return [
        "## Targets",
        "",
        "| target | what is hit |",
        "| --- | --- |",
        *(f"| {name} | {cell(sentence(text))} |" for name, text in rows),
        "",
    ]


def _needs() -> list[str]:
    found = {
        need.__name__: (need, opening(need))
        for row in nemeses.VERBS.values()
        for target in row.targets
        for need in row.fault(target, Timing()).needs
    }
    return [
        "## Capabilities",
        "",
        "A cluster declares what it can do by implementing the protocols of `harness/model/capabilities.py`. A fault",
        "that needs a missing capability is refused before anything starts. Killing and pausing clients needs none.",
        "The simulated log (`--cluster sim`) takes no faults; `--sim-bugs` switches on bugs instead. `local` takes",
        "disk faults only as root; `harness doctor` says what applies to this machine.",
        "",
        "| capability | meaning | clusters |",
        "| --- | --- | --- |",
        *(
            f"| `{name}` | {cell(sentence(text))} | {_places((need,))} |"
            for name, (need, text) in sorted(found.items())
        ),
        f"| nothing | Kill and pause clients. | {_places(())} |",
        "",
    ]


def page() -> str:
    """The page reference/faults.md."""
    lines = [
        "# Faults",
        "",
        NOTE,
        "",
        "    harness run --nemesis leader-kill,pause:client",
        "",
        "A fault is written `VERB:TARGET`, or by its short name. [Faults and schedules](../use/faults.md) explains how",
        "they are timed. *Needs* are [capabilities](#capabilities) of the cluster. *Operations* are the values of `f`",
        "in the history, the first one for the start of the fault.",
        "",
        "| verb | effect | targets | needs | operations |",
        "| --- | --- | --- | --- | --- |",
        *(_verb(verb) for verb in nemeses.VERBS),
        "",
    ]
    lines += _targets() + _short_names() + _effects() + _needs()
    return "\n".join(lines).rstrip() + "\n"
