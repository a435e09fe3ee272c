"""The record that a verb asks: how it is opened, and times and spans on the command line."""

import time
from typing import TYPE_CHECKING

import click

from dra_operator.cli.kubectl.requests import ReadingError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from dra_operator.history.reader import Reader

INSTALL = "a record needs SQLAlchemy: pip install 'dra-operator[history]', and [postgres] for PostgreSQL"


def open_record(url: str, *, create: bool = False) -> "Engine":
    """Return the engine of a store. Raises ReadingError."""
    try:
        from dra_operator.history.schema import StoreError, open_store
    except ModuleNotFoundError as error:
        raise ReadingError(f"{INSTALL} ({error})") from error
    try:
        return open_store(url, create=create)
    except StoreError as error:
        raise ReadingError(str(error)) from error


def read_record(url: str) -> "Reader":
    """Return what reads a store. Raises ReadingError."""
    engine = open_record(url)
    from dra_operator.history.reader import Reader
    from dra_operator.history.schema import StoreError

    try:
        return Reader(engine)
    except StoreError as error:
        raise ReadingError(str(error)) from error


def read_span(text: str) -> int:
    """Return the microseconds of a duration as `7d`. Raises BadParameter."""
    from dra_operator.history.reader import parse_duration

    if (found := parse_duration(text)) is None:
        raise click.BadParameter(f"{text!r} is no duration: write 90s, 30m, 6h, 7d or 2w")
    return found


def read_time(text: str) -> int:
    """Return a time in microseconds since 1970. Raises BadParameter."""
    from dra_operator.history.reader import parse_time

    if (found := parse_time(text, round(time.time() * 1_000_000))) is None:
        raise click.BadParameter(
            f"{text!r} is no time: write it as 2026-05-01T15:00:00Z, or how long ago it is: 90s, 30m, 6h, 7d"
        )
    return found
