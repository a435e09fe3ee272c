"""The table of declared rules is what the published sources say."""

from pathlib import Path

import pytest

from dra_operator.testing import validation

from . import go_rules, go_types
from .test_go_types import VERSION, module_cache

__all__ = ["module_cache"]


def test_the_table_is_made_from_the_published_sources(module_cache: Path) -> None:
    """rules.json is exactly what `go_rules` makes of k8s.io/api."""
    shipped = Path(validation.__file__).with_name("rules.json").read_text(encoding="utf-8")

    assert go_rules.render(module_cache, VERSION) == shipped


@pytest.fixture
def rules(tmp_path: Path) -> dict[str, list[str]]:
    """Return the rules of a struct with one tag of each kind."""
    for folder in go_types.PACKAGES.values():
        module, _, rest = folder.partition("/")
        (tmp_path / f"{module}@v1" / rest).mkdir(parents=True, exist_ok=True)
    source = """
// +enum
// +k8s:beta(since: "1.37")=+k8s:enum
type Colour string

const (
	ColourRed Colour = "Red"
	ColourBlue = Colour("Blue")
)

type Inlined struct {
	// +k8s:maxLength=63
	Text string `json:"text"`
}

type Outer struct {
	Inlined `json:""`
	// Names of things.
	//
	// +k8s:beta(since: "1.37")=+k8s:unique=map
	// +k8s:beta(since: "1.37")=+k8s:listMapKey=name
	// +k8s:beta(since: "1.37")=+k8s:listMapKey=pool
	// +k8s:beta(since: "1.37")=+k8s:maxItems=4
	// +k8s:beta(since: "1.37")=+k8s:optional
	Names []string `json:"names,omitempty"`
	// +k8s:required
	// +k8s:alpha(since: "1.37")=+k8s:maxBytes=4
	Paint Colour `json:"paint"`
	// +k8s:optional
	Plain string `json:"plain,omitempty"`
	// +k8s:ifDisabled(Gate)=+k8s:forbidden
	// +k8s:ifEnabled(Gate)=+k8s:eachKey=+k8s:format=k8s-short-name
	// +k8s:unionMember
	Map map[string]string `json:"map"`
	// +k8s:unionMember
	Colours []Colour `json:"colours"`
}
"""
    file = tmp_path / "api@v1/resource/v1/types.go"
    file.write_text(source)
    sources = go_types.Sources(tmp_path, "v1")
    return go_rules.rules_of(sources, "resource/v1", source, ["resource/v1.Outer"])["resource/v1.Outer"]


def test_rules_stand_in_the_order_of_the_questions(rules: dict[str, list[str]]) -> None:
    """What ends the questions comes first, the type of the field last; alpha, optional, formats are left out."""
    assert rules == {
        "": ["union=map,colours"],
        "text": ["maxLength=63"],
        "names": ["maxItems=4", "unique=name,pool"],
        "paint": ["required", "enum=Blue,Red"],
        "colours": ["eachVal:enum=Blue,Red"],
    }
