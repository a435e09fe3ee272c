"""`dra-operator config`: the settings in force; and the settings as flags, one for each, made from its declaration.

A flag takes its value as text, so that a value which is not allowed is reported by the settings themselves, in the same
words wherever it came from.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args, get_origin

import click
import yaml

from dra_operator.cli.output import refuse
from dra_operator.controller.settings import LoadedSettings, Settings, SettingsError, flag, load, markdown


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command a flag for each setting; it gets what was given as `flags`, and the file as `config`."""

    def call(config: str | None, **given: Any) -> None:
        flags = {name: given.pop(name) for name in Settings.model_fields}
        command(
            config=config, flags={name: value for name, value in flags.items() if value is not None}, **given
        )

    call.__doc__ = command.__doc__
    for name, field in reversed(Settings.model_fields.items()):
        text = f"{field.description} Default: {field.default or 'empty'}."
        call = click.option(flag(name), name, metavar=_metavar(name), help=text)(call)
    return click.option("--config", metavar="FILE", help="Configuration file, YAML.")(call)


def load_or_exit(flags: Mapping[str, str], config: str | None) -> LoadedSettings:
    """Return the settings; print what is wrong with them and exit with 2 if they cannot be used."""
    try:
        return load(flags, config)
    except SettingsError as error:
        refuse(*error.problems)


def _metavar(name: str) -> str:
    """Return a short word for what a setting may be: its choices, or NUMBER, or TEXT."""
    annotation = Settings.model_fields[name].annotation
    if get_origin(annotation) is Literal:
        return "|".join(get_args(annotation))
    return "NUMBER" if annotation in (int, float) else "TEXT"


@click.command("config")
@click.option("--check", is_flag=True, help="Only check; print nothing if all is well.")
@click.option("--markdown", "page", is_flag=True, help="Print docs/settings.md instead.")
@with_settings
def app(*, config: str | None, flags: Mapping[str, str], check: bool, page: bool) -> None:
    """Print the settings in force as a configuration file, and where each was set."""
    if page:
        click.echo(markdown(), nl=False)
        return
    loaded = load_or_exit(flags, config)
    if check:
        return
    for name, value in loaded.settings.model_dump().items():
        line = yaml.safe_dump({name: value}, default_flow_style=False).strip()
        click.echo(f"{line}  # {loaded.origins.get(name, 'default')}")
