"""The commands `harness check`, `import`, `export` and `upload` for stored histories, including Jepsen's."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.output import VERDICT_EXIT, say
from harness.cli.parameters import AUTO_MASTER, RunsDir, SparkMaster, given
from harness.model.check_result import Verdict, worst
from harness.model.errors_and_exit_codes import EXIT_VALID, BadInput
from harness.stored.staged_runs import with_uris

if TYPE_CHECKING:
    from checker.tables.remote_run import RemoteRun
    from harness.model.check_options import CheckOptions
    from harness.report.plots.second_process import SecondProcess


def _some_of(option: str, text: str, known: Sequence[str]) -> frozenset[str]:
    """Returns the names in a comma-separated option. Raises BadInput if a name is not in `known`."""
    names = frozenset(part.strip() for part in text.split(","))
    if not names <= set(known):
        raise BadInput(f"{option} {text}: must be one or more of {', '.join(known)}, separated by commas")
    return names


def check(
    ctx: typer.Context,
    histories: Annotated[
        list[str], typer.Argument(help="Runs, also by URI; Parquet folders; or files: .jsonl, .edn, plain or gzipped.")
    ],
    jepsen_compatible: Annotated[bool, typer.Option(help="Apply exactly the rules of Jepsen's checker.")] = False,
    ww_deps: Annotated[bool, typer.Option(help="Derive the order of writes from their offsets.")] = True,
    sub_via: Annotated[
        str | None, typer.Option(help="How the clients subscribed: assign, subscribe, or assign,subscribe.")
    ] = None,
    edges: Annotated[
        str | None,
        typer.Option(help="Edges to use in the search for cycles, comma-separated: ww, wr, rw, process, realtime."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON for each history.")] = False,
    spark_master: SparkMaster = AUTO_MASTER,
    runs: RunsDir = Path("runs"),
) -> int:
    """Check stored histories again, without a cluster. A truncated history is checked up to its last complete line."""
    from checker.spark.executors import is_cluster
    from harness.history_writer import is_run
    from harness.model.check_options import EDGES
    from harness.report.plots import second_process
    from harness.run.histories import find
    from harness.run.histories import options as options_of
    from harness.stored import staged_runs

    options_given = given(ctx)
    changed = {"jepsen_compatible", "ww_deps"} & options_given.keys()
    changes: dict[str, Any] = {name: options_given[name] for name in changed}
    if edges is not None:
        changes["edges"] = _some_of("--edges", edges, EDGES)
    if sub_via is not None:
        changes["sub_via"] = _some_of("--sub-via", sub_via, ("assign", "subscribe"))
    cluster = is_cluster(spark_master)
    paths = [find(runs, name, staged_runs.beside_tasks if cluster else staged_runs.judged) for name in histories]
    items = [(path, options_of(path, changes)) for path in paths]
    with (
        second_process.for_runs([] if as_json else list(filter(is_run, paths))) as second,
        staged_runs.for_tasks(paths if cluster else ()) as stored,
    ):
        return _check(items, spark_master, as_json, second, stored)


def _check(
    items: Sequence[tuple[Path, CheckOptions]],
    spark_master: str,
    as_json: bool,
    second: SecondProcess | None,
    stored: Mapping[Path, RemoteRun],
) -> int:
    """Checks histories, each under its own options, and prints the results. Returns the exit code.

    stored  path of the local copy of a run -> the run in its object store; only runs that Spark's tasks on a cluster
            read and write in the store
    """
    from harness.history_writer import is_run
    from harness.report.text import summary
    from harness.run import check_and_draw, choose_spark
    from harness.run.histories import judge, line
    from harness.stored import staged_runs

    session, why = choose_spark.session_for(spark_master, items)
    if why:
        print(why, file=sys.stderr if as_json else sys.stdout, flush=True)
    verdicts: list[Verdict] = []
    for path, result, wrong in judge(items, session, (lambda text: None) if as_json else say, stored):
        verdicts.append(result.valid)
        if wrong:  # the other histories are still checked
            print(f"harness: {with_uris(wrong)}", file=sys.stderr)
        if as_json:
            say(json.dumps(line(path, result), default=str))
        elif not wrong:
            drawn = path not in stored or staged_runs.fetch_for_pages(path, stored[path])
            say(summary.summary(path, result))
            if not drawn:
                say("no plots and no page: the tables are large; `harness page` draws them from a copy of the run")
            elif is_run(path):
                check_and_draw.draw(path, say, second=second)
        if (written := staged_runs.publish(path, stored.get(path))) is not None:
            print(f"harness: {written}", file=sys.stderr)
    return VERDICT_EXIT[worst(*verdicts)]


def import_(
    history: Annotated[Path, typer.Argument(help="A history.edn or history.jsonl, plain or gzipped.")],
    runs: RunsDir = Path("runs"),
) -> int:
    """Create a run folder from a history of another tool, so that it can be checked, shown and listed."""
    from harness.run import histories

    folder = histories.import_(history, runs, say)
    say(f"next: harness check {folder}")
    return EXIT_VALID


def export(
    name: Annotated[
        str, typer.Argument(help="Run folder, run id, unambiguous prefix of an id, or latest; or a history file.")
    ],
    form: Annotated[str, typer.Option("--format", help="Format of the output: edn, jsonl or parquet.")] = "edn",
    out: Annotated[
        Path | None, typer.Option(help="Output path; gzipped if it ends in .gz. [default: NAME.FORMAT]")
    ] = None,
    runs: RunsDir = Path("runs"),
) -> int:
    """Write a history as Jepsen's EDN, one JSON-lines file, or a Parquet folder. `harness check` reads all three."""
    from harness.run import histories

    histories.export(histories.find(runs, name), form, out, say)
    return EXIT_VALID


def upload(
    name: Annotated[str, typer.Argument(help="Run folder, run id, unambiguous prefix of an id, or latest.")],
    uri: Annotated[
        str, typer.Argument(help="URI of the folder of runs, such as s3://bucket/runs, or of the run in it.")
    ],
    runs: RunsDir = Path("runs"),
) -> int:
    """Copy a run to an object store. Files that are there already are not copied again, so it may be repeated.

    [bold]Examples[/bold]

      harness upload latest s3://bucket/runs

      harness check s3://bucket/runs/20261121T180956-kill-leader
    """
    from harness.run import uploads

    uploads.upload(runs, name, uri, say)
    return EXIT_VALID
