"""`dra-operator run`: the operator, in a process with short turns of threads and rare garbage collection.

A pass runs in one thread, and the event loop, which carries its writes, in another, which would wait five milliseconds
for its turn. A collection walks through all that lives, most of a second in a large cluster; what was listed stays, and
is freed by reference counting, so it is frozen once everything is known.
"""

import asyncio
import gc
import signal
import sys
from collections.abc import Mapping
from typing import Final

import click

from dra_operator.cli.config import load_or_exit, with_settings
from dra_operator.cli.output import refuse

THRESHOLDS: Final = (20_000, 20, 20)
"""How many objects more than before start a collection, and how many of those one of the older generations."""
TURN_SECONDS: Final = 0.0005
"""How long a thread may go on while another one waits for its turn."""


def freeze() -> None:
    """Collect once, and leave out of later collections what is left."""
    gc.collect()
    gc.freeze()
    # The oldest generation is collected when a quarter of what was left by its last collection has come in addition.
    # That was everything; now it is nothing.
    gc.collect()


@click.command("run")
@with_settings
def app(*, config: str | None, flags: Mapping[str, str]) -> None:
    """Run the operator until SIGTERM or Ctrl-C. Settings can also come from the environment or a file."""
    # Kopf handles it once it runs. Before, a plugin may take a minute to say as whom we speak, and the first process of
    # a container ignores what it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # A terminal that is closed, unless the operator is to outlive it (`nohup`).
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    settings = load_or_exit(flags, config).settings
    # Imported only when the settings are good: Kopf and the kubernetes package take most of a second.
    from dra_operator.cluster.credentials import AccessError, load_access
    from dra_operator.controller import logs
    from dra_operator.controller.kopf_app import is_sound, serve, warn_of_all_devices

    sys.setswitchinterval(TURN_SECONDS)
    gc.set_threshold(*THRESHOLDS)
    logs.configure(settings.log_format, settings.log_level)
    try:
        access = load_access(settings.kubeconfig or None, settings.context or None)
    except AccessError as error:
        refuse(str(error))
    # Before the event loop: nobody is kept waiting by it.
    if not is_sound():
        sys.exit(1)
    warn_of_all_devices(settings)
    sys.exit(asyncio.run(serve(settings, access, settle=freeze)))
