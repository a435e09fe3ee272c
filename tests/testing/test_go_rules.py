"""The table of declared rules is what the published sources say."""

from pathlib import Path

from dra_operator.testing import validation

from . import go_rules
from .test_go_types import VERSION, module_cache

__all__ = ["module_cache"]


def test_the_table_is_made_from_the_published_sources(module_cache: Path) -> None:
    """rules.json is exactly what `go_rules` makes of k8s.io/api."""
    shipped = Path(validation.__file__).with_name("rules.json").read_text(encoding="utf-8")

    assert go_rules.render(module_cache, VERSION) == shipped
