"""Builds the options of `harness run` from the plan: one option for each field that has a help text.

A plan field that holds a Literal or a list of names becomes a text option. A field that holds a mapping becomes an
option with the value KEY=VALUE, which can be repeated.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_origin

import typer

from harness.plan.options import GROUPS
from harness.plan.test_plan import TestPlan, option_name

FAULTS: Final = "Faults"
CHECKING: Final = "Checking"


def options() -> Iterator[tuple[str, str, str]]:
    """Yields (field, help panel, help text) of every option."""
    for panel, group in GROUPS.items():
        for field, info in group.model_fields.items():
            if info.description is not None:
                yield field, panel, info.description


def _kind(annotation: Any) -> Any:
    """Returns the command-line option's type for a field with this annotation."""
    if annotation in (int, float, bool, str):
        return annotation
    if get_origin(annotation) is dict:
        return list[str]
    optional = [part for part in get_args(annotation) if part is not type(None)]
    if type(None) in get_args(annotation) and optional[0] in (int, float, bool):
        return optional[0]
    return str


def _parameter(field: str, panel: str, text: str) -> inspect.Parameter:
    info = TestPlan.model_fields[field]
    kind = _kind(info.annotation)
    value = info.get_default(call_default_factory=False)
    if field == "nemesis":
        value = "none"
    elif isinstance(value, tuple):
        value = ",".join(value)
    elif kind not in (int, float, bool, str) or not isinstance(value, kind):
        value = None
    name = option_name(field)
    flags = f"{name}/--no-{name[2:]}" if kind is bool and value is not False else name
    option = typer.Option(flags, help=text, rich_help_panel=panel, show_default=value is not None)
    annotation = kind if value is not None else kind | None
    return inspect.Parameter(
        field, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=Annotated[annotation, option]
    )


def with_options(command: Callable[..., int], fields: Collection[str] = ()) -> Callable[..., int]:
    """Gives a command options for fields of the plan, and returns the command.

    The options precede the command's own. The command receives their values as keyword arguments.

    fields  the fields for which options are added; empty: all fields
    """
    chosen = [_parameter(*row) for row in options() if not fields or row[0] in fields]
    own = [
        parameter
        for parameter in inspect.signature(command, eval_str=True).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    parameters = [*own[:1], *chosen, *own[1:]]
    command.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def given(ctx: typer.Context) -> dict[str, Any]:
    """Returns the options that the user gave; options that were left at their defaults are omitted."""
    return {
        name: value
        for name, value in ctx.params.items()
        if getattr(ctx.get_parameter_source(name), "name", "DEFAULT") != "DEFAULT"
    }


RunsDir = Annotated[Path, typer.Option("--runs", envvar="HARNESS_RUNS", help="Folder that holds the runs, or its URI.")]
SparkMaster = Annotated[
    str,
    typer.Option(
        "--spark-master",
        help="Spark master for the checker; none: check in this process, without Spark (pipelines need Spark); "
        "auto: start Spark only for histories that are large enough.",
        rich_help_panel=CHECKING,
    ),
]
AUTO_MASTER: Final = "auto"  # the value of `harness.run.spark.AUTO`
