"""Datasets from objects in memory, and every type of array that `Dataset` converts or refuses."""

import datetime
import decimal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from scipy import sparse
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset, Subset, TensorDataset

import silobench as sb

ROWS = 60
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(ROWS, 3)), np.arange(ROWS) % 2


def trained(data: sb.Dataset) -> None:
    """Train one round: the rows are of types that networks read."""
    federation = sb.federate(data, "iid", parties=2)
    model = "bag" if data.vocabulary else "linear"
    [record] = sb.rounds(sb.Method(sb.fedavg(), sb.sgd(lr=0.1)), federation, sb.task(model, data), rounds=1)
    assert np.isfinite(record.loss)


def refused(call: Callable[[], Any], *fragments: str) -> None:
    with pytest.raises(sb.DataError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))
    assert [part for part in fragments if part not in message] == []


# --- Dataset -----------------------------------------------------------------------------------------


def toy(x: Any, y: Any, **facts: Any) -> sb.Dataset:
    return sb.Dataset("toy", sb.Split(x, y), sb.Split(x, y), facts.pop("classes", ("no", "yes")), **facts)


EQUAL = toy(X.astype(np.float32), Y.astype(np.int64))


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (X, Y), (X.tolist(), Y.tolist()), (torch.tensor(X), torch.tensor(Y)), (X, Y.astype(np.int32)),
        (X, Y.astype(float)), (X, Y > 0), (X, np.array(["no", "yes"])[Y]), (X, [["no", "yes"][y] for y in Y]),
        (X.astype(object), Y[:, None]), (pd.DataFrame(X), pd.Series(Y)), (tuple(map(tuple, X)), tuple(Y)),
        (list(torch.tensor(X)), torch.tensor(Y).to(torch.uint8)),
    ],
)  # fmt: skip
def test_a_dataset_converts_its_arrays(x: Any, y: Any) -> None:
    data = toy(x, y)
    assert data.checksum == EQUAL.checksum
    assert data.licence == "the user's own"
    trained(data)


def test_other_numbers_become_float32_and_pixels_stay_bytes() -> None:
    for x in (X.astype(np.float16), X.astype(int), X > 0, torch.tensor(X).bfloat16(), X.astype(np.longdouble)):
        assert toy(x, Y).train.x.dtype == np.float32
    assert toy((X > 0).astype(np.uint8), Y).train.x.dtype == np.uint8
    for matrix in (sparse.csr_matrix(X), sparse.coo_matrix(X), sparse.csc_array(X)):
        rows = toy(matrix, Y).train.x
        assert (rows.format, rows.dtype) == ("csr", np.float32)
        trained(toy(matrix, Y))
    kept = X.astype(np.float32)
    assert toy(kept, Y.astype(np.int64)).train.x is kept


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (lambda: toy(X, Y + 0.5), "labels such as 0.5, which is not the number of a class"),
        (lambda: toy(X, np.array(["no", "maybe"])[Y]), "labels 'maybe', but the classes are no and yes"),
        (lambda: toy(X.astype(str), Y), "features of type <U"),
        (lambda: toy(X * 1j, Y), "features of type complex128"),
        (lambda: toy(X[:, 0], Y), "features of shape (60,)"),
        (lambda: toy([[1], [1, 2]], [0, 1]), "features of different lengths"),
        (lambda: toy(X, np.eye(2)[Y]), "labels of shape (60, 2)"),
        (lambda: toy(3, Y), "features as a int"),
        (lambda: toy(torch.eye(60).to_sparse(), Y), "layout torch.sparse_coo"),
        (lambda: toy(sparse.csr_matrix(X * 1j), Y), "sparse matrix"),
        (lambda: toy(X, ["a"] * ROWS, classes=(), task="regression"), "regression needs numbers"),
        (lambda: toy(X, Y[:-1]), "60 training rows and 59 labels"),
        (lambda: toy(X + np.nan, Y), "NaN"),
        (lambda: sb.Dataset("toy", (X, Y), (X, Y), ("a", "b")), "rows of type tuple: give silobench.Split(x, y)"),
    ],
)
def test_a_dataset_refuses_what_it_cannot_convert(call: Callable[[], Any], fragment: str) -> None:
    refused(call, fragment)


@pytest.mark.parametrize("ids", [pd.Series(["a", "b"] * (ROWS // 2)), np.array(["a", "b"] * (ROWS // 2), object)])
def test_groups_that_are_python_objects_become_texts(ids: Any) -> None:
    split = sb.Split(X, Y, {"ward": ids})
    data = sb.Dataset("toy", split, sb.Split(X, Y), ("no", "yes"))
    assert data.train.groups["ward"].dtype.kind == "U"
    assert len(data.checksum) == 64
    assert [party.samples for party in sb.federate(data, "by-group").parties] == [ROWS // 2] * 2


def test_groups_need_one_value_per_row() -> None:
    for ids in (np.arange(ROWS - 1), np.arange(ROWS + 1), np.ones((ROWS, 2))):
        refused(lambda ids=ids: grouped(ids), "groups of shape", "60 training rows", "one group per row")
    refused(lambda: grouped(np.where(Y, 1, np.nan)), "training groups with missing values")
    refused(lambda: grouped(np.array(["a", None] * (ROWS // 2), object)), "training groups with missing values")
    refused(lambda: sb.from_arrays(X, Y, groups=np.where(Y, 1, np.nan)), "groups with missing values")


def grouped(ids: Any) -> sb.Dataset:
    return sb.Dataset("toy", sb.Split(X, Y, {"ward": ids}), sb.Split(X, Y), ("no", "yes"))


def test_rows_of_words_are_integers_of_the_vocabulary() -> None:
    words, rows = ("<pad>", "<unk>", "good", "bad"), RNG.integers(0, 4, (ROWS, 5))
    for kind, stored in ((np.uint8, np.int64), (np.uint16, np.int64), (np.int8, np.int64), (np.int32, np.int32)):
        data = toy(rows.astype(kind), Y, vocabulary=words)
        assert data.train.x.dtype == stored  # bytes are no pixels here
        trained(data)
    refused(lambda: toy(rows + 1, Y, vocabulary=words), "word numbers from 1 to 4", "of 4 words", "use only 0 to 3")
    refused(lambda: toy(rows - 1, Y, vocabulary=words), "word numbers from -1 to 2")
    assert toy(rows[:, :0], Y, vocabulary=words).shape == (0,)


def test_numbers_to_predict_become_float32() -> None:
    data = toy(X, X[:, 0].tolist(), classes=(), task="regression")
    assert data.train.y.dtype == np.float32
    trained(data)


# --- pandas ------------------------------------------------------------------------------------------


def frame() -> pd.DataFrame:
    table = pd.DataFrame(
        {
            "nullable": pd.array([None if i % 7 == 0 else i for i in range(ROWS)], dtype="Int64"),
            "small": RNG.random(ROWS).astype(np.float32),
            "flag": np.arange(ROWS) % 3 == 0,
            "kind": pd.Categorical(np.arange(ROWS) % 3),
            "when": pd.date_range("2024-01-01", periods=ROWS, tz="Europe/Rome"),
            "span": pd.to_timedelta(np.arange(ROWS), unit="D"),
            "text": np.array(["x", "y"])[np.arange(ROWS) % 2],
            "mixed": [None if i % 5 == 0 else i for i in range(ROWS)],
            "money": [decimal.Decimal(i) / 4 for i in range(ROWS)],
            "day": [datetime.date(2024, 1, 1 + i % 28) for i in range(ROWS)],
            "thin": pd.arrays.SparseArray(np.arange(ROWS) % 5 == 0, fill_value=False),
            "site": np.array(["s2", "s10", "s1"])[np.arange(ROWS) % 3],
        }
    )
    table["died"] = np.array(["no", "yes"])[Y]
    return table


def test_every_type_of_a_frame_becomes_features() -> None:
    data = sb.from_pandas(frame(), label="died", group="site", scale="none")
    assert data.columns == (
        "nullable", "small", "flag", "kind=0", "kind=1", "kind=2", "when (days)", "when (month)", "when (weekday)",
        "span", "text=x", "text=y", "mixed", "money", "day (days)", "day (month)", "day (weekday)", "thin",
    )  # fmt: skip
    whole = {name: np.concatenate([data.train.x, data.test.x])[:, i] for i, name in enumerate(data.columns)}
    assert sorted(whole["money"].tolist()) == [i / 4 for i in range(ROWS)]
    assert sorted(whole["span"].tolist()) == list(range(ROWS))
    assert (whole["thin"].sum(), whole["flag"].sum()) == (12, 20)
    assert set(data.train.groups["site"]) == {"s1", "s2", "s10"}
    trained(sb.from_pandas(frame(), label="died", group="site"))
    trained(sb.from_pandas(frame().dropna(), label="nullable", drop=["site"]))  # a numeric target


def test_test_rows_may_be_another_frame() -> None:
    table = frame()
    data = sb.from_pandas(table.iloc[:40], label="died", group="site", test=table.iloc[40:])
    assert (len(data.train), len(data.test)) == (40, 20)
    assert data.encoder is not None
    np.testing.assert_array_equal(data.encoder.encode(table.iloc[40:]), data.test.x)
    np.testing.assert_array_equal(data.encoder.encode(table.iloc[:40]), data.train.x)
    refused(lambda: sb.from_pandas(table, label="died", test=table.drop(columns="flag")), "no column flag")


@pytest.mark.parametrize(
    ("call", "fragments"),
    [
        (lambda: sb.from_pandas({"a": [1]}, label="a"), ["needs a pandas DataFrame", "type dict"]),
        (lambda: sb.from_pandas(frame(), label="dead"), ["no column 'dead'", "did you mean died?"]),
        (lambda: sb.from_pandas(frame(), label="died", drop=["died"]), ["as the label and as drop"]),
        (lambda: sb.from_pandas(frame().assign(bad=[[1]] * ROWS), label="died"), ["column 'bad' has a list in a cell"]),
        (
            lambda: sb.from_pandas(frame().assign(a=1j, b=[{}] * ROWS, c=pd.interval_range(0, ROWS)), label="died"),
            ["(a, b and c)", "or drop them"],
        ),
        (lambda: sb.from_pandas(frame().iloc[:0], label="died"), ["no rows"]),
        (lambda: sb.from_pandas(frame(), label="died", test=2), ["share between 0 and 1"]),
        (lambda: sb.from_pandas(frame(), label="died", scale="odd"), ["scale must be one of standard, group"]),
        (lambda: sb.from_pandas(frame(), label="died", scale="private", epsilon=-1), ["epsilon must be above 0"]),
        (lambda: sb.from_pandas(frame(), label="died", text="text", text_features=1), ["text_features"]),
        (lambda: sb.from_pandas(pd.concat([frame(), frame()], axis=1), label="died"), ["two columns of the same name"]),
        (lambda: sb.from_pandas(frame().assign(died=None), "died"), ["without a value in the label column 'died'"]),
        (lambda: sb.from_pandas(frame().assign(inf=np.inf), label="died"), ["'inf' in column 'inf', row 0"]),
    ],
)  # fmt: skip
def test_frames_that_cannot_be_used(call: Callable[[], Any], fragments: list[str]) -> None:
    refused(call, *fragments)


def test_identifiers_of_a_frame_are_dropped_as_python_writes_it() -> None:
    table = pd.DataFrame({"a": [f"a{i}" for i in range(1100)], "b": [f"b{i}" for i in range(1100)], "n": range(1100)})
    table["y"] = [0, 1] * 550
    refused(lambda: sb.from_pandas(table, label="y"), "drop=['a', 'b']")
    assert sb.from_pandas(table, label="y", drop=["a", "b"]).columns == ("n",)


# --- arrays ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [X, X.tolist(), torch.tensor(X), pd.DataFrame(X), sparse.csr_matrix(X)], ids=type)
def test_arrays_of_any_library(x: Any) -> None:
    data = sb.from_arrays(x, Y, groups=["a", "b", "c"] * 20)
    assert (len(data.train), len(data.test), data.classes) == (48, 12, ("0", "1"))
    assert list(data.train.groups) == ["group"]
    trained(data)


def test_labels_of_any_form() -> None:
    for y, classes in (
        (np.array(["u", "v"])[Y], ("u", "v")), (Y > 0, ("False", "True")), (Y.astype(float), ("0.0", "1.0")),
        (np.array(["u", "v"], object)[Y], ("u", "v")), (Y.astype(object), ("0", "1")), (torch.tensor(Y), ("0", "1")),
        (pd.Series(Y).astype("Int64"), ("0", "1")),
    ):  # fmt: skip
        assert sb.from_arrays(X, y).classes == classes
    assert sb.from_arrays(X, X[:, 0]).task == "regression"
    given = sb.from_arrays(X, Y, x_test=X[:7], y_test=Y[:7], groups=Y, groups_test=Y[:7])
    assert (len(given.train), len(given.test), given.test.groups["group"].tolist()) == (60, 7, Y[:7].tolist())


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (lambda: sb.from_arrays(X, Y + 0.5), 'write task="classification" or task="regression"'),
        (lambda: sb.from_arrays(X, Y[:-1]), "60 rows in x but 59 labels"),
        (lambda: sb.from_arrays(X, Y, x_test=X), "only one of x_test and y_test"),
        (lambda: sb.from_arrays(X, [None] * ROWS), "missing values"),
        (lambda: sb.from_arrays(X, np.arange(ROWS).astype("datetime64[D]")), "y of type datetime64"),
        (lambda: sb.from_arrays(X[:, 0], Y), "x of shape (60,)"),
        (lambda: sb.from_arrays(sparse.csr_matrix(X), Y, scale="standard"), "sparse x"),
        (lambda: sb.from_arrays(X, Y, groups=["a"]), "1 rows in group"),
        (lambda: sb.from_arrays(X, Y, test=1.5), "share between 0 and 1"),
        (lambda: sb.from_arrays(X, np.eye(2)[Y]), "y of shape (60, 2)"),
    ],
)
def test_arrays_that_cannot_be_used(call: Callable[[], Any], fragment: str) -> None:
    refused(call, fragment)


# --- torch -------------------------------------------------------------------------------------------


class Pictures(TorchDataset):
    classes = ("cat", "dog")

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, row: int) -> tuple[Any, int]:
        return Image.fromarray(np.full((8, 8, 3), row, np.uint8)), int(Y[row])


class Stream(IterableDataset):
    def __iter__(self) -> Any:
        yield from ((torch.tensor(x), torch.tensor(y)) for x, y in zip(X, Y, strict=True))


class Odd(Pictures):
    def __init__(self, item: Any):
        self.item = item

    def __getitem__(self, row: int) -> Any:
        return self.item(row)


def test_torch_datasets() -> None:
    tensors = TensorDataset(torch.tensor(X), torch.tensor(Y))
    expected = sb.from_arrays(X, Y).checksum
    assert sb.from_torch(tensors).checksum == sb.from_torch(Stream()).checksum == expected
    assert sb.from_torch(Subset(tensors, range(ROWS))).checksum == expected
    given = sb.from_torch(tensors, test=Subset(tensors, range(9)), groups=Y, groups_test=Y[:9])
    assert (len(given.train), len(given.test)) == (60, 9)
    assert len(sb.from_torch(tensors, 0.5).test) == 30
    pictures = sb.from_torch(Pictures())
    assert (pictures.shape, pictures.train.x.dtype, pictures.classes) == ((3, 8, 8), np.uint8, ("cat", "dog"))
    trained(pictures)
    assert sb.from_torch(Odd(lambda row: (float(row), "ab"[row % 2]))).shape == (1,)


@pytest.mark.parametrize(
    ("dataset", "fragment"),
    [
        (3, "needs a torch Dataset, but an object of type int"),
        (Odd(lambda row: {"x": row}), "row of type dict, not a pair"),
        (Odd(lambda row: (torch.zeros(row + 1), 0)), "the shapes (1,), (2,), (3,) and 57 more"),
        (TensorDataset(torch.zeros(0, 2), torch.zeros(0)), "no rows"),
        ([], "without rows"),
    ],
)
def test_torch_datasets_that_cannot_be_used(dataset: Any, fragment: str) -> None:
    with pytest.raises(sb.SilobenchError) as caught:
        sb.from_torch(dataset)
    assert fragment in str(caught.value)


# --- Hugging Face ------------------------------------------------------------------------------------


def reviews() -> datasets.Dataset:
    features = datasets.Features(
        {
            "text": datasets.Value("string"), "stars": datasets.Value("int8"), "site": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["neg", "pos"]),
        }
    )  # fmt: skip
    rows = {
        "text": [f"a {['dull', 'fine'][i % 2]} film" for i in range(ROWS)], "stars": [i % 5 for i in range(ROWS)],
        "site": ["a", "b", "c"] * 20, "label": [i % 2 for i in range(ROWS)],
    }  # fmt: skip
    return datasets.Dataset.from_dict(rows, features)


def test_hugging_face_tables() -> None:
    data = sb.from_huggingface(reviews(), label="label", group="site", text="text", text_features=8)
    assert (data.shape, data.classes, len(data.test)) == ((9,), ("neg", "pos"), 12)
    parts = datasets.DatasetDict(
        train=reviews(), validation=reviews().select(range(5)), test=reviews().select(range(7))
    )
    assert len(sb.from_huggingface(parts, label="label", group="site", text="text").test) == 7
    assert len(sb.from_huggingface(parts, label="label", text="text", test="validation").test) == 5
    assert len(sb.from_huggingface(parts, label="label", text="text", test=0.5).test) == 30
    assert len(sb.from_huggingface(reviews(), label="label", text="text", test=reviews().select(range(9))).test) == 9
    shuffled = reviews().shuffle(seed=1).select(range(30))
    assert len(sb.from_huggingface(shuffled, label="label", drop=["text"]).train) == 24
    words = sb.from_huggingface(reviews(), label="label", text="text", drop=["stars", "site"])
    assert words.vocabulary[2:4] == ("a", "film")
    trained(words)


def test_hugging_face_lists_and_pictures() -> None:
    lists = datasets.Dataset.from_dict({"x": X.tolist(), "label": [["u", "v"][y] for y in Y], "who": ["p", "q"] * 30})
    data = sb.from_huggingface(lists, label="label", group="who")
    assert data.checksum == sb.from_arrays(X, np.array(["u", "v"])[Y], groups=["p", "q"] * 30).checksum
    pictures = [Image.fromarray(np.full((4, 4), i, np.uint8)) for i in range(ROWS)]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
    seen = sb.from_huggingface(
        datasets.Dataset.from_dict({"image": pictures, "label": Y.tolist()}, features), label="label"
    )
    assert (seen.shape, seen.train.x.dtype) == ((1, 4, 4), np.uint8)


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (lambda: sb.from_huggingface(reviews(), label="lable"), "no column 'lable': did you mean label?"),
        (lambda: sb.from_huggingface(reviews().to_iterable_dataset(), label="label"), "without streaming"),
        (lambda: sb.from_huggingface(datasets.DatasetDict(test=reviews()), label="label"), "but not train"),
        (
            lambda: sb.from_huggingface(datasets.DatasetDict(train=reviews()), label="label", test="tst"),
            "no split 'tst'",
        ),
        (lambda: sb.from_huggingface(3, label="label"), "an object of type int"),
    ],
)
def test_hugging_face_datasets_that_cannot_be_used(call: Callable[[], Any], fragment: str) -> None:
    refused(call, fragment)


def test_nothing_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, silobench as sb; sb.from_pandas; sb.from_torch; sb.from_huggingface; "
        "print({'pandas', 'datasets', 'torch', 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n"


# --- strange values ----------------------------------------------------------------------------------


def _frame(values: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"y": ["a", "b"] * 10, "x": pd.Series(values * 10, dtype=object)})


def test_values_that_are_no_numbers_or_texts_are_refused() -> None:
    refused(lambda: sb.from_pandas(_frame([10**400, 1]), "y"), "'x' has a number that is too large")
    refused(lambda: sb.from_pandas(_frame(["\ud800", "b"]), "y"), r"'\ud800', which is no character")
    categories = pd.Index(["\ud800", "b"], dtype=object)
    halves = pd.DataFrame({"y": ["a", "b"] * 10, "x": pd.Categorical.from_codes([0, 1] * 10, categories)})
    refused(lambda: sb.from_pandas(halves, "y"), r"'\ud800', which is no character")
    refused(lambda: sb.from_arrays(np.ma.masked_array(X, X > 1), Y), "x with masked values: fill them")
    refused(lambda: sb.from_arrays(X, [10**400, *Y[1:].tolist()]), "y with a number that is too large")
    refused(lambda: sb.from_torch([(torch.ones(3), np.ones(2))] * 4), "a label of shape (2,)")
    refused(lambda: sb.from_arrays(torch.ones(ROWS, 3).to(torch.float8_e4m3fn), Y), "type torch.float8_e4m3fn")
    refused(lambda: sb.from_arrays(X, Y, x_test=X[:, :2], y_test=Y, scale="standard"), "the same shape")
    refused(lambda: sb.from_arrays(sparse.coo_array(np.ones(ROWS)), Y), "in a sparse array: rows [n, columns]")
    refused(lambda: sb.from_pandas(_frame([10**400, 1]).astype({"x": "category"}), "y"), "the type category")
    refused(lambda: sb.from_pandas(_frame([1e300, -1e300]), "y"), "numbers in x that are too large to add up")


def test_spans_of_time_among_objects_are_texts() -> None:
    data = sb.from_pandas(_frame([np.timedelta64(1, "D"), np.timedelta64(2, "D")]), "y")
    assert len(data.columns) == 2


def test_labels_beyond_64_bits_are_no_class_numbers() -> None:
    refused(lambda: toy(X, np.where(Y > 0, 1e30, 0.0)), "1e+30, which is not the number of a class")
    refused(lambda: sb.from_arrays(X, np.array([float("inf"), *Y[1:].tolist()], object)), "NaN or infinite labels")


def test_groups_beyond_64_bits_stay_apart() -> None:
    frame = pd.DataFrame({"y": ["a", "b"] * 10, "x": np.arange(20.0), "site": [2.0**70, 2.0**71] * 10})
    assert len(np.unique(sb.from_pandas(frame, "y", group="site").train.groups["site"])) == 2


FRAME = pd.DataFrame({"a": X[:, 0], "b": ["p", "q"] * (ROWS // 2), "y": Y})


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (lambda: sb.from_arrays(X, Y, task="clasification"), "task must be one of auto, classification, regression"),
        (lambda: sb.from_pandas(FRAME, "y", task="clasification"), "task must be one of"),
        (lambda: sb.from_arrays(X, Y, scale="standart"), "scale must be one of none, standard"),
        (lambda: sb.from_pandas(FRAME, "y", test=FRAME["y"]), "an object of type Series was given"),
        (
            lambda: toy(X, Y, task="regresion"),
            "task='regresion': choose one of classification, regression, verification",
        ),
        (lambda: toy(X, Y, augment="crop"), "augment='crop': choose one of none, crop-flip"),
        (lambda: toy(X, Y, classes=()), "has no classes: name them"),
        (lambda: sb.Dataset("toy", sb.Split(X, Y, Y), sb.Split(X, Y), ("no", "yes")), "groups of type ndarray"),
        (lambda: sb.from_pandas(FRAME, "y", test=pd.concat([FRAME, FRAME[["a"]]], axis=1)), "columns of the same name"),
    ],
)
def test_a_mistyped_argument_is_not_guessed(call: Callable[[], Any], fragment: str) -> None:
    refused(call, fragment)


def test_classes_by_name_on_one_side_and_by_number_on_the_other_are_refused() -> None:
    class Pets(TorchDataset[Any]):
        classes = ("cat", "dog")

        def __len__(self) -> int:
            return 20

        def __getitem__(self, row: int) -> Any:
            return torch.ones(3) * row, row % 2

    numbers = Subset(Pets(), range(10))  # it has no names of classes
    refused(lambda: sb.from_torch(numbers, Pets()), "labels of type int64 for training", "for testing", "on both sides")
    assert sb.from_torch(numbers, Subset(Pets(), range(10, 20))).classes == ("0", "1")


def test_labels_of_bytes_are_texts(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=np.array([b"cat", b"dog"])[Y])
    assert sb.load(f"npz(path={tmp_path / 'a.npz'})").classes == ("cat", "dog")
    np.savez(tmp_path / "b.npz", x=X, y=np.array([b"cat", b"\xff"])[Y])
    refused(lambda: sb.load(f"npz(path={tmp_path / 'b.npz'})"), "labels of bytes that are not UTF-8")


def test_an_encoder_takes_a_frame_without_rows() -> None:
    empty = FRAME.iloc[:0].astype({"b": object})
    assert sb.from_pandas(FRAME, "y").encoder.encode(empty).shape == (0, 3)


def test_a_frame_may_have_two_levels_of_names() -> None:
    frame = pd.DataFrame(X, columns=pd.MultiIndex.from_tuples([("blood", "pH"), ("blood", "salt"), ("site", "")]))
    frame["site", ""], frame["died", ""] = ["north", "south"] * (ROWS // 2), Y
    data = sb.from_pandas(frame, ("died", ""), group=("site", ""), drop=[("blood", "salt")])
    assert data.columns == ("('blood', 'pH')",)
    assert set(data.train.groups["('site', '')"]) == {"north", "south"}
    assert data.encoder.encode(frame).shape == (ROWS, 1)


def test_an_encoder_takes_columns_with_numbers_as_names() -> None:
    frame = pd.DataFrame(np.c_[X, Y])
    data = sb.from_pandas(frame, 3, test=frame)
    np.testing.assert_array_equal(data.encoder.encode(frame), data.test.x)
    refused(lambda: data.encoder.encode(frame[[0, 2]]), "has no column 1")


def test_an_encoder_takes_a_frame_of_another_library() -> None:
    """Iterating over one of polars gives columns, not their names."""

    class Frame:
        columns = ("a", "b", "y")

        def __iter__(self) -> Any:
            return iter([FRAME[name] for name in self.columns])

        def __getitem__(self, name: str) -> Any:
            return FRAME[name]

    encoder = sb.from_pandas(FRAME, "y").encoder
    np.testing.assert_array_equal(encoder.encode(Frame()), encoder.encode(FRAME))


def test_test_rows_of_hugging_face_need_all_columns() -> None:
    train, test = ({"a": [0.5] * 40, "b": [1.5] * 40, "y": [0, 1] * 20} for _ in range(2))
    del test["b"]
    sides = datasets.DatasetDict({"train": datasets.Dataset.from_dict(train), "test": datasets.Dataset.from_dict(test)})
    refused(lambda: sb.from_huggingface(sides, "y"), "test rows", "no column b", "give the same columns")
