"""`dra-operator config`: the settings in force, and the page about them."""

from collections.abc import Mapping
from typing import Annotated

import typer
import yaml

from dra_operator.cli.flags import load_or_exit, with_settings
from dra_operator.controller.settings import markdown

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
@with_settings
def config(
    config: str | None,
    flags: Mapping[str, str],
    check: Annotated[bool, typer.Option("--check", help="Only check; print nothing if all is well.")] = False,  # noqa: FBT002
    page: Annotated[bool, typer.Option("--markdown", help="Print docs/settings.md instead.")] = False,  # noqa: FBT002
) -> None:
    """Print the settings in force as a configuration file, and where each was set."""
    if page:
        typer.echo(markdown(), nl=False)
        return
    loaded = load_or_exit(flags, config)
    if check:
        return
    for name, value in loaded.settings.model_dump().items():
        line = yaml.safe_dump({name: value}, default_flow_style=False).strip()
        typer.echo(f"{line}  # {loaded.origins.get(name, 'default')}")
