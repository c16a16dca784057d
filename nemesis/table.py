"""The table of fault verbs, and the functions that turn fault names into faults and generators.

To add a verb, write one module in `nemesis/verbs` and add one row to `VERBS`.

A fault is written VERB:TARGET ("kill:leader"); short names are aliases. When a run has several faults, those that hit
nodes take turns: with two of three nodes broken at once there is no majority, and no fault could take effect. A fault
that hits clients takes no turns; it may be on at the same time as any other fault.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from harness.generator import ForNemesis, Once, Then, any_
from harness.model.capabilities import Cluster, Links, Network, Wire, offers
from harness.model.check_options import LARGER_IS_WEAKER, Settings
from harness.model.errors_and_exit_codes import BadInput, HarnessError
from harness.model.fault_and_generator_protocols import USES, Env, Fault, Generator
from harness.model.op import INFO, NEMESIS, Op
from nemesis.schedule import upgrade_course
from nemesis.schedule.entry import Entry
from nemesis.schedule.rounds import Rhythm
from nemesis.schedule.timing import Timing, in_turns, patience, patient
from nemesis.shared.admin_fault import Changed
from nemesis.shared.break_and_mend import BrokenNodes
from nemesis.shared.effects import after_point, heal
from nemesis.shared.group_liveness import SETTLE_GROUP, group_within_s, settle_group
from nemesis.shared.liveness import SETTLE, settle, within_s
from nemesis.targets import EVERY_NODE, USE_OF_ROLE
from nemesis.verb import Verb
from nemesis.verbs import (
    add_partitions,
    clock,
    config_change,
    damage,
    delete_records,
    disk_full,
    disk_slow,
    downgrade,
    elect,
    elect_unclean,
    fail_log_dir,
    fence,
    finalize,
    kill,
    links,
    migrate,
    move_log_dir,
    partition,
    pause,
    power_loss,
    reassign,
    rebalance,
    remove_broker,
    restart,
    roll_back,
    upgrade,
    voters,
    wire,
)

VERBS: Final[Mapping[str, Verb]] = {
    "kill": kill.VERB,
    "pause": pause.VERB,
    "restart": restart.RESTART,
    "rolling-restart": restart.ROLLING,
    **partition.VERBS,
    **links.VERBS,
    **clock.VERBS,
    "power-loss": power_loss.VERB,
    "disk-full": disk_full.VERB,
    "disk-slow": disk_slow.VERB,
    **damage.VERBS,
    "fail-log-dir": fail_log_dir.VERB,
    "move-log-dir": move_log_dir.VERB,
    "delete-records": delete_records.VERB,
    "elect": elect.VERB,
    "elect-unclean": elect_unclean.VERB,
    "reassign": reassign.VERB,
    "add-partitions": add_partitions.VERB,
    "remove-broker": remove_broker.VERB,
    **voters.VERBS,
    "config-change": config_change.VERB,
    "rebalance": rebalance.VERB,
    "fence": fence.VERB,
    "wire": wire.VERB,
    "upgrade": upgrade.VERB,
    "roll-back": roll_back.VERB,
    "finalize": finalize.VERB,
    "downgrade": downgrade.VERB,
    "migrate": migrate.VERB,
}
FINAL_POLLS_COMPLETE: Final = "final-polls-complete"
# Capabilities that undo all their faults together: if one fault is healed, the other faults are undone, too.
MENDED_TOGETHER: Final = (Links, Network)
MARKS: Final = frozenset({FINAL_POLLS_COMPLETE})


def aliases() -> dict[str, str]:
    """Returns the short names of faults: short name -> VERB:TARGET."""
    return {short: f"{verb}:{target}" for verb, row in VERBS.items() for short, target in row.short.items()}


def canonical(text: str, nodes: Sequence[str]) -> tuple[str, ...]:
    """Returns the canonical names (VERB:TARGET) of the faults in a comma-separated list. Leaves out "none".

    Raises BadInput for an unknown verb or target. The message suggests the closest known name.
    """
    names = [part.strip() for part in text.split(",") if part.strip()]
    found = tuple(_canonical(name, nodes) for name in names if name != "none")
    if len(set(found)) < len(found):
        raise BadInput(f"--nemesis {text}: a fault is listed twice")
    return found


def _canonical(name: str, nodes: Sequence[str]) -> str:
    full = aliases().get(name, name)
    verb, _, target = full.partition(":")
    if verb not in VERBS or not target:
        full_names = [f"{verb}:{target}" for verb, row in VERBS.items() for target in row.targets]
        names = ["none", *aliases(), *full_names]
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise BadInput(
            f"--nemesis {name}: no such fault; {hint}Known: none, {', '.join(sorted(aliases()))}; "
            f"or VERB:TARGET with VERB one of {', '.join(VERBS)}"
        )
    written = VERBS[verb].written
    if written is not None and "=" in target:
        try:
            written(target, nodes)
        except BadInput as error:
            raise BadInput(f"--nemesis {name}: {error}") from None
        return f"{verb}:{target}"
    targets = [*VERBS[verb].targets, *(nodes if VERBS[verb].nodes else ())]
    if target not in targets:
        close = difflib.get_close_matches(target, targets, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise BadInput(f"--nemesis {name}: {verb} has no target {target!r}; {hint}one of {', '.join(targets)}")
    return f"{verb}:{target}"


def faults(names: Sequence[str], timing: Timing) -> tuple[Fault, ...]:
    """Returns the faults with these canonical names."""
    made = []
    for name in names:
        verb, _, target = name.partition(":")
        made.append(VERBS[verb].fault(target, timing))
    return tuple(made)


def needed(chosen: Sequence[Fault]) -> frozenset[type]:
    """Returns the capabilities that these faults need from a cluster."""
    return frozenset(need for fault in chosen for need in fault.needs)


def refuse_unsupported(chosen: Sequence[Fault], cluster: Cluster, why: str, refused: Mapping[type, str]) -> None:
    """Raises BadInput if a fault needs a capability that the cluster does not offer, or more nodes than it has.

    why      the end of the message "... needs X, which ...", for example "containers do not offer"
    refused  capability -> reason, for capabilities that the cluster offers but this machine does not allow
    """
    for fault in chosen:
        for need in fault.needs:
            if offers(cluster, need) and refused.get(need):
                raise BadInput(f"{fault.name} needs {need.__name__}: {refused[need]}")
        missing = [need.__name__ for need in fault.needs if not offers(cluster, need)]
        if missing:
            raise BadInput(f"{fault.name} needs {', '.join(missing)}, which {why}")
        verb = VERBS.get(fault.name.partition(":")[0])  # None for a fault whose ops come from the workload
        least = verb.nodes_min if verb else 1
        if len(cluster.nodes) < least:
            raise BadInput(f"{fault.name} needs at least {least} nodes: use --nodes {least} or more")


def refuse_pointless(chosen: Sequence[Fault], uses: Collection[str]) -> None:
    """Raises BadInput if the load uses nothing that a fault could act on.

    uses  what the load uses: keys of USES
    """
    for fault in chosen:
        of_role = USE_OF_ROLE.get(fault.name.partition(":")[2])
        needed = fault.acts_on | {of_role} if of_role else fault.acts_on
        for use in sorted(needed - set(uses)):
            raise BadInput(f"{fault.name} needs {USES[use]}")


def weakened(settings: Settings, names: Sequence[str], scheduled: Sequence[str] = ()) -> Settings:
    """Returns the settings by which the checker judges a run with the faults `names`.

    If a fault changes a setting, the value with the weaker guarantee applies to the whole run. A fault in `scheduled`
    does not wait until nodes that it hit earlier have caught up. Over the run it may therefore hit every replica, and
    the settings allow for this. Unknown fault names change nothing.
    """
    for name in names:
        verb, _, target = name.partition(":")
        row = VERBS.get(verb)
        changes = row.fault(target, Timing()).settings if row and row.takes(target) else {}
        settings = replace(
            settings,
            **{each: _weaker(settings, each, value, name in scheduled) for each, value in changes.items()},
        )
    return settings


def _weaker(settings: Settings, name: str, value: Any, scheduled: bool) -> Any:
    now = getattr(settings, name)
    if name in LARGER_IS_WEAKER:
        return max(now, EVERY_NODE if scheduled else value)
    if isinstance(now, Mapping):
        return {**now, **value}
    return min(now, value) if type(now) is int else value


def rotations(chosen: Sequence[Fault], schedule: Sequence[Entry] = ()) -> list[list[Fault]]:
    """Returns the faults that are not in the schedule, in groups. The faults in a group take turns.

    All faults on nodes form one group. Each of the other faults is a group of its own.
    """
    scheduled = {entry.fault for entry in schedule}
    free = [fault for fault in chosen if fault.name not in scheduled]
    turns = [fault for fault in free if fault.takes_turns]
    return [*([turns] if turns else []), *([fault] for fault in free if not fault.takes_turns)]


def _taking_turns(faults: Sequence[Fault], timing: Timing) -> Generator:
    """Returns the generator of a group of faults that take turns, in the order of an upgrade if there is one."""
    steps = upgrade_course.of_group(faults, timing)
    return in_turns(faults) if steps is None else ForNemesis(steps, frozenset(fault.name for fault in faults))


def under_load(
    chosen: Sequence[Fault], schedule: Sequence[Entry] = (), timing: Timing | None = None
) -> Generator | None:
    """Returns the generator of all fault ops during the load; None if there are no faults.

    Faults in the schedule start as it says. All other faults have the default timing, in the groups that `rotations`
    returns.

    timing  the default timing, for the steps of an upgrade
    """
    by_name = {fault.name: fault for fault in chosen}
    rhythms = [Rhythm(entry, by_name[entry.fault], n) for n, entry in enumerate(schedule)]
    groups = rotations(chosen, schedule)
    generators = [*(_taking_turns(faults, timing or Timing()) for faults in groups), *rhythms]
    return any_(*generators) if generators else None


def teardown(chosen: Sequence[Fault], env: Env) -> None:
    """Undoes every fault that is still in effect. Called at the end of each run, also of one that failed.

    Errors are ignored: if a fault cannot be undone, its effect disappears with the cluster.
    """
    for fault in chosen:
        with contextlib.suppress(HarnessError, OSError):
            fault.nemesis.teardown(env)


def healing(chosen: Sequence[Fault], at_most_s: float) -> Generator:
    """Returns the generator that undoes every fault, and then waits up to `at_most_s` seconds for a healthy cluster.

    The history always contains an op for the wait.
    """
    last = patient(Op(-1, -1, NEMESIS, INFO, "heal", None, None, {"span": ""}), healthy_s=at_most_s)
    return Then((*(fault.final for fault in chosen), ForNemesis(Once(last))))


def mark(f: str) -> Generator:
    """Returns the generator of a single op `f` without effect. It marks in the history that the run has come so far."""
    return ForNemesis(Once(Op(-1, -1, NEMESIS, INFO, f, None, None, {"span": ""})))


def settling(clients: int, transaction_timeout_s: float) -> Generator:
    """Returns the generator of the op that looks whether the healed cluster settles.

    clients                number of clients
    transaction_timeout_s  after which coordinators abort the transactions of clients that are gone
    """
    value = {"clients": clients, "transaction_timeout_s": transaction_timeout_s}
    return ForNemesis(Once(Op(-1, -1, NEMESIS, INFO, SETTLE, value, None, {"span": ""})))


def settling_group(session_timeout_s: float) -> Generator:
    """Returns the generator of the op that looks, after the final polls, whether the consumer group settles.

    session_timeout_s  after which coordinators remove members that are gone
    """
    value = {"session_timeout_s": session_timeout_s}
    return ForNemesis(Once(Op(-1, -1, NEMESIS, INFO, SETTLE_GROUP, value, None, {"span": ""})))


def _again(chosen: Sequence[Fault], mended: Fault) -> None:
    """Applies the faults again that are still on, but were undone together with the fault `mended`."""
    shared = [need for need in mended.needs if need in MENDED_TOGETHER]
    others = [fault for fault in chosen if fault is not mended and set(shared) & set(fault.needs)]
    for fault in others:
        if isinstance(fault.nemesis, BrokenNodes):
            fault.nemesis.again()


def _from_point(fault: Fault, env: Env, op: Op) -> Op:
    """Executes an op of a fault. If a trigger started it, the value tells the trigger, and the delay from its point.

    If the wire proxy holds a frame until the fault has started, the frame is then forwarded.
    """
    why: dict[str, Any] = op.value if isinstance(op.value, dict) and op.value.get("trigger") else {}
    if not why:
        return fault.nemesis.invoke(env, op)
    env = replace(env, point_s=why.get("point_s"))
    late = after_point(env)
    try:
        done = fault.nemesis.invoke(env, op)
    finally:
        if why.get("holds") and offers(env.cluster, Wire):
            env.cluster.clear_rules(why["holds"])
    return done.with_(value={**late, **done.value, "trigger": why["trigger"]})


def invoke(chosen: Sequence[Fault], env: Env, op: Op) -> Op:
    """Executes a nemesis op: an op of one of the faults, the wait for a healthy cluster, or a mark (see `mark`).

    Returns the completed op.
    """
    if op.f in MARKS:
        return op
    if op.f == SETTLE:
        asked = op.value or {}
        return op.with_(value={**asked, **settle(env, within_s(asked.get("transaction_timeout_s", 0.0)))})
    if op.f == SETTLE_GROUP:
        return op.with_(value={**op.value, **settle_group(env, group_within_s(op.value["session_timeout_s"]))})
    if op.f == "heal":
        still, started = heal(patience(env, op))
        value: dict[str, Any] = {"started": started} if started else {}
        for fault in chosen:
            if isinstance(fault.nemesis, Changed):
                value |= fault.nemesis.healed(env)
        return op.with_(value={**value, **({"unhealthy": still} if still else {})}, error=still or None)
    for fault in chosen:
        if fault.name == op.extra.get("fault"):
            done = _from_point(fault, patience(env, op), op)
            if op.extra.get("span") == "stop":
                _again(chosen, fault)
            return done
    raise BadInput(f"nemesis op does not belong to any fault of this run: {op.f} {dict(op.extra)}")
