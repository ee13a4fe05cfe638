"""Image files below a folder: the file that a path of a data set means, and the pictures of a folder.

The path as written is tried first. Otherwise, the longest suffix of it that is the path of one file below the root
counts. This resolves backslashes, another case of letters, missing file endings and folders of another machine.
"""

import contextlib
import functools
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import PIL.features

from vse.data.places import AddressError, LinkError, as_path, below, spellings
from vse.errors import InputError
from vse.storage import user_files as named_files
from vse.storage.object_store import ObjectStore

_MOST = 1_000_000  # files of a folder that is searched
_COUNTED = 100_000  # files of a folder that is listed only to count what no address means


class ImageFiles:
    """The files below a root, by their paths."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._by_key: dict[str, list[str]] = {}
        self._by_name: dict[str, list[str]] = {}
        for path in sorted(paths):
            key = _key(path)
            stem, ending = os.path.splitext(key)
            for each in (key, stem) if ending in ENDINGS else (key,):
                self._by_key.setdefault(each, []).append(path)
            self._by_name.setdefault(os.path.basename(stem), []).append(path)

    def meant(self, uri: str) -> Sequence[str]:
        """The paths of files that an address may mean; none for web addresses and paths that go upwards."""
        steps = _steps(uri)
        for start in range(len(steps)):
            end = "/".join(steps[start:])
            files = self._by_key.get(_key(end), [])
            if files:
                return [end] if end in files else files
        return []

    def of_name(self, uri: str) -> Sequence[str]:
        """The paths of files with the name of an address in any folder and with any ending."""
        steps = _steps(uri)
        return self._by_name.get(os.path.splitext(_key(steps[-1]))[0], []) if steps else []


@dataclass(frozen=True, slots=True)
class Located:
    """Addresses that are not files as they are written.

    Attributes:
        elsewhere: the path, below the root, of the file that an address means.
        missing: why there is no such file. Addresses with the same kind of reason are next to each other, the most
            frequent kind first.
        files: the paths of all files below the root; None if it was not listed.
    """

    elsewhere: Mapping[str, str]
    missing: Mapping[str, str]
    files: Collection[str] | None = field(default=None, compare=False, repr=False)


def candidate_paths(root: str, uri: str) -> Iterator[str]:
    """Paths to try for the image `uri` of a data set: first as written (`spellings`), then the only file that matches.

    The folder is listed only for the matching file, once per process. Raises AddressError as `below` does.
    """
    refused = None
    try:
        yield from spellings(root, uri)
    except AddressError as error:
        refused = error
    files = _kept(root) if root and _steps(uri) else None
    meant = files.meant(uri) if files is not None else []
    if len(meant) == 1:
        with contextlib.suppress(AddressError):  # a link that leads out
            yield below(root, meant[0])
            return
    if refused is not None:
        raise refused


def is_image_file(root: str, uri: str) -> bool:
    """Whether an address means a file below a root; the folder is listed once per process."""
    files = _kept(root) if root else None
    return files is not None and bool(files.meant(uri))


def locate(root: str, uris: Iterable[str]) -> Located:
    """Find the images of a data set that are not files as written; empty without a root, or if it cannot be listed.

    Raises InputError if two addresses mean one file, because one image would be in the data set twice.
    """
    uris = [uri for uri in dict.fromkeys(uris) if not uri.startswith("scene:")]
    listed = frozenset(_listed(root) or ()) if named_files.is_remote(root) else None
    if not root or listed == frozenset():
        return Located({}, {})
    absent = [uri for uri in uris if not _is_there(root, uri, listed)]
    paths = (_listed(root) if listed is None else listed) if absent else None
    if paths is None:
        _refuse_one_for_two({}, uris, root)
        return Located({}, {}, listed)
    files, elsewhere, reasons = ImageFiles(paths), dict[str, str](), dict[str, dict[str, str]]()
    for uri in absent:
        meant = files.meant(uri)
        if len(meant) == 1 and _is_there(root, meant[0], listed):
            elsewhere[uri] = meant[0]
        else:
            kind, reason = _why(root, uri, meant, files)
            reasons.setdefault(kind, {})[uri] = reason
    _refuse_one_for_two(elsewhere, uris, root)
    frequent = sorted(reasons.values(), key=len, reverse=True)
    return Located(elsewhere, {uri: reason for kind in frequent for uri, reason in kind.items()}, paths)


def unnamed_files(root: str, uris: Iterable[str], located: Located, without: str = "") -> int:
    """The number of image files below a root that no address means; 0 if it holds too many files to count.

    A folder on S3 is counted only if `locate` listed it.

    Args:
        root: folder of the images.
        uris: addresses of all images.
        located: what `locate` returned for them.
        without: a folder whose files do not count, such as the workspace.
    """
    paths = located.files
    if paths is None:
        paths = None if not root or named_files.is_remote(root) else _listed(root, _COUNTED)
    named, base = set(located.elsewhere.values()), f"{unquote(urlsplit(root).path) if '://' in root else root}/"
    for uri in uris:
        path = unquote(urlsplit(uri).path) if uri.startswith("file://") else uri.removeprefix(f"{root}/")
        named.add(unicodedata.normalize("NFC", os.path.normpath(path.removeprefix(base))))
    skipped = f"{os.path.relpath(without, base)}/" if without and not named_files.is_remote(root) else "../"
    return sum(
        path.lower().endswith(ENDINGS)
        and not _is_hidden(path)
        and not path.startswith(skipped)
        and unicodedata.normalize("NFC", path) not in named
        for path in paths or ()
    )


def _refuse_one_for_two(elsewhere: Mapping[str, str], uris: Sequence[str], root: str) -> None:
    """Raises InputError if two addresses mean one file; relative paths in normal form that exist cannot."""
    if not elsewhere and not any(_is_absolute(uri) for uri in uris):
        return
    owners, twice = dict[str, str](), list[tuple[str, str, str]]()
    for uri in uris:
        with contextlib.suppress(AddressError):
            place = below(root, elsewhere.get(uri, uri))
            if (other := owners.setdefault(place, uri)) != uri:
                twice.append((place, other, uri))
    if twice:
        place, other, uri = twice[0]
        more = f" ({len(twice)} files have two names)" if len(twice) > 1 else ""
        raise InputError(f"{place}: the images {other!r} and {uri!r} both mean this file; name it one way{more}")


def _is_absolute(uri: str) -> bool:
    return os.path.isabs(uri) or "://" in uri


def _why(root: str, uri: str, meant: Sequence[str], files: ImageFiles) -> tuple[str, str]:
    """(kind, reason) that an address is no file."""
    if re.match(r"https?://", uri):
        return "web", "it is a web address; images are not downloaded, name the paths of downloaded files"
    outside = False
    try:
        below(root, uri)
    except LinkError as error:
        return "link", f"it is a symbolic link that leads out; data.links={error.folder} allows links into that folder"
    except AddressError:
        outside = True
    if len(meant) > 1:
        return "several", f"it may mean {meant[0]!r} or {meant[1]!r}"
    if named := [path for path in files.of_name(uri) if path not in meant]:
        same = os.path.splitext(_key(named[0]))[1] == os.path.splitext(_key(uri))[1]
        name = "with its folder" if same else "with its ending"
        return ("folder" if same else "ending"), f"no such file, but {named[0]!r} exists; name it {name}"
    foreign = re.match(r"/|file:" if outside else r"[A-Za-z]:[\\/]|\\\\", uri)
    if outside and not foreign:
        return "outside", "it leaves this folder"
    if foreign:
        return "foreign", "it is a path of another machine, and no file matches its end"
    return "none", "no file has this or a similar name"


def _is_there(root: str, uri: str, listed: frozenset[str] | None) -> bool:
    """Whether there is a file at an address as written, or an error other than a missing file."""
    with contextlib.suppress(AddressError):
        for place in spellings(root, uri):
            if listed is not None:
                base, mark, options = root.partition("?")
                if not place.startswith(f"{base.rstrip('/')}/"):
                    return True  # in another folder of the root, which is not listed
                if place.removesuffix(mark + options).removeprefix(f"{base.rstrip('/')}/") in listed:
                    return True
                continue
            try:
                os.lstat(place)  # a dangling link is reported when it is opened
            except (FileNotFoundError, NotADirectoryError, ValueError):
                continue
            except OSError:
                return True  # opening it reports the error
            return True
    return False


def _listed(root: str, most: int = 0) -> list[str] | None:
    """The paths of all files below a root; None if they are too many or the folder cannot be listed."""
    paths = []
    try:
        for path in _walk(root):
            paths.append(path)
            if len(paths) > (most or _MOST):
                return None
    except (InputError, OSError):
        return None
    return paths


def _walk(root: str) -> Iterator[str]:
    if named_files.is_remote(root):
        yield from (name for name, _ in ObjectStore.open(root).walk())
        return
    base = as_path(root)
    for folder, _, names in os.walk(base):
        below_base = os.path.relpath(folder, base)
        yield from (name if below_base == "." else f"{below_base}/{name}" for name in names)


@functools.lru_cache(maxsize=4)
def _kept(root: str) -> ImageFiles | None:
    paths = _listed(root)
    return None if paths is None else ImageFiles(paths)


def _steps(uri: str) -> list[str]:
    """The parts of a path with slashes or backslashes; empty for other addresses and for paths that go upwards."""
    uri = as_path(uri)
    steps = [step for step in uri.replace("\\", "/").split("/") if step not in ("", ".")]
    return [] if "://" in uri or uri.startswith("scene:") or ".." in steps else steps


def _key(path: str) -> str:
    """The same for names that differ in the case of letters or in how accents are composed."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


_OPTIONAL = {".avif": "avif", ".j2k": "jpg_2000", ".jp2": "jpg_2000", ".webp": "webp"}  # if Pillow was built with it
_ALWAYS = (".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff")
ENDINGS = tuple(sorted([*_ALWAYS, *(ending for ending, part in _OPTIONAL.items() if PIL.features.check(part))]))
_UNREADABLE = {".heic", ".heif", ".jxl", ".svg", ".arw", ".cr2", ".cr3", ".dng", ".nef", ".orf", ".raf", ".rw2"}
_UNREADABLE |= set(_OPTIONAL) - set(ENDINGS)
_NAMED = 5  # endings that the line about other files names
CONVERT = "which cannot be read here; convert it to JPEG"


def unreadable_format(path: str) -> str:
    """The reason why an image file with the ending of this path cannot be read; empty if its format can be read."""
    ending = os.path.splitext(path)[1].lower()
    return f"{ending[1:].upper()} file, {CONVERT}" if ending in _UNREADABLE else ""


def files_below(root: str, endings: tuple[str, ...]) -> list[str]:
    """Sorted paths of the files below a folder, at any depth, that have one of these endings; hidden ones are skipped.

    Raises InputError if a folder on S3 cannot be listed.
    """
    return sorted(path for path in _walk(root) if path.lower().endswith(endings) and not _is_hidden(path))


def picture_files(root: str, key: str) -> tuple[list[str], str]:
    """The picture files below a folder, at any depth, and a line about the other files in it.

    `open_image` reads the paths with this root. Hidden files and folders are skipped silently, because systems keep
    thumbnails there. Links to folders are not followed.

    Args:
        root: a folder or an s3:// address.
        key: the key that names it, for messages.

    Returns:
        Sorted paths of files whose ending is one of `ENDINGS`, and one line that counts the other files by ending with
        the reason why they are skipped. The line is empty if there are none.

    Raises:
        InputError: there is no such folder, or no picture file in it.
    """
    if not named_files.is_remote(root) and not Path(root).is_dir():
        raise InputError(f"{key}={root}: no such folder")
    shown = sorted(path for path in _walk(root) if not _is_hidden(path))
    files = [path for path in shown if path.lower().endswith(ENDINGS)]
    others = _counted(os.path.splitext(path)[1].lower() for path in shown if not path.lower().endswith(ENDINGS))
    if not files:
        raise InputError(f"{key}={root}: holds no image file ({', '.join(ENDINGS)})" + (others and f", but {others}"))
    return files, others and f"{key}={root}: skipped {others}"


def _counted(endings: Iterable[str]) -> str:
    """Numbers of files: unreadable images by ending, then all other files."""
    counts = Counter(endings)
    formats = [(ending, count) for ending, count in counts.most_common() if ending in _UNREADABLE]
    others = counts.total() - sum(count for _, count in formats)
    listed = [f"{count} {ending} {_files(count)}" for ending, count in formats[:_NAMED]]
    parts = [", ".join([*listed, *["..."] * (len(formats) > _NAMED)]) + " (unsupported format; convert to JPEG)"]
    parts = parts if formats else []
    if others:
        parts.append(f"{others} {_files(others)} that {'is not an image' if others == 1 else 'are not images'}")
    return " and ".join(parts)


def _files(count: int) -> str:
    return "file" if count == 1 else "files"


def _is_hidden(path: str) -> bool:
    return any(step.startswith(".") for step in path.split("/"))
