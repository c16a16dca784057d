"""The page reference/options.md, from the command line's commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from docs.generate.markdown import NOTE, cell
from harness.cli import app as command_line


def _plain(text: str | None) -> str:
    """Help text without the terminal's markup."""
    return re.sub(r"\[/?bold\]", "", text or "").strip()


def _default(parameter: Any) -> str:
    """The default of an option as a user would type it; empty where the help text names it, or there is none."""
    value = parameter.default
    if value is None or callable(value) or "[default:" in (parameter.help or "") or value in ("", (), [], {}):
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{','.join(map(str, value)) if isinstance(value, tuple | list) else value}`"


def _option(parameter: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts] if parameter.param_type_name == "option" else [parameter.name]
    shown = ", ".join(f"`{name if name.startswith('-') else name.upper()}`" for name in names)
    return f"| {shown} | {_default(parameter)} | {cell(_plain(parameter.help))} |"


def _command(path: str, command: Any) -> list[str]:
    """The section of one command: what it does, and its options by panel."""
    about = _plain(command.help).partition("Examples")[0].strip()
    lines = [f"## {path}", "", *(" ".join(part.split()) + "\n" for part in about.split("\n\n") if part)]
    panels: dict[str, list[str]] = {}
    for parameter in command.params:
        if not getattr(parameter, "hidden", False) and parameter.name != "help":
            panels.setdefault(getattr(parameter, "rich_help_panel", None) or "", []).append(_option(parameter))
    for panel in sorted(panels, key=lambda name: name == ""):
        title = panel or ("Other options" if len(panels) > 1 else "")
        if title:
            lines += [f"### {title}", ""]
        lines += ["| option | default | meaning |", "| --- | --- | --- |", *panels[panel], ""]
    return lines


def _commands(path: str, group: Any) -> Iterator[tuple[str, Any]]:
    """Every command below a group, with its name in full."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(f"{path} {name}", command)
        else:
            yield f"{path} {name}", command


def page() -> str:
    """The page reference/options.md."""
    lines = [
        "# Commands and options",
        "",
        NOTE,
        "",
        "Options of `harness run` that describe the test are also fields of a plan file; `runs/latest/plan.yaml` lists",
        "them all.",
        "`harness COMMAND --help` prints the same with examples.",
        "",
    ]
    for path, command in _commands("harness", typer.main.get_command(command_line.app)):
        lines += _command(path, command)
    return "\n".join(lines).rstrip() + "\n"
