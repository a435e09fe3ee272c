"""The user's way to the API server: what kubectl does with a kubeconfig, and what is said of one that is no good."""

import base64
import json
import sys
import textwrap
from pathlib import Path

import pytest
import yaml

from dra_operator.cli.kubectl.access import load_user_access
from dra_operator.cli.kubectl.errors import AccessError
from dra_operator.cli.kubectl.options import Impersonation

SERVER = "http://127.0.0.1:1"
SECURE = "https://127.0.0.1:1"


def kubeconfig(user=None, *, cluster=None, context=None, name="c"):
    """Return a kubeconfig with one context."""
    return {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **(context or {})}}],
        "clusters": [
            {"name": name, "cluster": {"server": SECURE, "insecure-skip-tls-verify": True, **(cluster or {})}}
        ],
        "users": [{"name": name, "user": user or {}}],
    }


@pytest.fixture
def load(tmp_path):
    """Return a function that loads a kubeconfig, given as data or as text, and returns the access."""

    def load(config, context="", impersonation=Impersonation(), **environ):  # noqa: B008 - it is frozen
        path = tmp_path / "kubeconfig"
        path.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
        return load_user_access(str(path), context, impersonation, environ=environ)

    return load


@pytest.fixture
def plugin(tmp_path):
    """Return a function that returns a user whose plugin runs this Python code."""

    def make(code, **fields):
        script = tmp_path / "plugin.py"
        script.write_text(textwrap.dedent(code))
        version = "client.authentication.k8s.io/v1"
        return {"exec": {"apiVersion": version, "command": sys.executable, "args": [str(script)], **fields}}

    return make


def sent(access):
    """Return the headers of a request."""
    return dict(access.headers)


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({"token": "abc"}, "Bearer abc"),
        ({"token": "abc\n"}, "Bearer abc"),
        ({"username": "ann", "password": "x"}, f"Basic {base64.b64encode(b'ann:x').decode()}"),
        ({"auth-provider": {"name": "oidc", "config": {"id-token": "t"}}}, "Bearer t"),
        ({}, None),
    ],
    ids=["token", "token with a line break", "password", "old provider with a token", "nobody"],
)
def test_credentials_become_a_header(load, user, header):
    """Each sort of credentials goes to the server as kubectl sends it."""
    assert sent(load(kubeconfig(user))).get("Authorization") == header


def test_paths_are_relative_to_their_file(load, tmp_path):
    """A kubeconfig can be moved together with the token that it names."""
    (tmp_path / "token").write_text("from-file\n")

    assert sent(load(kubeconfig({"tokenFile": "token"})))["Authorization"] == "Bearer from-file"


def test_a_plugin_with_a_path_is_relative_to_its_file(load, tmp_path):
    """One that is named alone is looked up in the PATH."""
    script = tmp_path / "token.sh"
    status = {"status": {"token": "from-plugin"}}
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", **status}
    script.write_text(f"#!/bin/sh\necho '{json.dumps(credential)}'\n")
    script.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./token.sh"}}

    assert sent(load(kubeconfig(user)))["Authorization"] == "Bearer from-plugin"


@pytest.mark.parametrize("comment", ["", "# Müller Root CA\n"])
def test_an_authority_is_read_as_go_reads_it(load, authority, comment):
    """Its base64 may be in lines, and what stands between certificates may be any text."""
    content = comment.encode() + authority.path.read_bytes()
    cluster = {
        "certificate-authority-data": base64.encodebytes(content).decode(),
        "insecure-skip-tls-verify": False,
    }

    assert len(load(kubeconfig(cluster=cluster)).tls.get_ca_certs()) == 1


def test_an_authority_without_a_certificate_is_refused(load):
    """Otherwise whatever the system trusts would be trusted."""
    cluster = {
        "certificate-authority-data": base64.b64encode(b"none").decode(),
        "insecure-skip-tls-verify": False,
    }

    with pytest.raises(AccessError, match="has no certificate in it"):
        load(kubeconfig(cluster=cluster))


def test_credentials_are_not_sent_in_clear(load):
    """A server without TLS gets no token, and its plugin is not even run."""
    access = load(kubeconfig({"token": "abc"}, cluster={"server": SERVER}))

    assert sent(access) == {}


def test_first_file_that_has_a_name_counts(tmp_path):
    """Files in $KUBECONFIG are merged: current context and user of the first, other contexts of the second."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text(yaml.safe_dump(kubeconfig({"token": "one"})))
    both = kubeconfig({"token": "two"})
    other = kubeconfig({"token": "three"}, name="other", context={"namespace": "team-a"})
    for key in ("contexts", "clusters", "users"):
        both[key] += other[key]
    second.write_text(yaml.safe_dump(both))
    environ = {"KUBECONFIG": f"{first}:{tmp_path / 'absent'}:{second}"}

    assert sent(load_user_access(environ=environ))["Authorization"] == "Bearer one"
    access = load_user_access(context="other", environ=environ)
    assert (sent(access)["Authorization"], access.namespace) == ("Bearer three", "team-a")


def test_impersonation_of_the_command_line_replaces_that_of_the_file(load):
    """`--as` names user, groups and uid; those of the kubeconfig are for requests without it."""
    config = kubeconfig({"token": "abc", "as": "bob", "as-groups": ["g"], "as-user-extra": {"reason": ["x"]}})

    assert load(config).headers[:-1] == (
        ("Impersonate-User", "bob"),
        ("Impersonate-Group", "g"),
        ("Impersonate-Extra-reason", "x"),
    )
    assert load(config, "", Impersonation("ann", ("h", "i"), "7")).headers[:-1] == (
        ("Impersonate-User", "ann"),
        ("Impersonate-Group", "h"),
        ("Impersonate-Group", "i"),
        ("Impersonate-Uid", "7"),
    )


def test_plugin_is_told_where_its_credentials_go(load, plugin):
    """It gets KUBERNETES_EXEC_INFO with the cluster, and its token is sent."""
    code = """
        import json, os
        info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
        token = f"{info['spec']['cluster']['server']},{info['spec']['interactive']},{os.environ['EXTRA']}"
        print(json.dumps({**info, "status": {"token": token}}))
    """
    user = plugin(code, provideClusterInfo=True, env=[{"name": "EXTRA", "value": "e"}])

    assert sent(load(kubeconfig(user)))["Authorization"] == f"Bearer {SECURE},False,e"


@pytest.mark.parametrize(
    ("environ", "server", "proxy"),
    [
        ({"HTTPS_PROXY": "proxy:3128"}, "https://api.example:6443", "http://proxy:3128"),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "other,.example"}, "https://api.example:6443", ""),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "10.0.0.0/8"}, "https://10.1.2.3", ""),
        ({"HTTPS_PROXY": "http://proxy:3128"}, "https://127.0.0.1:6443", ""),
        ({"HTTP_PROXY": "http://proxy:3128"}, "https://api.example", ""),
    ],
)
def test_proxy_of_the_environment(load, environ, server, proxy):
    """The variables mean what they mean to kubectl, networks in NO_PROXY included."""
    assert load(kubeconfig(cluster={"server": server}), **environ).proxy == proxy


def test_pod_asks_as_its_service_account(tmp_path, authority):
    """Without a kubeconfig, in a pod, there is the token that the kubelet mounts."""
    (tmp_path / "token").write_text("pod\n")
    (tmp_path / "ca.crt").write_bytes(authority.path.read_bytes())
    (tmp_path / "namespace").write_text("team-a")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBECONFIG": str(tmp_path / "absent")}

    access = load_user_access(environ=environ, service_account=tmp_path)

    assert (access.server, access.namespace) == ("https://[fd00::1]:443", "team-a")
    assert sent(access)["Authorization"] == "Bearer pod"


def test_certificate_in_the_kubeconfig_is_shown(load, authority):
    """Certificates as data reach the TLS context, and no copy of the key stays on disk."""
    certificate, key = authority.issue("ann")
    data = {
        f"client-{name}-data": base64.b64encode(Path(path).read_bytes()).decode()
        for name, path in (("certificate", certificate), ("key", key))
    }
    trusted = {"certificate-authority-data": base64.b64encode(authority.path.read_bytes()).decode()}

    access = load(kubeconfig(data, cluster={**trusted, "insecure-skip-tls-verify": False}))

    assert [each["subject"] for each in access.tls.get_ca_certs()]
    assert not list(Path(authority.folder).glob("kubectl-dra-*"))


# --- what is said of a kubeconfig that is no good

RUBBISH = (7, True, "\x00", "\u00fc", "a\nb", [7], {"a": 7}, None)
FIELDS = {
    "context": ("cluster", "user", "namespace"),
    "cluster": (
        *("server", "certificate-authority", "certificate-authority-data", "proxy-url", "tls-server-name"),
        *("insecure-skip-tls-verify", "extensions"),
    ),
    "user": (
        *("token", "tokenFile", "username", "password", "client-certificate", "client-certificate-data"),
        *(
            "client-key",
            "client-key-data",
            "exec",
            "auth-provider",
            "as",
            "as-uid",
            "as-groups",
            "as-user-extra",
        ),
    ),
    "exec": (
        *("command", "apiVersion", "args", "env", "interactiveMode", "installHint", "provideClusterInfo"),
    ),
}
SECRET = "hush-hush"


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in FIELDS for name in FIELDS[kind]])
def test_rubbish_in_a_field_is_no_traceback(load, kind, name):
    """Whatever stands in a field: it is of use, or refused in one line without a secret."""
    said = []
    for value in RUBBISH:
        config = kubeconfig({"token": SECRET, "username": "ann", "password": SECRET, "as": "bob"})
        bodies = {each: config[f"{each}s"][0][each] for each in ("context", "cluster", "user")}
        if kind == "exec":
            bodies["exec"] = {"command": "true", "apiVersion": "v1", "provideClusterInfo": True}
            config["users"][0]["user"] = {"exec": bodies["exec"]}
        bodies[kind][name] = value
        try:
            load(config)
        except AccessError as refused:
            said.append(str(refused))
    assert [text for text in said if "\n" in text or SECRET in text] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 5000, "nested too deeply"),
        ("current-context: 2026-13-45\n", "no YAML"),
        ("\x00", "no YAML"),
        ("a: &a [*a]\n", "names no current context"),
        ("contexts: {c: {}}", "its content is not a kubeconfig"),
        ("- " * 5000, "nested too deeply"),
    ],
)
def test_text_that_is_no_kubeconfig_is_refused_in_one_line(load, text, words):
    """The line names the file."""
    with pytest.raises(AccessError, match=r"^kubeconfig [^\n]*$") as refused:
        load(text)

    assert words in str(refused.value)


@pytest.mark.parametrize(
    "server", ["https://host:port", "https://[::1", "https://host:99999", "https://a b", "https://\u00fc"]
)
def test_server_that_is_no_address_is_refused(load, server):
    """Before anything is sent."""
    with pytest.raises(AccessError, match="is no address such as"):
        load(kubeconfig(cluster={"server": server}))


@pytest.mark.parametrize(
    "token",
    [f"{SECRET}\n{SECRET}", f"{SECRET}\u00fc", f"{SECRET}\x7f"],
    ids=["line break", "umlaut", "control"],
)
def test_token_that_no_header_can_have_is_not_told(load, plugin, tmp_path, token):
    """Wherever it comes from: the kubeconfig, a file, an old provider or a plugin."""
    (tmp_path / "token").write_text(token)
    code = f"""
        import json, os
        print(json.dumps({{**json.loads(os.environ["KUBERNETES_EXEC_INFO"]), "status": {{"token": {token!r}}}}}))
    """
    provider = {"name": "oidc", "config": {"id-token": token}}
    for user in ({"token": token}, {"tokenFile": "token"}, {"auth-provider": provider}, plugin(code)):
        with pytest.raises(AccessError, match=r"^[^\n]*HTTP forbids$") as refused:
            load(kubeconfig(user))

        assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("[", "line 2: no YAML"),
        ("- a", "its content is not a kubeconfig"),
        ("contexts: 7", "its content is not a kubeconfig"),
        ("contexts: [7]", "contexts: 7 without a name"),
        ("", "names no current context: choose one with --context; it has none"),
        (
            {**kubeconfig(), "current-context": "d"},
            'has no context "d": choose one with --context; it has "c"',
        ),
        ({**kubeconfig(), "clusters": []}, 'context "c": cluster: "c" is not among its clusters'),
        (kubeconfig(cluster={"server": "api:6443"}), 'server "api:6443" does not begin with https://'),
        (kubeconfig({"token": 7}), 'user "c": token: is not text: write it in quotes'),
        (kubeconfig({"client-certificate-data": "eA=="}), 'user "c": client-key: is missing'),
        (kubeconfig({"tokenFile": "absent"}), "absent: No such file or directory"),
        (
            kubeconfig({"auth-provider": {"name": "gcp"}}),
            'auth-provider "gcp" is not supported: use an exec plugin',
        ),
        (
            kubeconfig(cluster={"certificate-authority-data": "%", "insecure-skip-tls-verify": False}),
            "certificate-authority-data is not base64 of a PEM file",
        ),
    ],
)
def test_kubeconfig_that_is_no_good_is_refused_in_one_line(load, config, words):
    """The line names the file, what is wrong and what to do."""
    with pytest.raises(AccessError, match=r"^kubeconfig [^\n]*$") as refused:
        load(config)

    assert words in str(refused.value)


def test_password_of_a_kubeconfig_is_never_shown(load):
    """What is wrong about a secret is said without it."""
    with pytest.raises(AccessError) as refused:
        load(kubeconfig({"username": "ann", "password": 12345}))

    assert "12345" not in str(refused.value)


def test_named_kubeconfig_has_to_be_there(tmp_path):
    """A path of --kubeconfig is never passed over."""
    with pytest.raises(AccessError, match="No such file or directory"):
        load_user_access(str(tmp_path / "absent"), environ={})


@pytest.mark.parametrize(
    ("code", "fields", "words"),
    [
        ("input('Password: ')", {}, "if it asks for a password, log in at a terminal first"),
        ("import sys; sys.exit('token expired')", {}, "exit code 1: token expired"),
        (
            "",
            {"interactiveMode": "Always"},
            "it asks for input, and stdin is no terminal: log in at one first",
        ),
        ("print('hello')", {}, "what it prints is no ExecCredential with a status"),
        ("print('{\"status\": {}}')", {}, 'it prints apiVersion null, the kubeconfig says "client.auth'),
        ("import os; os.write(1, bytes([255, 0]))", {}, "what it prints is no ExecCredential with a status"),
        ("print('[' * 100000)", {}, "what it prints is no ExecCredential with a status"),
        ("print('{\"status\": []}')", {}, "what it prints is no ExecCredential with a status"),
        ('print(\'{"status": {"token": 7}}\')', {}, "what it prints as token is not text"),
        ('print(\'{"status": {"clientKeyData": {}}}\')', {}, "what it prints as clientKeyData is not text"),
    ],
)
def test_plugin_that_gives_nothing_is_named_with_what_to_do(load, plugin, code, fields, words):
    """A plugin that asks for a password, fails, or prints something else: no request goes out without credentials."""
    with pytest.raises(AccessError) as refused:
        load(kubeconfig(plugin(code, **fields)))

    assert "exec plugin" in str(refused.value)
    assert words in str(refused.value)


def test_plugin_that_is_not_there_says_how_to_get_it(load):
    """The hint of the kubeconfig is part of the line."""
    version = "client.authentication.k8s.io/v1"
    user = {"exec": {"apiVersion": version, "command": "no-such-plugin-0", "installHint": "brew install it"}}

    with pytest.raises(AccessError) as refused:
        load(kubeconfig(user))

    assert "no-such-plugin-0" in str(refused.value)


def test_groups_need_a_user(load):
    """--as-group without --as would ask as oneself."""
    with pytest.raises(AccessError, match="--as-group and --as-uid say more about the user of --as"):
        load(kubeconfig(), "", Impersonation("", ("g",)))


def test_kubeconfig_may_be_json(load):
    """Some tools write it so."""
    assert sent(load(json.dumps(kubeconfig({"token": "j"}))))["Authorization"] == "Bearer j"
