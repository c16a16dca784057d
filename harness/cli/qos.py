"""The `harness qos` command, which compares the input and output of a pipeline live."""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.output import VERDICT_EXIT
from harness.cli.parameters import SparkMaster
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble

if TYPE_CHECKING:
    from checker.qos.comparison_settings import Settings
    from checker.qos.query import Live, Until

WHERE, WHAT, WHEN = "Where", "What is compared", "When it ends"

Input = Annotated[str, typer.Option("--input", rich_help_panel=WHERE, help="Input topics, separated by commas.")]
Output = Annotated[
    str,
    typer.Option(
        rich_help_panel=WHERE,
        help="Output topics, separated by commas, or a folder of Parquet files. A value with a / is a folder.",
    ),
]
Bootstrap = Annotated[str, typer.Option(rich_help_panel=WHERE, help="Bootstrap servers, host:port,...")]
ClientConfig = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=WHERE,
        help="A properties file for Kafka's Java client, key=value; ${NAME} is replaced from the environment.",
    ),
]
Start = Annotated[
    str,
    typer.Option(
        "--from", rich_help_panel=WHERE, help="Where to start without a stored checkpoint: earliest or latest."
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=WHERE,
        help="Folder for checkpoints, from which a later start resumes. [default: a temporary folder]",
    ),
]
Port = Annotated[
    int,
    typer.Option(
        min=0,
        max=65535,
        rich_help_panel=WHERE,
        help="Port on 127.0.0.1 for the page; 0: any free port.",
    ),
]
Window = Annotated[str, typer.Option(rich_help_panel=WHAT, help="Length of a window of the input's event time.")]
Padding = Annotated[
    str,
    typer.Option(rich_help_panel=WHAT, help="How long after the end of its input's window an output may arrive."),
]
InputKey = Annotated[
    str | None,
    typer.Option(rich_help_panel=WHAT, help="Id of an input: Spark SQL over key, value, headers, ..."),
]
OutputKey = Annotated[
    str | None,
    typer.Option(rich_help_panel=WHAT, help="Id of the input that led to an output: Spark SQL over the output."),
]
Expect = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=WHAT,
        help="Expected number of outputs of an input: Spark SQL over the input's columns and id. [default: 1]",
    ),
]
OutputPart = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=WHAT,
        help="If an input has several outputs, the index of an output, from 0: Spark SQL over the output.",
    ),
]
Pipeline = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=WHAT,
        help="For the harness's own pipeline: its transform (identity, fan-out, filter or aggregate). Sets how ids and "
        "output numbers are read.",
    ),
]
Time = Annotated[
    str,
    typer.Option(rich_help_panel=WHAT, help="Event time of an input: Spark SQL for a timestamp or for milliseconds."),
]
OutputTime = Annotated[
    str,
    typer.Option(
        rich_help_panel=WHAT,
        help="Event time of an output, in the same form as --time. For Parquet files without a column `timestamp`, "
        "`timestamp` is the time at which the file was last written.",
    ),
]
UntilIdle = Annotated[
    str | None, typer.Option(rich_help_panel=WHEN, help="End when no record has arrived for this long.")
]
ForLength = Annotated[
    str | None, typer.Option("--for", rich_help_panel=WHEN, help="End after this time. [default: at Ctrl-C]")
]
Patience = Annotated[
    str, typer.Option(rich_help_panel=WHEN, help="Give up when the brokers are unreachable for this long.")
]
Every = Annotated[str, typer.Option(rich_help_panel=WHEN, help="Time between two batches.")]


def qos(
    input_: Input,
    output: Output,
    bootstrap: Bootstrap,
    client_config: ClientConfig = None,
    start: Start = "earliest",
    checkpoint: Checkpoint = None,
    port: Port = 0,
    window: Window = "60s",
    padding: Padding = "30s",
    input_key: InputKey = None,
    output_key: OutputKey = None,
    expect: Expect = None,
    output_part: OutputPart = None,
    pipeline: Pipeline = None,
    time: Time = "timestamp",
    output_time: OutputTime = "timestamp",
    until_idle: UntilIdle = None,
    for_: ForLength = None,
    patience: Patience = "10m",
    every: Every = "5s",
    spark_master: SparkMaster = "local[2]",
) -> int:
    """Compare the input and output of a running pipeline: count missing, duplicate and late records in windows of time.

    Works on any topics. Exit code 0: no record is missing or duplicated; 1: some are; 2: not everything could be
    compared.

    [bold]Examples[/bold]

      harness qos --input orders --output invoices --bootstrap localhost:9092 --checkpoint qos/orders

      harness qos --input a --output b --bootstrap localhost:9092 --input-key "get_json_object(cast(value as
      string), '$.id')" --until-idle 60s
    """
    from checker.qos.comparison_settings import Settings, defaults, duration_ms, topics

    ours = defaults(pipeline, in_files="/" in output)
    settings = Settings(
        inputs=topics("--input", input_),
        outputs=() if "/" in output else topics("--output", output),
        folder=str(_folder(output)) if "/" in output else "",
        bootstrap=bootstrap,
        window_ms=duration_ms("--window", window),
        padding_ms=duration_ms("--padding", padding),
        input_key=input_key or ours.input_key,
        output_key=output_key or ours.output_key,
        expect=expect or ours.expect,
        part=output_part or ours.part,
        time=time,
        output_time=output_time,
        start=start,
        kafka=_properties(client_config),
    )
    if start not in ("earliest", "latest"):
        raise BadInput(f"--from {start}: must be earliest or latest")
    if both := sorted(set(settings.inputs) & set(settings.outputs)):
        raise BadInput(f"--input and --output both name {both[0]}: they must be different topics")
    until = _until(until_idle, for_, patience, every)
    with _kept(checkpoint) as folder:
        return _compare(settings, folder, until, port, spark_master, checkpoint is not None)


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise BadInput(f"--output {text}: no such folder (a value with a / is a folder, not a topic)")
    return path.absolute()


def _properties(path: Path | None) -> dict[str, str]:
    from harness.clients.java import connection_file

    return connection_file.load(path) if path else {}


def _until(idle: str | None, limit: str | None, patience: str, every: str) -> Until:
    from checker.qos.comparison_settings import duration_ms
    from checker.qos.query import Until

    return Until(
        idle_s=duration_ms("--until-idle", idle) / 1000 if idle else None,
        for_s=duration_ms("--for", limit) / 1000 if limit else None,
        patience_s=duration_ms("--patience", patience) / 1000,
        every_s=duration_ms("--every", every) / 1000,
    )


@contextlib.contextmanager
def _kept(checkpoint: Path | None) -> Iterator[Path]:
    if checkpoint is not None:
        yield checkpoint
        return
    folder = Path(tempfile.mkdtemp(prefix="harness-qos-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _note(text: str) -> None:
    print(f"harness: {text}", file=sys.stderr, flush=True)


def _compare(settings: Settings, folder: Path, until: Until, port: int, master: str, checkpoint_given: bool) -> int:
    """Runs the comparison, prints the result, and returns the exit code."""
    from checker.qos import checkpoint_store, query, window_state
    from harness.cli import qos_text
    from harness.run import spark
    from harness.web import qos_page, server

    trouble: ClusterTrouble | None = None
    stored = checkpoint_store.opened(folder, settings)
    try:
        session = spark.streaming(master, query.SPARK, _note)
        live = query.Live(session, settings, stored, lambda closed: print(qos_text.line(closed), flush=True))
        live.check()
        with server.listening(qos_page.QosSite(lambda: qos_text.shown(live)), port, _note) as served:
            threading.Thread(target=served.serve_forever, name="page", daemon=True).start()
            _note(
                f"{', '.join(settings.inputs)} against {settings.folder or ', '.join(settings.outputs)}: "
                f"http://{server.ADDRESS}:{served.port}/   (Ctrl-C to stop)"
            )
            if live.book.batch >= 0:
                _note(f"resuming from batch {live.book.batch} of {folder}")
            try:
                _follow(live, until)
            except ClusterTrouble as error:
                trouble = error
            served.shutdown()
    finally:
        stored.close()
    verdict, why = window_state.verdict(live.book)
    if trouble is not None and verdict != "invalid":
        raise trouble
    print(qos_text.summary(live.book.totals, live.book.pending), flush=True)
    print(f"{verdict}{': ' if why else ''}{'; '.join(why)}", flush=True)
    if trouble is not None:
        _note(f"{trouble}; the results until then remain valid")
    if checkpoint_given:
        print(f"windows: {folder / checkpoint_store.WINDOWS}", flush=True)
    return VERDICT_EXIT[verdict]


def _follow(live: Live, until: Until) -> None:
    """Compares until one of the end conditions of `until` is met, or SIGINT or SIGTERM arrives.

    After a signal the results are kept, and the next start of the command continues with the open windows.
    """
    signalled: list[int] = []

    def end(number: int, frame: Any) -> None:
        signalled.append(number)
        live.ended.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        live.follow(until, _note)
        live.drain(idle=until.idle_s is not None and not signalled)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
