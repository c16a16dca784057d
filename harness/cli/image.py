"""The `harness image` command, which builds container images for --cluster docker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.model.errors_and_exit_codes import EXIT_VALID
from harness.plan.test_plan import TestPlan

app = typer.Typer(no_args_is_help=True, help="Container images for --cluster docker.")


@app.callback()
def _image() -> None:
    """Container images for --cluster docker."""


@app.command()
def build(
    kafka_version: Annotated[
        str, typer.Option(help="Kafka version to download from Maven Central.")
    ] = TestPlan.model_fields["kafka_version"].default,
    jars: Annotated[Path | None, typer.Option(help="Folder with the jars of your own build of the broker.")] = None,
    tag: Annotated[
        str | None,
        typer.Option(help="Name of the image. [default: kafka-log-harness:VERSION, or :custom with --jars]"),
    ] = None,
) -> int:
    """Build an image from the broker's jars and this machine's Java, for engines without access to a registry.

    [bold]Examples[/bold]

      harness image build

      harness image build --kafka-version 3.9.1 --tag apache/kafka:3.9.1

      harness image build --jars ~/kafka/core/build/dependant-libs-2.13.16 --tag kafka:mine
    """
    from harness.cluster.docker import build_own_image

    made = build_own_image.build(kafka_version, jars, tag, lambda text: print(text, flush=True))
    print(f"{made.tag}: {made.size_bytes >> 20} MiB, {made.id[:19]}")
    return EXIT_VALID
