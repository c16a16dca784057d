"""Which client programs a run may execute. A plan file is data: its commands are executed only if the user says so."""

from __future__ import annotations

from collections.abc import Callable, Collection

from harness.clients.exec.command import PREFIX
from harness.model.errors_and_exit_codes import BadInput
from harness.plan.test_plan import TestPlan

ALLOW: str = "--allow-commands"


def commands_of(plan: TestPlan) -> list[str]:
    """The client programs of a plan, as it names them: "exec:COMMAND"."""
    return [client for client in dict.fromkeys(plan.client) if client.startswith(PREFIX)]


def refuse(plan: TestPlan, allowed: Collection[str]) -> None:
    """Raises BadInput, with the command, for a client program that is not in `allowed`."""
    for command in commands_of(plan):
        if command not in allowed:
            raise BadInput(
                f"the plan executes a command on this machine: {command.removeprefix(PREFIX)}\n"
                f"Read it; if it is what you want, repeat with {ALLOW}"
            )


def announced(plan: TestPlan, typed: str, allow: bool, say: Callable[[str], None]) -> list[str]:
    """The client programs that a user allows: those typed as --client, and with `allow` all of the plan, which are
    printed first."""
    commands = commands_of(plan)
    if not allow:
        return [command for command in commands if command in [each.strip() for each in typed.split(",")]]
    for command in commands:
        say(f"executing {command.removeprefix(PREFIX)}")
    return commands
