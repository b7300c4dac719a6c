"""Runs as event files of TensorBoard, one folder per run. The same runs give the same bytes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from silobench.analysis.flat.needed import needed
from silobench.analysis.flat.scalars import began, choices, file_name, scalars
from silobench.analysis.flat.tables import Runs
from silobench.atomic import replace_atomically
from silobench.runs.folders import need_no_link
from silobench.runs.stored import StoredRun

_FILE = "events.out.tfevents.0000000000.silobench"  # TensorBoard reads files of this form; time and host are not in it
_VERSION = "brain.Event:2"


def write_events(runs: Runs, folder: Path) -> list[Path]:
    """Write an event file per run: its numbers by round, and its choices as hyperparameters and as text."""
    _event_pb2()  # says at once if the package is missing
    return [_write(run, folder / file_name(run)) for run in runs]


def _write(run: StoredRun, folder: Path) -> Path:
    import io

    writer, content = needed("tensorboard.summary.writer.record_writer", "tensorboard", "tensorboard"), io.BytesIO()
    records = writer.RecordWriter(content)
    for event in _events(run):
        records.write(event.SerializeToString())
    need_no_link(folder).mkdir(parents=True, exist_ok=True)
    replace_atomically(folder / _FILE, content.getvalue())
    return folder


def _events(run: StoredRun) -> Iterator[Any]:
    event, start = _event_pb2().Event, began(run)
    yield event(wall_time=start, file_version=_VERSION)
    yield event(wall_time=start, step=0, summary=_text_summary(run))
    yield event(wall_time=start, step=0, summary=_hyperparameters(run, start))
    spent = 0.0
    for round, values in scalars(run):
        spent += values.get("seconds", 0.0)
        yield event(wall_time=start + spent, step=round, summary=_scalar_summary(values))


def _event_pb2() -> Any:
    return needed("tensorboard.compat.proto.event_pb2", "tensorboard", "tensorboard")


def _summary_pb2() -> Any:
    return needed("tensorboard.compat.proto.summary_pb2", "tensorboard", "tensorboard")


def _scalar_summary(values: dict[str, float]) -> Any:
    """Return numbers under tags of two parts: TensorBoard groups tags by the part before the slash."""
    pb2, summary = _summary_pb2(), _summary_pb2().Summary()
    metadata = needed("tensorboard.plugins.scalar.metadata", "tensorboard", "tensorboard")
    for name, value in values.items():
        summary.value.add(
            tag=tag_of(name),
            tensor=_tensor(float(value)),
            metadata=metadata.create_summary_metadata(display_name="", description=""),
        )
    assert isinstance(summary, pb2.Summary)
    return summary


def tag_of(column: str) -> str:
    """Return the tag of a column.

    >>> tag_of("metric.accuracy"), tag_of("bytes_up")
    ('metric/accuracy', 'round/bytes_up')
    """
    group, dot, name = column.partition(".")
    return f"{group}/{name}" if dot else f"round/{column}"


def _tensor(value: Any) -> Any:
    """Return a tensor message; numbers are doubles, so that they are those of the record."""
    types = needed("tensorboard.compat.proto.types_pb2", "tensorboard", "tensorboard")
    tensor = needed("tensorboard.compat.proto.tensor_pb2", "tensorboard", "tensorboard").TensorProto
    shape = needed("tensorboard.compat.proto.tensor_shape_pb2", "tensorboard", "tensorboard").TensorShapeProto
    if isinstance(value, float):
        return tensor(dtype=types.DT_DOUBLE, double_val=[value], tensor_shape=shape())
    return tensor(dtype=types.DT_STRING, string_val=[value.encode()], tensor_shape=shape())


def _text_summary(run: StoredRun) -> Any:
    """Return the choices of a run as a Markdown table."""
    metadata = needed("tensorboard.plugins.text.metadata", "tensorboard", "tensorboard")
    lines = ["| choice | value |", "|---|---|", *(f"| {name} | `{text}` |" for name, text in choices(run).items())]
    summary = _summary_pb2().Summary()
    summary.value.add(
        tag="choices",
        tensor=_tensor("\n".join(lines)),
        metadata=metadata.create_summary_metadata(display_name="", description=""),
    )
    return summary


def _hyperparameters(run: StoredRun, start: float) -> Any:
    """Return the choices of a run as the page of hyperparameters reads them."""
    hyper = needed("tensorboard.plugins.hparams.summary_v2", "tensorboard", "tensorboard")
    return hyper.hparams_pb(choices(run), trial_id=run.facts.id, start_time_secs=start)
