"""Checks that a schedule fits the cluster and the load."""

from __future__ import annotations

from collections.abc import Sequence

from harness.model.errors_and_exit_codes import BadInput
from harness.plan.schedule import Line, entries
from harness.plan.test_plan import TestPlan
from harness.yaml_data import Where
from nemesis import table as nemeses
from nemesis.schedule.entry import TXN_OPEN, problems
from nemesis.schedule.timing import Timing


def checked(
    plan: TestPlan, nodes: Sequence[str], listed: Sequence[str] = (), where: Where | None = None
) -> tuple[Line, ...]:
    """Returns the schedule with canonical names of faults. Raises BadInput, with one line for each mistake.

    nodes   names of the cluster's nodes
    listed  canonical names of the faults of --nemesis
    where   called as where(keys, value). `keys` are the keys that lead to an option, from the outermost on. Returns the
            file:line:column of the last key or, if `value` is true, of its value; "" if it does not come from a file
    """

    def at(n: int, *keys: str) -> str:
        place = where(("schedule", n, *keys), bool(keys)) if where else ""
        return place or f"schedule, entry {n + 1}"

    fitting, wrong = [], []
    for n, line in enumerate(plan.schedule):
        try:
            names = nemeses.canonical(line.fault, nodes)
        except BadInput as error:
            wrong.append(f"{at(n, 'fault')}: {str(error).removeprefix('--nemesis ')}")
            continue
        if len(names) != 1:
            wrong.append(f"{at(n, 'fault')}: name exactly one fault per entry")
        elif names[0] in listed:
            wrong.append(f"{at(n, 'fault')}: {names[0]} is in --nemesis too; remove it from --nemesis or the schedule")
        else:
            wrong += [f"{at(n, *keys)}: {text}" for keys, text in _unfit_trigger(line, nodes, plan.txn, plan.proxy)]
            fitting.append(line.model_copy(update={"fault": names[0]}))
    if not wrong:
        chosen = tuple(dict.fromkeys(line.fault for line in fitting))
        faults = {fault.name: fault for fault in nemeses.faults(chosen, Timing())}
        wrong = [
            f"{at(problem.entry, problem.key)}: {problem.key}: {problem.text}"
            for problem in problems(entries(fitting), faults, plan.time_limit_s)
        ]
    if wrong:
        raise BadInput("\n".join(wrong))
    return tuple(fitting)


def _unfit_trigger(line: Line, nodes: Sequence[str], txn: bool, proxy: str) -> list[tuple[tuple[str, ...], str]]:
    """Returns the conflicts of an entry's trigger with the cluster or the load.

    A conflict is (keys that lead to the wrong value, message).
    """
    when = line.when
    if when is not None and when.node is not None and when.node not in nodes:
        return [(("when", "node"), f"there is no node {when.node!r}: the nodes are {', '.join(nodes)}")]
    if when is not None and "sender=brokers" in (when.wire or "") and proxy != "everybody":
        return [(("when", "wire"), "needs --proxy everybody: requests between brokers do not pass the proxy")]
    if when is not None and when.txn_open is not None and not txn:
        return [(("when", TXN_OPEN), "needs --txn: without it there are no transactions")]
    return []
