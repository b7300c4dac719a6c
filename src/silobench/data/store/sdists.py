"""Find the address of a package's source archive (sdist) on the index that pip uses.

pip cannot download an sdist without running the package's set-up code. So silobench asks pip only for the address of
its index, reads the index's page of the package, and downloads the archive as a file. Nothing is built or run.
"""

import ast
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit

from silobench.data.store.download import read_page
from silobench.errors import DataError

_SUFFIXES = (".tar.gz", ".zip", ".tar.bz2", ".tar.xz")
_SECTIONS = (":env:", "download", "global")  # of pip's configuration, the strongest first
_DEFAULT_INDEX = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"


def sdist_address(requirement: str) -> str:
    """Return the address of the sdist of a requirement such as ``name==1.0``; raise an error if no index has it."""
    name = requirement.partition("==")[0]
    failures = []
    for index in _indexes():
        page = f"{index.rstrip('/')}/{_normal(name)}/"
        try:
            content, final = read_page(page)
        except DataError as error:
            failures.append(str(error))
            continue
        links = _Links.of(content)
        for link in links:
            address = urldefrag(urljoin(final, link))[0]
            if _is_sdist(unquote(urlsplit(address).path.rsplit("/", 1)[-1]), requirement):
                return address
        failures.append(f"{page} has no source archive of that version among its {len(links)} links")
    raise DataError(f"pip's index has no file of {requirement} ({'; '.join(failures)})")


def _normal(name: str) -> str:
    """Return a package name as indexes write it: lower case, with a hyphen for every run of ``-``, ``_`` and ``.``."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_sdist(file: str, requirement: str) -> bool:
    suffix = next((suffix for suffix in _SUFFIXES if file.endswith(suffix)), "")
    return bool(suffix) and _normal(file.removesuffix(suffix)) == _normal(requirement.replace("==", "-"))


class _Links(HTMLParser):
    """The addresses that a page of an index links to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attributes if tag == "a" and name == "href" and value]

    @classmethod
    def of(cls, content: str) -> list[str]:
        parser = cls()
        parser.feed(content)
        return parser.links


# --- pip's settings ----------------------------------------------------------------------------------


def _indexes() -> list[str]:
    """Return the addresses of pip's indexes: those of its settings, else the one that is built into pip."""
    settings = _settings(_pip("-m", "pip", "config", "list"))
    if settings.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        raise DataError("pip is set to use no index")
    main = settings.get("index-url") or _pip("-c", _DEFAULT_INDEX).strip()
    addresses = [main, *settings.get("extra-index-url", "").split()]
    return [_without_user(address) for address in addresses if urlsplit(address).scheme in ("http", "https")]


def _settings(text: str) -> dict[str, str]:
    """Return the options in the output of ``pip config list``, such as ``global.index-url='https://...'``."""
    options: dict[str, str] = {}
    lines = [re.fullmatch(r"(.+)\.([^.=]+)=('.*'|\".*\")", line.strip()) for line in text.splitlines()]
    for section in reversed(_SECTIONS):
        options |= {line[2]: str(ast.literal_eval(line[3])) for line in lines if line and line[1] == section}
    return options


def _without_user(address: str) -> str:
    """Return an address without a user name and password, which must not get into messages and records."""
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _pip(*arguments: str) -> str:
    """Return what a command of pip's Python prints."""
    command = [sys.executable, *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise DataError("pip does not work on this machine, so its index is not known") from error
