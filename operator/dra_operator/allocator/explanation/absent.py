"""Absent names: attributes that a constraint compares or a selector asks for, and devices do not have; and classes.

A device without the attribute satisfies no constraint on it, and no selector that guards it. So a name that is misspelt
looks like a cluster whose devices are free and yet never fit, unless somebody counts who has it.
Source: docs/dra-semantics 3.7.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import SequenceMatcher, get_close_matches

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.explanation.published import Published
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.plan import Alternative
from dra_operator.api.text import listed
from dra_operator.inventory import Slice, bits

_NEAR = 0.7
_MOST_NAMES = 256
"""Among more names nothing is near: they differ from device to device, and each takes 10 microseconds to compare."""


def tell_absent(
    attribute: str,
    alternatives: Sequence[Alternative],
    published: Published,
    candidates: Candidates,
    budget: Budget,
    *,
    beside: Sequence[Sequence[Alternative]],
    derived: Collection[str],
) -> tuple[int, str]:
    """Return on how many of the devices that alternatives select an attribute is, and a clause that says so.

    The clause is empty where all have it, and where an alternative derives it. A name that was probably meant is told
    if devices for all of `beside` have it, too: the alternatives of each other request that is to have it; or if it is
    one of `derived`, the attributes that requests of the claim derive. If the attribute itself is, no other was meant.
    Raises AbortedError if the time is used up.
    """
    if any(attribute in item.derived for item in alternatives):
        return 1, ""
    total = having = 0
    matching: list[tuple[Slice, int]] = []
    counts: dict[object, int] = {}
    for content in published.slices():
        if selected := selected_devices(content, alternatives, candidates, budget):
            matching.append((content, selected))
            total += selected.bit_count()
            having += _having(content, selected, attribute, counts)
    if having == total:
        return having, ""
    text = f"attribute {attribute} is on {having} of {total} matching device{'s' if total != 1 else ''}"
    if having or attribute in derived:
        return having, text
    names = {name for content, selected in matching for name in _names(content, selected)}
    for others in beside:
        names &= {
            name
            for content in published.slices()
            for name in _names(content, selected_devices(content, others, candidates, budget))
        }
    near = near_name(attribute, names.union(derived))
    return having, f'{text}; did you mean "{near}"?' if near else text


def names_on(
    expressions: Sequence[str], published: Published, candidates: Candidates, budget: Budget
) -> frozenset[str]:
    """Return what devices that some selectors select publish, as `attributes/domain/id` and `capacity/domain/id`.

    Raises AbortedError if the time is used up.
    """
    found: set[str] = set()
    selectors = [candidates.selectors.get(expression) for expression in expressions]
    for content in published.slices():
        selected = content.every
        for selector in selectors:
            selected, _ = selector.ask(content, selected, budget)
        if selected:
            for table, columns in (("attributes", content.attributes), ("capacity", content.capacity)):
                bare = f"{table}/{content.driver}"
                found.update(f"{table}/{name}" if "/" in name else f"{bare}/{name}" for name in columns)
    return frozenset(found)


def tell_unknown(reads: Iterable[str], published: frozenset[str]) -> str:
    """Return a clause about each attribute or capacity that is not published, where another was probably meant."""
    texts: list[str] = []
    for path in sorted(set(reads) - published):
        table, _, name = path.partition("/")
        names = {each.partition("/")[2] for each in published if each.startswith(f"{table}/")}
        if name and (near := near_name(name, names)):
            texts.append(f'; for {name}, did you mean "{near}"?')
    return "".join(texts)


def find_empty(published: Published) -> dict[str, str]:
    """Return a clause about the slices of each driver that publishes some and no device in them, by driver.

    Slices with counters are not meant to have any.
    """
    empty: dict[str, list[Slice]] = {}
    having: set[str] = set()
    for content in published.slices():
        if content.names:
            having.add(content.driver)
        elif not content.counter_sets:
            empty.setdefault(content.driver, []).append(content)
    return {
        driver: _tell_empty(sorted(slices, key=lambda content: content.name))
        for driver, slices in sorted(empty.items())
        if driver not in having
    }


def _tell_empty(slices: Sequence[Slice]) -> str:
    names = [
        f"{content.name} {f'on {node}' if (node := content.nodes.node_name) else f'in pool {content.pool}'}"
        for content in slices
    ]
    if len(names) == 1:
        return f"its ResourceSlice {names[0]} is empty"
    return f"its {len(names)} ResourceSlices are empty ({listed(names)})"


def selected_devices(
    content: Slice, alternatives: Sequence[Alternative], candidates: Candidates, budget: Budget
) -> int:
    """Return the devices of a slice that belong to the class of an alternative, and that its selectors select."""
    found = 0
    for item in alternatives:
        found |= candidates.select(item.key, content, budget)
    return found


def _having(content: Slice, devices: int, attribute: str, counts: dict[object, int]) -> int:
    """Return how many of some devices have an attribute; what is counted of columns holds for all slices with them."""
    columns = content.attribute_columns(attribute)
    key = (*(column and column.serial for column in columns), devices)
    if (found := counts.get(key)) is None:
        found = counts[key] = sum(
            content.attribute(index, attribute) is not None for index in bits.each(devices)
        )
    return found


def _names(content: Slice, devices: int) -> Iterator[str]:
    """Return the attributes of some devices, each as `domain/id`."""
    for name, column in content.attributes.items():
        if any(column.values[index] is not None for index in bits.each(devices)):
            yield name if "/" in name else f"{content.driver}/{name}"


def near_name(attribute: str, names: set[str]) -> str:
    """Return the name that was probably meant: the same in another domain, or a similar one in the same; or nothing."""
    domain, _, identifier = attribute.rpartition("/")
    elsewhere = sorted(name for name in names if name.partition("/")[2] == identifier)
    if elsewhere:
        return elsewhere[0]
    # Domains are long, and would make any two names of one domain look alike.
    same = sorted(name.partition("/")[2] for name in names if name.partition("/")[0] == domain)
    close = get_close_matches(identifier, same, 1, cutoff=_NEAR) if len(same) <= _MOST_NAMES else ()
    return f"{domain}/{close[0]}" if close else ""


def near_object(name: str, names: Iterable[str]) -> str:
    """Return the object that was probably meant by one that does not exist, or nothing where none is close.

    A domain that both end in says nothing: typo.example.com is not like gpu.example.com.
    """
    alike = [(_likeness(name.lower(), each.lower()), each) for each in sorted(names)]
    likeness, near = max(alike, key=lambda found: found[0], default=(0.0, ""))
    return near if likeness >= _NEAR else ""


def _likeness(one: str, other: str) -> float:
    mine, theirs = one.split("."), other.split(".")
    while len(mine) > 1 and len(theirs) > 1 and mine[-1] == theirs[-1]:
        mine.pop()
        theirs.pop()
    matcher = SequenceMatcher(None, ".".join(mine), ".".join(theirs))
    # The bounds are quick, and there may be many classes.
    if min(matcher.real_quick_ratio(), matcher.quick_ratio()) < _NEAR:
        return 0.0
    return matcher.ratio()
