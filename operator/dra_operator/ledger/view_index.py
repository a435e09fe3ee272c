"""Which views of a pool have a device.

Most pools have one view, and it is that one. A pool of many slices has a view a node: whoever takes a device has to
find the few views that show it without asking thousands. Views are kept by slice and slices by device, so that a slice
that a hundred nodes see is entered once. It is kept up to date as views come and go, so no claim has to wait for it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dra_operator.inventory import PoolView, Slice


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
        for content in view.slices:
            views = self._views.get(content.serial)
            if views is None:
                views = self._views[content.serial] = {}
                self._enter_names(content)
            views[view] = None

    def leave(self, view: PoolView) -> None:
        """Take out a view; nothing happens if it is not there."""
        for content in view.slices:
            views = self._views.get(content.serial)
            if views is None:
                continue
            views.pop(view, None)
            if not views:
                del self._views[content.serial]
                self._drop_names(content)

    def of(self, devices: Iterable[str]) -> Iterable[tuple[PoolView, Sequence[str]]]:
        """Return the views that have any of some devices, and which."""
        found: dict[PoolView, list[str]] = {}
        for device in devices:
            for serial in self._slices.get(device, ()):
                for view in self._views[serial]:
                    if (names := found.get(view)) is None:
                        found[view] = [device]
                    else:
                        names.append(device)
        return found.items()

    def _enter_names(self, content: Slice) -> None:
        entry = (content.serial,)
        if self._slices.keys().isdisjoint(content.names):
            self._slices.update(dict.fromkeys(content.names, entry))
            return
        for name in content.names:
            known = self._slices.setdefault(name, entry)
            if isinstance(known, dict):
                known[content.serial] = None
            elif known is not entry:
                self._slices[name] = dict.fromkeys((*known, content.serial))

    def _drop_names(self, content: Slice) -> None:
        for name in content.names:
            known = self._slices[name]
            if isinstance(known, dict) and len(known) > 1:
                del known[content.serial]
            else:
                del self._slices[name]
