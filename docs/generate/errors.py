"""The page reference/errors.md, from the harness's errors and the table of client errors."""

from __future__ import annotations

from docs.generate.markdown import NOTE, opening, sentence
from harness.clients import error_outcomes as client_errors
from harness.model import errors_and_exit_codes as harness_errors


def _errors() -> list[str]:
    """The harness's own errors, each with its exit code."""
    rows = [
        error
        for error in vars(harness_errors).values()
        if isinstance(error, type) and issubclass(error, harness_errors.HarnessError)
    ]
    return [
        f"| `{error.__name__}` | {error.exit_code} | {sentence(opening(error))} |"
        for error in rows
        if error is not harness_errors.HarnessError
    ]


def _error(code: str, others: bool) -> str:
    return f"`{code}`" if code != client_errors.ANY else "any other" if others else "any"


def page() -> str:
    """The page reference/errors.md."""
    named = {situation for situation, code in client_errors.TABLE if code != client_errors.ANY}
    rows = [
        f"| {situation} | {_error(code, situation in named)} "
        f"| {row.outcome}{', with `--retries 0`' if row.retries_off else ''} | {row.why} | {row.source} |"
        for (situation, code), row in client_errors.TABLE.items()
    ]
    lines = [
        "# Exit codes and errors",
        "",
        NOTE,
        "",
        "## Exit codes",
        "",
        "| code | meaning |",
        "| --- | --- |",
        f"| {harness_errors.EXIT_VALID} | valid, or the command succeeded |",
        f"| {harness_errors.EXIT_INVALID} | invalid: an anomaly was found |",
        f"| {harness_errors.EXIT_UNKNOWN} | unknown: no anomaly was found, but the evidence is incomplete |",
        f"| {harness_errors.EXIT_BAD_INPUT} | bad arguments, or something that the command needs is missing |",
        f"| {harness_errors.EXIT_CRASH} | crash: a bug in the harness; `HARNESS_DEBUG=1` prints the traceback |",
        f"| {harness_errors.EXIT_INTERRUPTED} | interrupted |",
        "",
        "## Errors of the harness",
        "",
        "An error prints one message on standard error: what is wrong, where, and what to do.",
        "",
        "| error | exit code | meaning |",
        "| --- | --- | --- |",
        *_errors(),
        "",
        "## What a client error proves",
        "",
        "An operation completes as `fail` only if it is certain that the failed step appended nothing to any log. An",
        "error without a row completes as `info`: it may have appended something. If a row requires `--retries 0` and",
        "the run has retries, the operation completes as `info`. `harness/clients/queue.py` combines the steps of an",
        "operation; the table itself is in `harness/clients/error_outcomes.py`. Error names are librdkafka's; those",
        "with a leading underscore come from the library itself. Errors of [other clients](../use/clients.md) are",
        "translated to these names.",
        "",
        "The step `report` is the delivery report of a record, or its absence. The column `source` uses short names:",
        "`request` is librdkafka's `rdkafka_request.c`, `rdkafka.h` its doc comments, `introduction` its",
        "`INTRODUCTION.md`; `protocol` is the error table of the Kafka protocol guide; `aiokafka` is its source code.",
        "",
        "| step | error | proves | because | source |",
        "| --- | --- | --- | --- | --- |",
        *rows,
        "",
    ]
    return "\n".join(lines).rstrip() + "\n"
