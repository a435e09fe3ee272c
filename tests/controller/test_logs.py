"""Every line of the process through one pipe."""

import io
import json
import logging

import pytest

from dra_operator.controller import logs


@pytest.fixture
def stream(logging_is_put_back):
    """A stream that is no terminal."""
    return io.StringIO()


def lines(stream):
    """The JSON lines written so far."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_json_where_there_is_no_terminal(stream):
    """`auto` means JSON in a cluster."""
    logs.configure("auto", "info", stream)
    logs.get_logger().info("allocated", claim="team-a/gpu", devices=2)

    (line,) = lines(stream)
    assert (line["event"], line["level"], line["claim"], line["devices"]) == (
        "allocated",
        "info",
        "team-a/gpu",
        2,
    )
    assert line["timestamp"].endswith("Z")
    assert list(line)[:3] == ["timestamp", "level", "event"]


def test_lines_of_libraries_look_the_same_and_say_whose_they_are(stream):
    """Kopf logs by the standard library, and comes out alike."""
    logs.configure("json", "info", stream)
    logging.getLogger("kopf.reactor").info("started %s", "well")

    (line,) = lines(stream)
    assert (line["event"], line["logger"]) == ("started well", "kopf.reactor")


def test_line_of_kopf_about_an_object_names_it(stream):
    """A handler that fails says of which object: Kopf has that beside the text."""
    logs.configure("json", "info", stream)
    about = {"kind": "DeviceReservation", "namespace": "team-a", "name": "training"}
    logging.getLogger("kopf.objects").error("Handler failed", extra={"k8s_ref": about})

    (line,) = lines(stream)
    assert line["object"] == "DeviceReservation/team-a/training"


RETRIED = "Request attempt #3 failed; will retry: GET https://10.0.0.1/api -> TimeoutError()"
REFUSED = "Request attempt #2 failed; TCP closed; will re-authenticate: GET https://10.0.0.1/apis"
ENDED = "Request attempt #3 failed; escalating: GET https://10.0.0.1/api -> TimeoutError()"


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("info", [("error", ENDED)]),
        ("debug", [("debug", RETRIED), ("debug", REFUSED), ("error", ENDED)]),
    ],
)
def test_kopf_is_kept_from_an_error_for_each_attempt_that_it_repeats(stream, level, shown):
    """The operator says itself, once, that the API server is not available or refuses its credentials."""
    logs.configure("json", level, stream)
    for text in (RETRIED, REFUSED, ENDED):
        logging.getLogger("kopf._cogs.clients.api").error(text)

    assert [(line["level"], line["event"]) for line in lines(stream)] == shown


@pytest.mark.parametrize("logger", ["kopf.objects", "kopf.activities", "kopf._core.engines.activities"])
def test_kopf_is_kept_from_a_line_for_each_object_and_each_login(stream, logger):
    """Some of its loggers start at warnings."""
    logs.configure("json", "info", stream)
    logging.getLogger(logger).info("Handler succeeded.")
    logging.getLogger(logger).warning("Handler failed.")

    assert [line["event"] for line in lines(stream)] == ["Handler failed."]


def test_a_traceback_has_no_local_variables(stream):
    """What a variable holds may be secret."""
    logs.configure("console", "info", stream)
    token = f"hunter-{len(stream.getvalue()) + 2}"
    try:
        int(token)
    except ValueError:
        logs.get_logger().exception("broken", exc_info=True)

    assert "Traceback" in stream.getvalue()
    assert stream.getvalue().count("hunter-2") == 1, "only the error's own text names it"
