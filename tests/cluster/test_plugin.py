"""Plugins that hang: they are ended, so that the next one has a chance."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from dra_operator.cluster import plugin
from dra_operator.cluster.credentials import AccessError, load_access

API = '"apiVersion": "client.authentication.k8s.io/v1"'


def shell(script, *args):
    """Return a user of a kubeconfig whose plugin is this shell script."""
    called = {"command": "sh", "args": ["-c", script, *args], "interactiveMode": "Never"}
    return {"exec": json.loads("{" + API + "}") | called}


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    """A test has no terminal; return the file descriptors that are one."""
    found = set()
    monkeypatch.setattr("os.isatty", found.__contains__)
    return found


@pytest.fixture
def impatient(monkeypatch):
    """Plugins have half a second."""
    monkeypatch.setattr(plugin, "SECONDS", 0.5)


@pytest.mark.usefixtures("impatient")
def test_a_plugin_that_hangs_is_ended_with_all_that_it_started(kubeconfig, tmp_path):
    """What hangs is mostly not the script that the kubeconfig names, but a program below it."""
    os.mkfifo(tmp_path / "fifo")
    alive = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(AccessError, match="exec plugin 'sh' gave no credentials"):
        load_access(kubeconfig(user=shell(f"exec 3>{tmp_path}/fifo; (sleep 20; echo alive >&3) & wait")))
    os.set_blocking(alive, True)

    assert os.read(alive, 10) == b""
    os.close(alive)


@pytest.mark.usefixtures("impatient")
def test_whoever_keeps_the_output_of_a_plugin_open_is_not_waited_for(kubeconfig):
    """A plugin may leave a program behind in a session of its own, where nobody finds it."""
    leaves = "import os, time\nif not os.fork():\n  os.setsid(); time.sleep(10)"
    with pytest.raises(AccessError, match=r"gave no credentials: process returned 1. not done after 0.5 s$"):
        load_access(kubeconfig(user=shell(f"exec {sys.executable} -c '{leaves}'")))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "beside", [{"token": ""}, {"tokenFile": "empty"}, {"auth-provider": {"name": "azure"}}], ids=str
)
def test_a_plugin_that_hangs_is_ended_whatever_stands_beside_it(kubeconfig, tmp_path, beside):
    """Where that leads to nothing the plugin is asked."""
    (tmp_path / "empty").touch()
    begun = time.monotonic()
    with contextlib.suppress(AccessError):
        load_access(kubeconfig(user=shell("sleep 20") | beside))

    assert time.monotonic() < begun + 10


def test_a_file_that_is_written_keeps_the_plugin_that_it_names(kubeconfig, tmp_path):
    """What another way to log in gives is stored there, and kubectl starts the plugin from there, too."""
    token = {"access_token": "t", "token_expiry": "2999-01-01T00:00:00Z"}
    (tmp_path / "token").write_text(json.dumps({"credential": token}))
    provider = {"name": "gcp", "config": {"cmd-path": "cat", "cmd-args": f"{tmp_path}/token"}}
    user = shell("exit 1")
    path = kubeconfig(user=user | {"auth-provider": provider})

    assert load_access(path).headers() == {"Authorization": "Bearer t"}
    stored = yaml.safe_load(Path(path).read_text())["users"][0]["user"]
    assert stored["auth-provider"]["config"]["access-token"] == "t"
    assert stored["exec"] == user["exec"]


@pytest.mark.skipif(sys.platform != "linux", reason="only there somebody else can be the first process")
def test_a_plugin_that_hangs_leaves_nothing_to_the_first_process():
    """In a container that is the operator, and what is left to it stays until nothing can be started any more."""
    is_first = (
        "import ctypes, os, subprocess, sys\nctypes.CDLL(None).prctl(36, 1)\nsubprocess.run(sys.argv[1:])\n"
    )
    looks = "try: print(os.waitpid(-1, os.WNOHANG))\nexcept ChildProcessError: print('nothing')"
    hangs = ["sh", "-c", "(sleep 20 &); (sleep 20; echo) & wait"]
    called = [sys.executable, "-c", is_first + looks, sys.executable, plugin.__file__, "0.5", *hangs]

    ended = subprocess.run(called, capture_output=True, text=True, timeout=15, check=True)

    assert (ended.stdout, ended.stderr) == ("nothing\n", "not done after 0.5 s")


def test_of_what_a_plugin_complains_the_end_is_handed_on(kubeconfig):
    """It becomes a line of the log."""
    complains = f"import sys; sys.stderr.write({'é' * 3!r} * 100000 + 'at last'); sys.exit(1)"
    with pytest.raises(AccessError, match=r"ééat last$") as raised:
        load_access(kubeconfig(user=shell(f'exec {sys.executable} -c "$0"', complains)))

    assert len(str(raised.value)) < 5000


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_plugin_without_end_takes_no_memory(stream):
    """The kernel would take the operator's for it, with all that is in the container."""
    without_end = f"import sys\nwhile True: sys.{stream}.write('y' * 100000)"
    bounded = (
        "import resource, sys\nresource.setrlimit(resource.RLIMIT_AS, (2**28, 2**28))\n"
        "sys.path.insert(0, sys.argv.pop(1))\nimport plugin\nsys.exit(plugin.main(*sys.argv[1:]))"
    )
    called = [
        sys.executable,
        "-c",
        bounded,
        str(Path(plugin.__file__).parent),
        "2",
        sys.executable,
        "-c",
        without_end,
    ]

    ended = subprocess.run(called, capture_output=True, text=True, timeout=15, check=False)

    why = "printed more than 1048576 bytes" if stream == "stdout" else f"{'y' * 4096}not done after 2 s"
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", why)


def test_a_plugin_runs_as_the_kubeconfig_says(kubeconfig, tmp_path):
    """It has the arguments and variables that are given, and the folder of the kubeconfig."""
    said = f'{{{API}, "kind": "ExecCredential", "status": {{"token": "%s"}}}}'
    user = shell(f"printf '{said}' $WHO$(pwd)$0", "1")
    user["exec"]["env"] = [{"name": "WHO", "value": "we"}]

    access = load_access(kubeconfig(user=user))

    assert access.headers() == {"Authorization": f"Bearer we{tmp_path}1"}


@pytest.mark.parametrize(
    ("user", "why"),
    [
        (shell("printf 'who\\n  are you\\n' >&2; exit 3"), r"process returned 3\. who are you"),
        (
            {"exec": {**shell("")["exec"], "command": "/absent"}},
            r"process returned 1\. /absent: No such file or directory",
        ),
        (
            shell(f'echo \'{{{API}, "kind": "ExecCredential", "status": {{"token": ""}}}}\''),
            "it printed nothing usable",
        ),
    ],
    ids=["it says so", "not there", "an empty token"],
)
def test_what_is_told_says_why_a_plugin_gave_nothing(kubeconfig, caplog, user, why):
    """What a plugin complains of is there to be read, and so is that it cannot be started; and that once."""
    with pytest.raises(AccessError, match=f"gave no credentials: {why}$"):
        load_access(kubeconfig(user=user))

    assert caplog.text == ""


@pytest.mark.parametrize("stream", [0, 1, 2], ids=["stdin", "stdout", "stderr"])
def test_whoever_sits_at_a_terminal_has_all_the_time_there_is(terminal, stream):
    """A plugin may wait for somebody who logs in, wherever the output goes."""
    terminal.add(stream)
    called = shell("kubelogin")["exec"]

    assert plugin.bound(called) == called
