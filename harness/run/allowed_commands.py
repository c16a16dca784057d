"""Decides which client programs a run may execute.

A plan file is only data: the commands in it are executed only if the user says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from harness.clients.exec import examples
from harness.clients.exec.command import PREFIX
from harness.model.errors_and_exit_codes import BadInput
from harness.plan.test_plan import TestPlan

ALLOW: str = "--allow-commands"


def commands_of(plan: TestPlan) -> list[str]:
    """Returns the client programs and the application in a plan, each written "exec:COMMAND".

    Leaves out the programs of examples/clients, which are part of the project.
    """
    clients = [client for client in dict.fromkeys(plan.client) if examples.is_foreign(client)]
    return clients if plan.app is None else [*clients, PREFIX + plan.app.command]


def refuse(plan: TestPlan, allowed: Collection[str]) -> None:
    """Raises BadInput if the plan has a client program that is not in `allowed`. The message shows its command."""
    for command in commands_of(plan):
        if command not in allowed:
            raise BadInput(
                f"the plan executes a command on this machine: {command.removeprefix(PREFIX)}\n"
                f"Read the command. To execute it, repeat with {ALLOW}"
            )


def announced(
    plan: TestPlan, typed: str, allow: bool, say: Callable[[str], None], app_given: bool = False
) -> list[str]:
    """Returns the client programs of the plan that may be executed.

    typed  value of --client on the command line: a program that the user typed there may be executed
    allow  whether the user allows all programs of the plan; they are then announced with `say`

    app_given  whether the user gave the file of the application, whose command may then be executed
    """
    commands = commands_of(plan)
    if not allow:
        named = [each.strip() for each in typed.split(",")]
        named += [PREFIX + plan.app.command] if app_given and plan.app is not None else []
        return [command for command in commands if command in named]
    for command in commands:
        say(f"executing {command.removeprefix(PREFIX)}")
    return commands
