"""Hooks of mkdocs: what the site has beside `docs/`, and where links out of `docs/` lead.

Pages of other folders are pages of the site as well, and files that pages tell people to apply are copied and in one
archive, so that who has the built site alone needs nothing else.
"""

import gzip
import io
import os
import posixpath
import re
import tarfile
from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "charts/dra-operator/README.md": "chart.md",
    "examples/README.md": "examples.md",
    "examples/questions/README.md": "questions.md",
}
"""Pages of the repository outside `docs/`, and their names in the site."""
FOLDERS = ("charts", "crds", "examples", "manifests")
"""What people apply: copied below `files/`, and packed as `files/dra-operator.tar.gz`."""
ARCHIVE = "files/dra-operator.tar.gz"
_NOT_LINKS = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")


@event_priority(100)  # before llmstxt, which makes Markdown of all pages that it finds
def on_files(files: Files, config: Any) -> Files:
    """Add the pages and files from outside `docs/`."""
    for source, name in PAGES.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    for path in _applied():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix != ".md" and not path.is_symlink():
            files.append(File.generated(config, f"files/{name}", abs_src_path=str(path)))
    files.append(File.generated(config, ARCHIVE, content=_archive()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links that leave `docs/` to what the site has of them."""
    here = Path(page.file.abs_src_path).relative_to(ROOT)
    parts = _NOT_LINKS.split(markdown)
    # Every second part is code, in which nothing is a link.
    parts[::2] = [
        _LINK.sub(lambda found: site_link(here, page.file.src_uri, found[1]), part) for part in parts[::2]
    ]
    return "".join(parts)


def site_link(source: Path, page: str, link: str) -> str:
    """Return a link of `source`, a path below the root, as it is on a page of the site.

    What the site does not have stays as it is, so that a strict build names it.
    """
    target = posixpath.normpath(posixpath.join(source.parent.as_posix(), link))
    if target.startswith("docs/"):
        found = target.removeprefix("docs/")
    elif target in PAGES:
        found = PAGES[target]
    elif target.split("/")[0] in FOLDERS and (ROOT / target).is_file():
        found = f"files/{target}"
    elif target.split("/")[0] in FOLDERS:
        found = ARCHIVE
    else:
        return link
    return posixpath.relpath(found, posixpath.dirname(page) or ".")


def _applied() -> list[Path]:
    """Return the files and the links to folders below `FOLDERS`, sorted."""
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    return sorted(path for path in found if path.is_file() or path.is_symlink())


def _archive() -> bytes:
    """Return the files that people apply as one archive, the same bytes for the same files."""
    packed = io.BytesIO()
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=epoch) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in _applied():
            entry = tarfile.TarInfo(f"dra-operator/{path.relative_to(ROOT).as_posix()}")
            entry.mtime, entry.mode = epoch, 0o644
            if path.is_symlink():  # the chart's manifests are those of the folder
                entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
                archive.addfile(entry)
            else:
                entry.size = path.stat().st_size
                archive.addfile(entry, io.BytesIO(path.read_bytes()))
    return packed.getvalue()
