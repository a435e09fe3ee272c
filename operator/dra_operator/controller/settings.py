"""Settings: one declaration, four ways to set each.

A field is a flag of `run` (`--handback-seconds`), a variable of the environment (`DRA_OPERATOR_HANDBACK_SECONDS`) and a
field of the YAML configuration file (`handback_seconds`); a flag beats the environment, which beats the file, which
beats the default. An unknown name or a value that is not allowed ends the start, with what is allowed.
"""

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import yaml
from annotated_types import Ge, Le
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

PREFIX = "DRA_OPERATOR_"
CONFIG = "config"
"""The name of the flag (`--config`) and variable (`DRA_OPERATOR_CONFIG`) that name the configuration file."""

# Services called dra-operator, or dra-operator-metrics, put these into the environment of every pod of their namespace;
# they are not settings.
_OF_SERVICE = re.compile(
    r"(.+_)?((SERVICE_HOST|SERVICE_PORT(_.+)?|PORT_\d+_(TCP|UDP|SCTP)(_.+)?)=|PORT=\w+://)"
)


class SettingsError(Exception):
    """Settings that cannot be used. `problems` has one clear line for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def _host_and_port(value: str) -> str:
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise ValueError("not HOST:PORT")
    return value


HostAndPort = Annotated[str, AfterValidator(_host_and_port)]


class Settings(BaseModel):
    """What can be set. Times are in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    claims: Literal["none", "standalone", "gated", "all"] = Field(
        "standalone",
        description="Which claims the operator allocates. `none`: none at all, it only says why pods wait, and "
        "`explain` must be `all`. `standalone`: every claim that no pod uses; "
        "claims of pods are left to kube-scheduler. `gated`: those that only pods with the scheduling gate "
        "`dra-operator.io/allocation` use, which it then hands over to kube-scheduler. `all`: both. The last two need "
        "the rights of the component `gates`.",
    )
    devices: Literal["owned", "all"] = Field(
        "owned",
        description="Which devices the operator allocates. `owned`: only those with the taint `dra-operator.io/owned`, "
        "which keeps kube-scheduler away from them (AllocationPolicy). `all`: every device, for clusters where "
        "nobody else allocates; not allowed with `claims` `gated` or `all`.",
    )
    explain: Literal["ours", "all"] = Field(
        "ours",
        description="Of which claims the operator says why they wait. `ours`: of those that it allocates. `all`: also "
        "of those of pods, whoever allocates them: each pod that waits for devices gets an Event, and its claims the "
        "annotation. Needs the rights of the component `explain-pods`.",
    )
    ownership_settle_seconds: float = Field(
        30,
        ge=0,
        le=3600,
        description="How long after its DeviceTaintRule was created or changed an owned device is not used yet, where "
        "the policy `dra-operator-owned` protects it: every API server must know the rule by then.",
    )
    kubeconfig: str = Field(
        "",
        description="Kubeconfig file. Empty: the service account of the pod if there is one, else "
        "`KUBECONFIG`, else `~/.kube/config`.",
        json_schema_extra={"allowed": "a path"},
    )
    context: str = Field(
        "",
        description="Context of the kubeconfig file. Empty: the current context.",
        json_schema_extra={"allowed": "a name"},
    )
    listen: HostAndPort = Field(
        "0.0.0.0:8080",
        description="Where `/healthz`, `/readyz`, `/leaderz` and `/metrics` are served. `0.0.0.0` and `[::]` are every "
        "address, of IPv4 and of IPv6. Port 0 takes a free port, which the log names.",
        json_schema_extra={"allowed": "HOST:PORT, for example 0.0.0.0:8080 or [::]:8080"},
    )
    leader_election: Literal["lease", "none"] = Field(
        "lease",
        description="How the operators of a cluster agree on which of them decides. `lease`: the one that holds the "
        "Lease `dra-operator`. `none`: they do not, so there must never be two.",
    )
    lease_namespace: str = Field(
        "",
        pattern=r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$",
        description="Namespace of the Lease; must be the same for all operators of a cluster. Empty: that of the pod; "
        "outside a pod `dra-operator`, that of the manifests; if it does not exist, the operator exits with 1 and the "
        "command that creates it.",
        json_schema_extra={
            "allowed": "up to 63 of `a` to `z`, digits and `-`, a letter or digit at each end"
        },
    )
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="Format of log lines. `auto`: `console` at a terminal, `json` elsewhere."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The lowest level of log lines that are written."
    )
    claim_deadline_seconds: float = Field(
        10,
        ge=0.1,
        le=600,
        description="How long a decision about a claim, pod or gang may take before it is given up until later.",
    )
    handback_seconds: float = Field(
        60,
        ge=1,
        le=3600,
        description="With gated pods: the claims of a pod that was let go are taken back when kube-scheduler has said "
        "for this long that it cannot place the pod.",
    )


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings, and for each that is not the default where it was set."""

    settings: Settings
    origins: Mapping[str, str]


def load(flags: Mapping[str, str], config: str | None = None) -> LoadedSettings:
    """Return the settings in force.

    `flags` has what the command line gave, as text, by field name. `config` is the configuration file;
    without it `DRA_OPERATOR_CONFIG` names one, or there is none. Raises SettingsError with every problem
    found, not only the first.
    """
    if config == "":
        raise SettingsError(["flag --config: an empty path names no file"])
    path = config or os.environ.get(PREFIX + CONFIG.upper()) or ""
    fields = _read_file(path) if path else {}
    problems = [
        _unknown(name, value, f"field of {path}")
        for name, value in fields.items()
        if name not in Settings.model_fields
    ]
    problems += _unknown_variables()
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name in Settings.model_fields:
        if name in flags:
            values[name], origins[name] = flags[name], f"flag {flag(name)}"
        elif text := os.environ.get(variable(name)):
            values[name], origins[name] = text, f"variable {variable(name)}"
        elif name in fields:
            values[name], origins[name] = fields[name], f"field of {path}"
    try:
        settings = Settings(**values)
    except ValidationError as error:
        problems += [_refused(detail["loc"], detail["input"], origins) for detail in error.errors()]
        raise SettingsError(problems) from None
    problems += _contradictions(settings, origins)
    if problems:
        raise SettingsError(problems)
    return LoadedSettings(settings, origins)


def allowed(name: str) -> str:
    """Return what the setting `name` may be, in words."""
    field = Settings.model_fields[name]
    extra = field.json_schema_extra
    if isinstance(extra, dict):
        return str(extra["allowed"])
    if get_origin(field.annotation) is Literal:
        return ", ".join(get_args(field.annotation))
    low = next(item.ge for item in field.metadata if isinstance(item, Ge))
    high = next(item.le for item in field.metadata if isinstance(item, Le))
    return f"a number from {low} to {high}"


def variable(name: str) -> str:
    """Return the variable of the environment that sets `name`."""
    return PREFIX + name.upper()


def flag(name: str) -> str:
    """Return the flag that sets `name`."""
    return "--" + name.replace("_", "-")


def markdown() -> str:
    """Return docs/settings.md."""
    rows = [
        f"| `{flag(name)}` | {_default(field)} | {allowed(name)} | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    return _PAGE + "\n".join(rows) + "\n"


_PAGE = """\
# Settings

Generated by `dra-operator config --markdown` from `controller/settings.py`.

Each setting can be given in three ways; a flag takes precedence over the environment, the environment over the file:

- as a flag of `dra-operator run`: `--handback-seconds 30`;
- as an environment variable: `DRA_OPERATOR_HANDBACK_SECONDS=30`;
- as a field of the YAML file that `--config FILE` or `DRA_OPERATOR_CONFIG` names: `handback_seconds: 30`.

If a name is unknown, or a value is not allowed, the operator does not start: it exits with 2
and says what is wrong, where, and what is allowed. An empty environment variable counts as not set. `dra-operator
config` prints the settings in force; `dra-operator config --check` only checks them.

| flag | default | allowed | what it does |
|---|---|---|---|
"""


def _default(field: FieldInfo) -> str:
    return f"`{field.default}`" if field.default != "" else "empty"


def _read_file(path: str) -> dict[str, Any]:
    """Return what a configuration file sets."""
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError([f"configuration file {path}: {error.strerror or error}"]) from None
    except UnicodeDecodeError as error:
        raise SettingsError([f"configuration file {path}: byte {error.start} is not UTF-8"]) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # The latter two of a date such as 2026-13-01, and of what is nested a thousand times.
        raise SettingsError(
            [f"configuration file {path}: not YAML: {' '.join(str(error).split())}"]
        ) from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsError(
            [f"configuration file {path}: not a map of settings, such as `claims: standalone`"]
        )
    return {str(name): value for name, value in content.items()}


def _unknown_variables() -> list[str]:
    problems = []
    for variable_name, value in os.environ.items():
        name = variable_name.removeprefix(PREFIX)
        if name == variable_name or _OF_SERVICE.match(f"{name}={value}"):
            continue
        if name.lower() not in Settings.model_fields and name.lower() != CONFIG:
            problems.append(_unknown(name.lower(), value, f"variable {variable_name}"))
    return problems


def _unknown(name: str, value: object, origin: str) -> str:
    near = difflib.get_close_matches(name, Settings.model_fields, n=1)
    hint = f'did you mean "{near[0]}"?' if near else "allowed: " + ", ".join(Settings.model_fields)
    return f'setting "{name}" ({origin}, value "{value}"): there is no such setting; {hint}'


def _contradictions(settings: Settings, origins: Mapping[str, str]) -> list[str]:
    """Return what is wrong with settings each of which is allowed alone.

    Gated pods go to kube-scheduler, which allocates as well: where all devices are ours, its allocations would count
    as those of the operator, and be taken back from ordinary pods.
    """
    if settings.claims == "none" and settings.explain == "ours":
        problem = (
            f'setting "explain" ({origins.get("explain", "default")}): "ours" is not allowed with "claims" '
            f'({origins["claims"]}) "none": no claim is the operator\'s, so it would do nothing; set explain to all'
        )
        return [problem]
    if settings.claims in ("none", "standalone") or settings.devices == "owned":
        return []
    problem = (
        f'setting "devices" ({origins["devices"]}): "all" is not allowed with "claims" '
        f'({origins["claims"]}) "{settings.claims}": gated pods go to kube-scheduler, which allocates devices for '
        "other pods, so only owned devices show who allocated them; set devices to owned, and name some in an "
        "AllocationPolicy"
    )
    return [problem]


def _refused(location: tuple[int | str, ...], value: object, origins: Mapping[str, str]) -> str:
    name = str(location[0])
    return f'setting "{name}" ({origins.get(name, "default")}): "{value}" is not allowed; allowed: {allowed(name)}'


# --- Times and limits that nobody has to set: a Lease, a pass, writes, health. Tests construct others.


@dataclass(frozen=True, slots=True)
class Tuning:
    """Times are in seconds."""

    quiet_seconds: float = 0.02
    """A pass starts when nothing has changed for this long."""
    latest_seconds: float = 0.25
    """A pass starts at the latest this long after the first change."""
    full_pass_seconds: float = 300
    """How often all pending claims are tried again, even if nothing has changed."""
    tries_per_node: int = 1000
    """How many devices the allocator may try in vain on one node before it gives up on the claim for now."""
    identity: str = ""
    """The operator's name in the Lease, never that of two. Empty: its pod's, else its host's."""
    lease_seconds: int = 15
    """After how long without a renewal of the Lease another operator takes over."""
    write_concurrency: int = 12
    """How many claims are written to at the same time."""
    request_timeout_seconds: float = 60
    """How long one request may take that writes to a claim or reads it back."""
    event_refresh_seconds: float = 1200
    """How often the Event of a waiting claim is refreshed. The API server deletes Events after an hour."""
    ownership_quiet_seconds: float = 600
    """How long nobody else must have stored an allocation in a pool before its owned devices are used, where no policy
    protects them."""
    maintenance_quiet_seconds: float = 120
    """How long no claim must have held a device in maintenance before it is safe to work on: kube-scheduler stores what
    it decided before a rule up to 83 s after it."""
    stale_seconds: float = 120
    """Not ready if the API server was not heard of for this long; of a kind that nobody changes, 75 are normal."""
    stuck_seconds: float = 300
    """Not alive if one pass makes no progress for this long."""
    drain_seconds: float = 10
    """How long the operator, when it stops, waits for the running pass, and then for writes that were sent. The
    `terminationGracePeriodSeconds` of its pod is twice as long, plus ten."""
