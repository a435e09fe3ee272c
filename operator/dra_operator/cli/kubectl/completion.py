"""Completion: what can follow on the command line, with the names of objects in the cluster.

kubectl calls `kubectl_complete-dra` with the words so far, the last of which is incomplete, and reads lines `WORD` or
`WORD<tab>HELP`, the last of which is cobra's directive.
Source: k8s.io/kubectl/pkg/cmd/plugin/plugin_completion.go; github.com/spf13/cobra/completions.go.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem, ShellComplete

if TYPE_CHECKING:
    from dra_operator.cli.kubectl.options import Options

NO_FILES: Final = 4
"""Directive: the words are all there is, no file is meant."""
FILES: Final = 0
_SECONDS: Final = 2.0
"""How long the server may take; somebody waits at the keyboard."""

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def print_completions(words: list[str]) -> None:
    """Print what the last of some words can become."""
    from dra_operator.cli.kubectl.commands import app

    *before, incomplete = words or [""]
    found = ShellComplete(app, {}, "kubectl dra", "").get_completions(before, incomplete)
    directive = FILES if any(item.type in ("file", "dir") for item in found) else NO_FILES
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else str(item.value))
    click.echo(f":{directive}")


def complete_names(kind: str, prefix: str = "") -> Complete:
    """Return what completes the names of a kind, each after a prefix such as `pod/`."""
    return complete_subjects({prefix: kind})


def complete_subjects(kinds: dict[str, str]) -> Complete:
    """Return what completes a prefix and the name of an object of its kind; nothing where the cluster is silent.

    A prefix without a kind is completed alone.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
        found: list[CompletionItem] = []
        for prefix, kind in kinds.items():
            if prefix and not (kind and incomplete.startswith(prefix)):
                if prefix.startswith(incomplete):
                    found.append(CompletionItem(prefix))
                continue
            found += [
                CompletionItem(f"{prefix}{name}")
                for name in _names(ctx, kind)
                if f"{prefix}{name}".startswith(incomplete)
            ]
        return found

    return complete


def complete_contexts(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Return the contexts of the kubeconfig that begin so."""
    from dra_operator.cli.kubectl.requests import ReadingError, connect

    try:
        names = connect(_options(ctx)).contexts()
    except ReadingError:
        names = []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _options(ctx: click.Context) -> "Options":
    from dra_operator.cli.kubectl.options import Options

    given: dict[str, Any] = ctx.params
    return Options(
        given.get("kubeconfig") or "",
        given.get("context") or "",
        given.get("as_user") or "",
        given.get("as_groups") or (),
        given.get("as_uid") or "",
        timeout=_SECONDS,
    )


def _names(ctx: click.Context, kind: str) -> Iterable[str]:
    from dra_operator.api.kinds import KINDS
    from dra_operator.cli.kubectl.reading import read_names
    from dra_operator.cli.kubectl.requests import ReadingError, RefusedError, connect

    given = ctx.params
    try:
        kubectl = connect(_options(ctx))
        namespace = KINDS[kind].namespaced and (given.get("namespace") or kubectl.context().namespace)
        return sorted(read_names(kubectl, KINDS[kind], namespace or ""))
    except (ReadingError, RefusedError):
        # What goes wrong would stand in the middle of the line that is being written.
        return ()
