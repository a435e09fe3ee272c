"""Which views of a pool have a device, and where.

Most pools have one view, and it is that one. A pool of many slices has a view a node: whoever takes a device has to
find the few views that show it without asking thousands. Views are kept by slice and slices by device, so that a slice
that a hundred nodes see is entered once. It is kept up to date as views come and go, so no claim has to wait for it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dra_operator.inventory import PoolView, Slice


@dataclass(frozen=True, slots=True)
class OnlyView:
    """The only view of a pool, which needs no index."""

    view: PoolView

    def with_any(self, devices: Iterable[str]) -> Iterable[tuple[PoolView, int]]:
        """Return the view with the set of those of some devices that it has, or nothing if it has none of them."""
        view, here = self.view, 0
        for position in map(view.positions.get, devices):
            if position is not None:
                here |= 1 << position
        return ((view, here),) if here else ()

    def each(self, devices: Iterable[str]) -> Iterator[tuple[str, PoolView, int]]:
        """Yield the view with each of some devices that it has, by name and as a set."""
        known = self.view.positions
        for device in devices:
            if (position := known.get(device)) is not None:
                yield device, self.view, 1 << position


@dataclass(slots=True)
class ViewIndex:
    """The views of one pool by the devices they have. A name may stand in several slices, one a node.

    `_slices` has the serial numbers of the slices with a name: most names stand in one slice, and all names of that one
    share a tuple; of those in thousands of slices each is found at once.
    """

    _views: dict[int, dict[PoolView, None]] = field(default_factory=dict)
    _slices: dict[str, tuple[int] | dict[int, None]] = field(default_factory=dict)

    def enter(self, view: PoolView) -> None:
        """Add a view."""
        for slice_ in view.slices:
            views = self._views.get(slice_.serial)
            if views is None:
                views = self._views[slice_.serial] = {}
                self._enter_names(slice_)
            views[view] = None

    def leave(self, view: PoolView) -> None:
        """Take out a view; nothing happens if it is not there."""
        for slice_ in view.slices:
            views = self._views.get(slice_.serial)
            if views is None:
                continue
            views.pop(view, None)
            if not views:
                del self._views[slice_.serial]
                self._drop_names(slice_)

    def with_any(self, devices: Iterable[str]) -> Iterable[tuple[PoolView, int]]:
        """Return the views that have any of some devices, each with the set of those."""
        found: dict[PoolView, int] = {}
        for device in devices:
            for serial in self._slices.get(device, ()):
                for view in self._views[serial]:
                    found[view] = found.get(view, 0) | 1 << view.positions[device]
        return found.items()

    def each(self, devices: Iterable[str]) -> Iterator[tuple[str, PoolView, int]]:
        """Yield the views that have any of some devices, with each of those by name and as a set."""
        for device in devices:
            for serial in self._slices.get(device, ()):
                for view in self._views[serial]:
                    yield device, view, 1 << view.positions[device]

    def _enter_names(self, slice_: Slice) -> None:
        entry = (slice_.serial,)
        for name in slice_.names:
            known = self._slices.setdefault(name, entry)
            if isinstance(known, dict):
                known[slice_.serial] = None
            elif known is not entry:
                self._slices[name] = dict.fromkeys((*known, slice_.serial))

    def _drop_names(self, slice_: Slice) -> None:
        for name in slice_.names:
            known = self._slices[name]
            if isinstance(known, dict) and len(known) > 1:
                del known[slice_.serial]
            else:
                del self._slices[name]
