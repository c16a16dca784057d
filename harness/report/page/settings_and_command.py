"""The settings of a run that differ from the defaults, and the command that repeats the run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.model.errors_and_exit_codes import BadInput
from harness.model.values_as_text import plain
from harness.plan import make_plan
from harness.plan.test_plan import option_name

# Fields that are different for every run. The seed is not a setting, but the command needs it.
OWN: Final = frozenset({"schema", "run", "started", "versions", "git_commit"})


@dataclass(frozen=True, slots=True)
class Setting:
    """An option that differs from its default. The value and the default are text."""

    option: str
    value: str
    default: str


def defaults() -> dict[str, Any]:
    """Returns the default plan, in the format of plan.yaml."""
    return make_plan.make({"seed": 0}).model_dump(by_alias=True, mode="json")


def changed(plan: Mapping[str, Any]) -> list[Setting]:
    """Returns the options of a plan that differ from the defaults, and the seed as the last one."""
    default_plan = defaults()
    rows = [
        Setting(option_name(str(name)), _text(value), _text(default_plan.get(name)))
        for name, value in _settled(plan).items()
        if name not in OWN and name != "seed" and value != default_plan.get(name)
    ]
    return [*rows, *([Setting("--seed", _text(plan["seed"]), "random")] if "seed" in plan else [])]


def _settled(plan: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a plan of any version in the format of this version.

    A plan that this version rejects is returned unchanged.
    """
    try:
        return make_plan.make(plan).model_dump(by_alias=True, mode="json")
    except (BadInput, TypeError, AttributeError):
        return plan


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_text(one) for one in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{plain(name)}={_text(part)}" for name, part in value.items()) or "none"
    if value is None or value == "":
        return "not set"
    if isinstance(value, bool):
        return "on" if value else "off"
    return plain(f"{value:g}" if isinstance(value, float) else value)


def command(plan: Mapping[str, Any], folder: str) -> str:
    """Returns the command that repeats a run. For a history without a plan, returns the command that checks it again.

    folder  the run folder; if options cannot express the plan, the command uses the plan.yaml in this folder
    """
    if not plan:
        return shlex.join(["harness", "check", plain(folder)])
    default_plan = defaults()
    words = ["harness", "run"]
    settled = _settled(plan)
    for name, value in sorted(settled.items(), key=lambda item: item[0] == "seed"):
        if name in OWN or (name != "seed" and value == default_plan.get(name)):
            continue
        option_words = _words(str(name), value) if name in default_plan else None
        if option_words is None:
            return shlex.join(["harness", "run", "--plan", plain(f"{folder}/plan.yaml")])
        words += option_words
    return shlex.join(words)


def _words(name: str, value: Any) -> list[str] | None:
    """Returns a setting as words of a command line: the option and its value.

    Returns None if only a plan file can express the setting.
    """
    option = option_name(name)
    if name == "schedule" or value is None:
        return None
    if isinstance(value, bool):
        return [option] if value else [f"--no-{option[2:]}"]
    if isinstance(value, dict):
        return [word for part, one in value.items() for word in (option, plain(f"{part}={one}"))]
    if isinstance(value, list):
        return [option, ",".join(plain(one) for one in value)]
    return [option, plain(f"{value:g}" if isinstance(value, float) else value)]
