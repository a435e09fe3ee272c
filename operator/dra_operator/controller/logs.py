"""Logs: every line of the process through one pipeline, as JSON or coloured text.

structlog renders and the standard library transports, so that lines of Kopf, aiohttp and asyncio come out alike.
Kopf's own `kopf.configure()` is not called, since it installs a handler of its own; its loggers with a line for each
event or login are kept to warnings, and its attempts that it will repeat to the level `debug`.
"""

import logging
import sys
from typing import Any, TextIO

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

_QUIET = dict.fromkeys(
    ("kopf.objects", "kopf.activities", "kopf._core.engines.activities", "aiohttp.access", "kubernetes"),
    logging.WARNING,
)


_ATTEMPT = "Request attempt "
"""How Kopf's lines begin about its requests."""
_REPEATED = ("will retry", "will re-authenticate")
"""What stands in those about attempts that Kopf repeats."""


def get_logger() -> Any:
    """Return the operator's logger; it is bound when first used, so modules may ask for it on import."""
    return structlog.stdlib.get_logger("dra_operator")


def configure(form: str, level: str, stream: TextIO | None = None) -> None:
    """Send all logs to `stream` (default: stderr), from `level` on.

    `form` is `json`, `console` or `auto`, which is `console` at a terminal.
    """
    stream = stream or sys.stderr
    at_terminal = stream.isatty()
    if form == "auto":
        form = "console" if at_terminal else "json"
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    handler = logging.StreamHandler(stream)
    handler.addFilter(_without_attempts)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, _name_the_logger],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *(_json() if form == "json" else _console(at_terminal)),
            ],
        )
    )
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(max(least, root.level))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _without_attempts(record: logging.LogRecord) -> bool:
    """Return whether a line is to be shown: an attempt of Kopf's that it will repeat is for who debugs."""
    if not (record.name.startswith("kopf") and str(record.msg).startswith(_ATTEMPT)):
        return True
    if not any(text in record.getMessage() for text in _REPEATED):
        return True
    record.levelno, record.levelname = logging.DEBUG, "DEBUG"
    return logging.getLogger().isEnabledFor(logging.DEBUG)


def _name_the_logger(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Say which library a line comes from that is not ours, and which object Kopf writes about."""
    record = event.get("_record")
    if record is not None:
        event["logger"] = record.name
        if about := getattr(record, "k8s_ref", None):
            parts = (about.get("kind"), about.get("namespace"), about.get("name"))
            event["object"] = "/".join(filter(None, parts))
    return event


def _put_first(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Let each line begin with when, how grave and what, as people read it."""
    first = {name: event.pop(name) for name in ("timestamp", "level", "event") if name in event}
    return {**first, **event}


def _json() -> list[Processor]:
    return [
        structlog.processors.format_exc_info,
        _put_first,
        structlog.processors.JSONRenderer(serializer=_dumps),
    ]


def _console(colours: Any) -> list[Processor]:
    # Not the default traceback, which prints local variables and with them whatever secret they hold.
    plain = structlog.dev.plain_traceback
    return [
        structlog.dev.ConsoleRenderer(
            colors=bool(colours), sort_keys=False, pad_event_to=0, exception_formatter=plain
        )
    ]


def _dumps(event: Any, **_options: Any) -> str:
    return orjson.dumps(event, default=str).decode()
