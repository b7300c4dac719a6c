"""Cache of parsed datasets: arrays are stored beside the source files and memory-mapped by later loads."""

import functools
import hashlib
import json
import logging
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from silobench.data.dataset import Dataset, Split
from silobench.data.store.directory import Files, manifest_of, require, sha256
from silobench.errors import DataError

_LOG = logging.getLogger("silobench")
_WEEK = 7 * 24 * 3600.0


def stored(name: str, read: Callable[..., Dataset], form: str = "", **arguments: Any) -> Dataset:
    """Return a dataset of the catalogue: from the cache if possible, else by calling ``read(files, **arguments)``.

    The cache key covers the arguments, the checksums of the files and the code of the readers. A cached dataset is used
    only if its own checksum is right.
    """
    files = require(name, form)
    if not files.managed:
        return read(files, **arguments)
    folder = files.root / ".cache" / _cache_key(files, arguments)
    cached = _read_cache(folder)
    if cached is not None:
        return cached
    _LOG.info("reading %s from its files; later loads use the cached arrays", name)
    dataset = read(files, **arguments)
    if _cache_key(require(name, form), arguments) != folder.name:
        raise DataError(f"the files of {name} changed while they were read: try again.")
    with suppress(OSError):  # the dataset is usable without a cache, for example on a full disk
        _write_cache(folder, dataset)
    return dataset


def _cache_key(files: Files, arguments: Mapping[str, Any]) -> str:
    manifest = manifest_of(files)
    sums = [(name, *(manifest.sums(name) or (sha256(files[name]),))) for name in files.names]
    needs = [_cache_key(require(other), {}) for other in files.entry.needs]
    facts = [files.entry.name, files.entry.licence, files.form, sorted(arguments.items()), sums, needs]
    return f"{_code_digest()}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}"


@functools.cache
def _code_digest() -> str:
    """Return a digest of the readers and the libraries they use: other code may give other arrays."""
    libraries = [f"{name} {metadata.version(name)}" for name in ("numpy", "scipy", "scikit-learn", "pillow", "pyarrow")]
    digest = hashlib.sha256(" ".join(libraries).encode())
    package = Path(__file__).parents[1]
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.csv")]):
        if path.stem not in ("catalog", "download", "fetch", "sdists"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to write to. It gets its name `folder` once the block has succeeded, so it is never half full."""
    part = folder.with_name(f".part-{secrets.token_hex(8)}")
    part.mkdir(parents=True)
    try:
        yield part
        part.replace(folder)
    except OSError:
        if not folder.exists():  # another process wrote the same cache first
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write_cache(folder: Path, dataset: Dataset) -> None:
    with new_folder(folder) as part:
        splits = {}
        for side, split in (("train", dataset.train), ("test", dataset.test)):
            splits[side] = {"shape": list(split.x.shape), "sparse": sparse.issparse(split.x), "groups": [*split.groups]}
            for what, array in _named_arrays(split):
                np.save(part / f"{side}-{what}.npy", array, allow_pickle=False)
        fields = (
            "name", "classes", "licence", "notes", "defaults", "task", "columns", "vocabulary", "augment", "target",
            "unit", "owners", "alignment",
        )  # fmt: skip
        facts = {key: getattr(dataset, key) for key in fields}
        meta = {"facts": facts, "splits": splits, "checksum": dataset.checksum}
        (part / "meta.json").write_text(json.dumps({**meta, "digest": _digest(meta)}), encoding="utf-8")
    for other in folder.parent.iterdir():  # left by older code, or by a process that was killed
        if not other.name.startswith(folder.name[:9]) and time.time() - other.stat().st_mtime > _WEEK:
            shutil.rmtree(other, ignore_errors=True)


def _digest(meta: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(meta).encode()).hexdigest()


def _named_arrays(split: Split) -> Iterator[tuple[str, NDArray[Any]]]:
    if sparse.issparse(split.x):
        yield from (("data", split.x.data), ("indices", split.x.indices), ("indptr", split.x.indptr))
    else:
        yield "x", split.x
    yield "y", split.y
    for place, ids in enumerate(split.groups.values()):
        yield f"group{place}", ids


def _read_cache(folder: Path) -> Dataset | None:
    if not folder.is_dir():
        return None
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        if meta.pop("digest") != _digest(meta):
            raise ValueError("meta.json is damaged")
        splits = [_read_split(folder, side, meta["splits"][side]) for side in ("train", "test")]
        facts: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in meta["facts"].items()}
        facts["owners"] = {owner: tuple(features) for owner, features in facts["owners"].items()}
        dataset = Dataset(train=splits[0], test=splits[1], **facts)
        if dataset.checksum == meta["checksum"]:  # not wasted: a run needs the checksum, and the property caches it
            return dataset
    except MemoryError:
        return None  # the cache itself may be good
    except Exception:  # numpy raises many types of error for a truncated or foreign file
        pass
    shutil.rmtree(folder, ignore_errors=True)
    return None


def _read_split(folder: Path, side: str, facts: Mapping[str, Any]) -> Split:
    def array(what: str) -> NDArray[Any]:
        # Memory-mapped, so that all processes share it; copy-on-write, because torch warns about read-only arrays.
        mapped: NDArray[Any] = np.load(folder / f"{side}-{what}.npy", mmap_mode="c", allow_pickle=False)
        return mapped

    if facts["sparse"]:
        x = sparse.csr_matrix((array("data"), array("indices"), array("indptr")), shape=facts["shape"], copy=False)
    else:
        x = array("x")
    return Split(x, array("y"), {level: array(f"group{place}") for place, level in enumerate(facts["groups"])})
