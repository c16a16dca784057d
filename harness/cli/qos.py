"""`harness qos`: input against output, live."""

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

from harness.cli.options import SparkMaster
from harness.model.errors import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, BadInput, ClusterTrouble

if TYPE_CHECKING:
    from checker.qos.query import Live, Until
    from checker.qos.settings import Settings

EXITS = {"valid": EXIT_VALID, "invalid": EXIT_INVALID, "unknown": EXIT_UNKNOWN}
WHERE, WHAT, WHEN = "Where", "What is compared", "When it ends"


def qos(
    input_: Annotated[str, typer.Option("--input", rich_help_panel=WHERE, help="Topics, with commas.")],
    output: Annotated[
        str,
        typer.Option(
            rich_help_panel=WHERE,
            help="Topics, with commas, or a folder of Parquet files: what holds a / is a folder.",
        ),
    ],
    bootstrap: Annotated[str, typer.Option(rich_help_panel=WHERE, help="Brokers, host:port,...")],
    client_config: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=WHERE,
            help="A file of properties of Kafka's Java client, key=value; ${NAME} is of the environment.",
        ),
    ] = None,
    start: Annotated[
        str, typer.Option("--from", rich_help_panel=WHERE, help="Without a checkpoint: earliest or latest.")
    ] = "earliest",
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=WHERE, help="A folder that a later start goes on from. [default: a temporary one]"
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            min=0,
            max=65535,
            rich_help_panel=WHERE,
            help="Port of 127.0.0.1 for the page; 0: any free one.",
        ),
    ] = 0,
    window: Annotated[
        str, typer.Option(rich_help_panel=WHAT, help="Length of a window of the input's event time.")
    ] = "60s",
    padding: Annotated[
        str, typer.Option(rich_help_panel=WHAT, help="How long after its window an output may come.")
    ] = "30s",
    input_key: Annotated[
        str | None,
        typer.Option(rich_help_panel=WHAT, help="Spark SQL over key, value, headers, ...: an input's id."),
    ] = None,
    output_key: Annotated[
        str | None,
        typer.Option(rich_help_panel=WHAT, help="The same of an output: the id of the input it was made of."),
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option(rich_help_panel=WHAT, help="Outputs of an input: SQL, over id, too. [default: 1]"),
    ] = None,
    output_part: Annotated[
        str | None,
        typer.Option(rich_help_panel=WHAT, help="Where there are several: which an output is, from 0."),
    ] = None,
    pipeline: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=WHAT,
            help="Ids and numbers of outputs as our pipeline writes them, by its transform: identity, "
            "fan-out, filter or aggregate.",
        ),
    ] = None,
    time: Annotated[
        str, typer.Option(rich_help_panel=WHAT, help="Event time: a timestamp, or milliseconds.")
    ] = "timestamp",
    output_time: Annotated[
        str,
        typer.Option(rich_help_panel=WHAT, help="The same of an output; of a file's row, when it was written."),
    ] = "timestamp",
    until_idle: Annotated[
        str | None, typer.Option(rich_help_panel=WHEN, help="End when no record came for so long.")
    ] = None,
    for_: Annotated[
        str | None, typer.Option("--for", rich_help_panel=WHEN, help="End after so long. [default: Ctrl-C]")
    ] = None,
    patience: Annotated[
        str, typer.Option(rich_help_panel=WHEN, help="Give up when the brokers are away for so long.")
    ] = "10m",
    every: Annotated[str, typer.Option(rich_help_panel=WHEN, help="How often to look.")] = "5s",
    spark_master: SparkMaster = "local[2]",
) -> int:
    """Compare input with output while both grow: per window in, out, missing, duplicate, late.

    Works on any topics. Exit code 0: nothing is missing or twice; 1: something is; 2: not everything could be
    compared.

    [bold]Examples[/bold]

      harness qos --input orders --output invoices --bootstrap localhost:9092 --checkpoint qos/orders

      harness qos --input a --output b --bootstrap localhost:9092 --input-key "get_json_object(cast(value as
      string), '$.id')" --until-idle 60s
    """
    from checker.qos import settings as given

    ours = given.defaults(pipeline, in_files="/" in output)
    asked = given.Settings(
        inputs=given.topics("--input", input_),
        outputs=() if "/" in output else given.topics("--output", output),
        folder=str(_folder(output)) if "/" in output else "",
        bootstrap=bootstrap,
        window_ms=given.duration_ms("--window", window),
        padding_ms=given.duration_ms("--padding", padding),
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
        raise BadInput(f"--from {start}: earliest or latest")
    if both := sorted(set(asked.inputs) & set(asked.outputs)):
        raise BadInput(f"--input and --output both name {both[0]}: they must be different topics")
    until = _until(until_idle, for_, patience, every)
    with _kept(checkpoint) as folder:
        return _compare(asked, folder, until, port, spark_master, checkpoint is not None)


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise BadInput(f"--output {text}: no such folder; a topic's name holds no /")
    return path.absolute()


def _properties(path: Path | None) -> dict[str, str]:
    from harness.clients.java import properties

    return properties.load(path) if path else {}


def _until(idle: str | None, limit: str | None, patience: str, every: str) -> Until:
    from checker.qos.query import Until
    from checker.qos.settings import duration_ms

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


def _compare(asked: Settings, folder: Path, until: Until, port: int, master: str, stays: bool) -> int:
    """Run it, and say what came of it."""
    from checker.qos import checkpoint_store, query, window_state
    from harness.cli import qos_text
    from harness.run import spark
    from harness.web import qos_page, server

    trouble: ClusterTrouble | None = None
    held = checkpoint_store.opened(folder, asked)
    try:
        session = spark.streaming(master, query.SPARK, _note)
        live = query.Live(session, asked, held, lambda told: print(qos_text.line(told), flush=True))
        live.check()
        with server.listening(qos_page.QosSite(lambda: qos_text.shown(live)), port, _note) as served:
            threading.Thread(target=served.serve_forever, name="page", daemon=True).start()
            _note(f"{', '.join(asked.inputs)} against {asked.folder or ', '.join(asked.outputs)}: "
                  f"http://{server.ADDRESS}:{served.port}/   Ctrl-C ends it")  # fmt: skip
            if live.book.batch >= 0:
                _note(f"going on from batch {live.book.batch} of {folder}")
            try:
                _follow(live, until)
            except ClusterTrouble as error:
                trouble = error
            served.shutdown()
    finally:
        held.close()
    said, why = window_state.verdict(live.book)
    if trouble is not None and said != "invalid":
        raise trouble
    print(qos_text.summary(live.book.totals, live.book.pending), flush=True)
    print(f"{said}{': ' if why else ''}{'; '.join(why)}", flush=True)
    if trouble is not None:
        _note(f"{trouble}; what was found until then stands")
    if stays:
        print(f"windows: {folder / checkpoint_store.WINDOWS}", flush=True)
    return EXITS[said]


def _follow(live: Live, until: Until) -> None:
    """Follow until the end. A signal is an ordinary one: what it leaves open, a later start goes on with."""
    signalled: list[int] = []

    def asked_to_end(number: int, frame: Any) -> None:
        signalled.append(number)
        live.ended.set()

    before = {number: signal.signal(number, asked_to_end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        live.follow(until, _note)
        live.drain(idle=until.idle_s is not None and not signalled)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
