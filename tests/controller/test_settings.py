"""Settings: one declaration, four ways to set it."""

from pathlib import Path

import pytest

from dra_operator.controller.settings import Settings, SettingsError, load, markdown


@pytest.fixture
def configuration(tmp_path):
    """Write a configuration file and return its path."""

    def write(text: str) -> str:
        path = tmp_path / "operator.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_a_flag_beats_the_environment_which_beats_the_file(monkeypatch, configuration):
    """The order of the four sources is flag, environment, file, default."""
    path = configuration("handback_seconds: 1\nclaim_deadline_seconds: 2\nlog_level: debug\n")
    monkeypatch.setenv("DRA_OPERATOR_HANDBACK_SECONDS", "4")
    monkeypatch.setenv("DRA_OPERATOR_CLAIM_DEADLINE_SECONDS", "5")

    settings = load({"handback_seconds": "6"}, path).settings

    assert (settings.handback_seconds, settings.claim_deadline_seconds) == (6.0, 5.0)
    assert (settings.log_level, settings.ownership_settle_seconds) == ("debug", 30)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (
            {"claims": "some"},
            'setting "claims" (flag --claims): "some" is not allowed; allowed: none, standalone, gated',
        ),
        ({"handback_seconds": "-1"}, '"-1" is not allowed; allowed: a number from 1'),
        ({"handback_seconds": "many"}, '"many" is not allowed; allowed: a number from 1 to 3600'),
        ({"listen": "8080"}, '"8080" is not allowed; allowed: HOST:PORT'),
        ({"lease_namespace": "kube/system"}, '"kube/system" is not allowed; allowed: up to 63 of `a` to `z`'),
        ({"lease_namespace": "a" * 64}, "allowed: up to 63 of"),
        (
            {"claims": "none"},
            'setting "explain" (default): "ours" is not allowed with "claims" (flag --claims) "none"',
        ),
        (
            {"claims": "gated", "devices": "all"},
            'setting "devices" (flag --devices): "all" is not allowed with "claims" (flag --claims) "gated"',
        ),
    ],
    ids=[
        "unknown choice",
        "below the range",
        "not a number",
        "no host",
        "not a namespace",
        "too long",
        "nothing to do",
        "all devices with gated pods",
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(flags, text):
    """A value that is not allowed is reported with its setting, origin and alternatives."""
    with pytest.raises(SettingsError) as raised:
        load(flags)

    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [("LOG_LEVELS", "debug", 'did you mean "log_level"'), ("LISTEN_PORT", "8080", 'did you mean "listen"')],
)
def test_an_unknown_variable_is_reported_with_the_nearest_setting(monkeypatch, name, value, hint):
    """A misspelt variable of the environment does not pass unnoticed, nor one that only looks like a Service's."""
    monkeypatch.setenv(f"DRA_OPERATOR_{name}", value)

    with pytest.raises(SettingsError, match=rf"DRA_OPERATOR_{name}.*{hint}"):
        load({})


@pytest.mark.parametrize(
    "name",
    [
        *("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_8080_TCP_ADDR"),
        *("METRICS_SERVICE_HOST", "METRICS_SERVICE_PORT", "METRICS_PORT", "METRICS_PORT_8080_TCP"),
    ],
)
def test_variables_of_services_are_no_settings(monkeypatch, name):
    """What Kubernetes puts into the environment for Services called dra-operator or dra-operator-metrics is let be."""
    monkeypatch.setenv(f"DRA_OPERATOR_{name}", "tcp://10.0.0.1:8080")

    assert load({}).settings == Settings()


def test_every_problem_is_reported_at_once(monkeypatch, configuration):
    """Nobody has to start the operator five times to learn of four mistakes."""
    monkeypatch.setenv("DRA_OPERATOR_COLOUR", "blue")
    with pytest.raises(SettingsError) as raised:
        load({"log_format": "xml"}, configuration("flavour: sweet\nclaims: 1"))

    assert len(raised.value.problems) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n", "not a map"),
        ("a: [\n", "not YAML"),
        ("claims: 2026-13-01\n", "not YAML: month must be in 1..12"),
        ("[" * 5000, "not YAML: maximum recursion depth exceeded"),
        ("claims: [standalone]\n", "not allowed"),
    ],
)
def test_a_configuration_file_that_makes_no_sense_is_named(configuration, text, message):
    """The file is named when it cannot be understood."""
    path = configuration(text)

    with pytest.raises(SettingsError, match=message) as raised:
        load({}, path)

    assert path in str(raised.value)


def test_origins_name_where_each_setting_came_from(monkeypatch, configuration):
    """What is not the default knows who set it."""
    monkeypatch.setenv("DRA_OPERATOR_LOG_LEVEL", "debug")

    loaded = load({"claims": "standalone"}, configuration("handback_seconds: 3"))

    assert loaded.origins["claims"] == "flag --claims"
    assert loaded.origins["log_level"] == "variable DRA_OPERATOR_LOG_LEVEL"
    assert loaded.origins["handback_seconds"].startswith("field of ")
    assert "listen" not in loaded.origins


def test_docs_settings_md_is_what_the_settings_say():
    """The page is generated: `dra-operator config --markdown > docs/settings.md`."""
    page = Path(__file__).parents[2] / "docs" / "settings.md"

    assert page.read_text(encoding="utf-8") == markdown()
