"""What stands in a kubeconfig where something else should."""

import re
from pathlib import Path

import pytest
import yaml

from dra_operator.cluster.credentials import AccessError, load_access

QUOTES = "write it in quotes"


def write(path: Path, *place: str, value: object) -> str:
    """Write a kubeconfig that is right but for one place, and return its path."""
    parts = {
        "context": {"cluster": "c", "user": "u"},
        "cluster": {"server": "https://127.0.0.1:1"},
        "user": {"token": "t"},
    }
    part, *fields = place
    if fields:
        parts[part][fields[0]] = value
    else:
        parts[part] = value
    lists = {f"{kind}s": [{"name": kind[0], kind: body}] for kind, body in parts.items()}
    lists["contexts"][0]["name"] = "here"
    path.write_text(yaml.safe_dump({"current-context": "here", **lists}))
    return str(path)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("cluster.server", 8443, f'cluster "c": server: 8443 is not text: {QUOTES}'),
        ("cluster.server", None, 'cluster "c": server: is required'),
        ("cluster.insecure-skip-tls-verify", "y", 'insecure-skip-tls-verify: "y" is not true or false'),
        ("cluster", "https://a", 'cluster "c": cluster: "https://a" is not an object'),
        ("cluster", None, 'cluster "c": server: is required'),
        ("context", None, 'context "here": cluster: is required'),
        ("context.namespace", True, f'context "here": namespace: true is not text: {QUOTES}'),
        ("user", ["u"], 'user "u": user: ["u"] is not an object'),
        ("user.token", 12345, f'user "u": token: is not text: {QUOTES}'),
        ("user.as", "ann", 'user "u": as: impersonation is not supported: name a user who has the rights'),
        (
            "user.as-groups",
            ["a"],
            "as-groups: impersonation is not supported: name a user who has the rights",
        ),
        ("user.exec", "plugin", 'user "u": exec: "plugin" is not an object'),
        ("user.exec", {"args": "a b"}, 'user "u": exec: args: "a b" is not a list'),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    tmp_path: Path, place: str, value: object, message: str
) -> None:
    """Object, field and value, and no secret; not in the words of Python."""
    path = write(tmp_path / "config", *place.split("."), value=value)

    with pytest.raises(AccessError, match=rf"^kubeconfig {re.escape(path)}: .*{re.escape(message)}$"):
        load_access(path)


def test_what_is_right_is_loaded(tmp_path: Path) -> None:
    """Null is as good as absent."""
    path = write(tmp_path / "config", "context", "namespace", value=None)

    assert load_access(path).server == "https://127.0.0.1:1"
