"""Google Speech Commands as `kws`, the keyword-spotting data of Zhao et al. (2018): one-second clips as 50 x 10 MFCC.

Clips come as (word, file name, bytes), from a folder or an archive; finding and fetching them is elsewhere. A clip
becomes its 500 features as it streams in, because the waveforms of the whole dataset would fill 2 GB.
"""

import hashlib
import io
import wave
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from silobench.data.dataset import Dataset, Split, encode_labels
from silobench.data.store import archives
from silobench.data.store.cache import stored
from silobench.data.store.store import Files
from silobench.errors import DataError, suggest

KEYWORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")

RATE = 16_000  # samples a second, and in a clip
FRAME, HOP, FRAMES = 480, 320, 50  # 30 ms every 20 ms
FFT = 512
BANDS, LOWEST, HIGHEST = 40, 20.0, 4000.0  # of the mel filters, in Hz
COEFFICIENTS = 10
FLOOR = 1e-8  # about the energy that rounding to 16 bits leaves in a band: what lies below it was never recorded

_LARGEST = 16 * 2**20  # bytes of a clip; the noise in the background has minutes
_Features: TypeAlias = dict[tuple[str, str], NDArray[np.float32]]  # [50, 10] by word and file name


# --- features ----------------------------------------------------------------------------------------


def mfcc(clips: NDArray[np.float32]) -> NDArray[np.float32]:
    """Mel-frequency cepstral coefficients ``[n, 50, 10]`` of one-second clips ``[n, 16000]`` in [-1, 1].

    Zhao et al. give the frames and the ten coefficients; the rest are common choices. Frames of 480 samples every 320,
    the end padded with zeros so that a second gives 50; a periodic Hann window, no pre-emphasis; the power spectrum of
    a 512-point FFT; 40 triangular filters from 20 Hz to 4 kHz (edges even in HTK mel, sides straight in Hz, peaks of
    1); the natural log, floored at 1e-8; an orthonormal DCT-II, of which coefficients 0 to 9 are kept.
    """
    found = np.empty((len(clips), FRAMES, COEFFICIENTS), dtype=np.float32)
    for row, clip in enumerate(clips):  # one by one: BLAS and FFT may round a clip by its place in a larger block
        found[row] = fft.dct(log_mel(clip), type=2, norm="ortho")[:, :COEFFICIENTS]
    return found


def log_mel(clip: NDArray[np.float32]) -> NDArray[np.float64]:
    """The log energy of one clip in each frame and mel band, ``[50, 40]``; `mfcc` says how."""
    padded = np.zeros((FRAMES - 1) * HOP + FRAME)
    padded[:RATE] = clip
    frames = np.lib.stride_tricks.sliding_window_view(padded, FRAME)[::HOP]
    spectrum = fft.rfft(frames * _hann(), n=FFT)
    power = spectrum.real**2 + spectrum.imag**2
    energy: NDArray[np.float64] = power @ _mel_filters().T
    return np.log(np.maximum(energy, FLOOR))


@cache
def _hann() -> NDArray[np.float64]:
    """Periodic: the symmetric window of one sample more, without its last."""
    return np.hanning(FRAME + 1)[:-1]


@cache
def _mel_filters() -> NDArray[np.float64]:
    """The weight of every FFT bin in every band, ``[40, 257]``; each band reaches to its neighbours' peaks."""
    mel = np.linspace(_mel(LOWEST), _mel(HIGHEST), BANDS + 2)
    edges = 700 * (10 ** (mel / 2595) - 1)
    left, peak, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    bins = np.arange(FFT // 2 + 1) * RATE / FFT
    return np.maximum(np.minimum((bins - left) / (peak - left), (right - bins) / (right - peak)), 0)


def _mel(hertz: float) -> float:
    return float(2595 * np.log10(1 + hertz / 700))


# --- clips -------------------------------------------------------------------------------------------


def read_wav(data: bytes, where: str) -> NDArray[np.int16]:
    """The first 16,000 samples of a wav file, zeros after its end where it is shorter; `where` names it in errors."""
    advice = "give the clips of Speech Commands as they were published, or convert yours to that format."
    try:
        with wave.open(io.BytesIO(data)) as clip:
            channels, width, rate, length = clip.getparams()[:4]
            raw = clip.readframes(RATE)
    except (wave.Error, EOFError, RuntimeError) as error:  # RuntimeError: a chunk that goes beyond the file's end
        reason = str(error) or "it is cut short or damaged"
        raise DataError(f"{where} cannot be read as wav ({reason}): 16-bit PCM is needed; {advice}") from None
    if (channels, width, rate) != (1, 2, RATE):
        raise DataError(
            f"{where} has {channels} channel(s) of {8 * width} bits at {rate} Hz: "
            f"one channel of 16 bits at {RATE} Hz is needed; {advice}"
        )
    needed = min(length, RATE)
    if needed == 0 or len(raw) < 2 * needed:
        raise DataError(
            f"{where} has {len(raw) // 2} of the {length} samples it announces: all of them, and at least one, are "
            "needed; copy or download it again."
        )
    samples = np.zeros(RATE, dtype=np.int16)
    samples[:needed] = np.frombuffer(raw[: 2 * needed], dtype="<i2")  # a stray odd byte may follow
    return samples


def speaker_of(file: str) -> str:
    """Who speaks: the file name up to ``_nohash_``, after which the clips of one speaker are counted."""
    return file.partition("_nohash_")[0]


def is_test(speaker: str) -> bool:
    """Whether a speaker is in the published test set: `which_set` of the Speech Commands README.

    The SHA-1 of the name gives a percentage; below 10 is validation, from 10 to below 20 testing.
    """
    return 10 <= _percentage(speaker) < 20


def _percentage(speaker: str) -> float:
    most = 2**27 - 1  # clips per class; the published rule, to the last bit
    digest = int(hashlib.sha1(speaker.encode(), usedforsecurity=False).hexdigest(), 16)
    return (digest % (most + 1)) * (100.0 / most)


# --- the dataset -------------------------------------------------------------------------------------


def kws(words: tuple[str, ...] = ()) -> Dataset:
    """Ten spoken keywords (Speech Commands) as 50 x 10 MFCC, as Zhao et al. use them; the speaker is the group.

    `words` chooses others, as kws(words=[cat, dog]). Speakers are published as training or test speakers.
    """
    return stored("kws", _read_kws, words=words)


def _read_kws(files: Files, words: tuple[str, ...]) -> Dataset:
    return keywords(_clips(files), words)


def _clips(files: Files) -> Iterator[tuple[str, str, bytes]]:
    if files.form == "folders":
        for name in files.names:
            word, file = name.split("/")
            yield word, file, files[name].read_bytes()
        return
    for member in archives.members(files[files.names[0]]):
        word, _, file = member.name.rpartition("/")
        if word and file.endswith(".wav"):
            yield word, file, b"".join(archives.blocks(member.stream, _LARGEST, member.name))


def keywords(clips: Iterable[tuple[str, str, bytes]], words: tuple[str, ...]) -> Dataset:
    """Spoken words as images of 50 frames x 10 MFCC, from items of (word, file name, wav bytes) in any order.

    `words` are those to tell apart; () stands for the ten keywords, or for all words where those are not complete.
    Test rows are the published test speakers and training rows all others, so no speaker is on both sides; where none
    of them is there, as in a small subset, a fifth of the speakers is held out.
    """
    features, there = _features(clips, words)
    chosen, notes = _choose(words, there)
    rows = sorted(row for row in features if row[0] in chosen)
    y, classes = encode_labels("kws", np.array([word for word, _ in rows]))
    speakers = np.array([speaker_of(file) for _, file in rows])
    held, how = _held_out(speakers)
    train, test = (
        Split(np.stack([features[rows[i]] for i in side])[:, None], y[side], {"speaker": speakers[side]})
        for side in (np.flatnonzero(~held), np.flatnonzero(held))
    )
    _standardise(train.x, test.x)
    notes += (
        "10 MFCC of 30 ms frames every 20 ms; clips are cut, or padded with zeros, to one second",
        "each coefficient standardised by the pooled training rows",
        how,
    )
    solver = "sgd(lr=0.05, momentum=0, batch=10)"  # Zhao et al.'s; with the default momentum of 0.9 it would diverge
    return Dataset("kws", train, test, classes, "CC BY 4.0", notes, {"solver": solver})


def _features(clips: Iterable[tuple[str, str, bytes]], words: tuple[str, ...]) -> tuple[_Features, set[str]]:
    """The MFCC of every clip that may be needed, and all the words there are: known only after the last clip."""
    features: _Features = {}
    there = set()
    for word, file, data in clips:
        if word.startswith("_"):  # _background_noise_ is no word
            continue
        there.add(word)
        if words and word not in words:
            continue
        where = f"{word}/{file}"
        if (word, file) in features:
            raise DataError(f"the clip {where} came twice: each is needed once, so give every folder only once.")
        samples = read_wav(data, where)[None]
        features[word, file] = mfcc(samples.astype(np.float32) / np.float32(2**15))[0]
    return features, there


def _choose(words: tuple[str, ...], there: set[str]) -> tuple[set[str], tuple[str, ...]]:
    """The words to use, and a note where the ten keywords were meant but are not complete."""
    if not there:
        raise DataError(
            "there are no clips of words: kws needs the folders of Speech Commands, so name where they are."
        )
    wanted = set(words or KEYWORDS)
    missing = sorted(wanted - there)
    if not missing:
        return wanted, ()
    if words:
        raise DataError(f"there are no clips of the word(s) {', '.join(missing)}: {suggest(missing[0], there)}")
    absent = f"the ten keywords are not complete (missing: {', '.join(missing)})"
    return there, (f"{absent}, so all {len(there)} words that are there are used",)


def _held_out(speakers: NDArray[np.str_]) -> tuple[NDArray[np.bool_], str]:
    """Which rows are for testing, and how they were chosen; no speaker is on both sides."""
    names = np.unique(speakers).tolist()
    held = {name for name in names if is_test(name)}
    how = "test rows are the published test speakers; the published validation speakers are training rows"
    if not held:
        held = set(sorted(names, key=_percentage)[: round(len(names) / 5)])
        how = "no published test speaker is here: test rows are a fifth of the speakers, chosen by their hashes"
    if not held or len(held) == len(names):
        raise DataError(
            f"the {len(speakers)} clips of {len(names)} speaker(s) leave no rows to train or none to test on: "
            "give clips of more speakers."
        )
    return np.isin(speakers, sorted(held)), how


def _standardise(train: NDArray[np.float32], test: NDArray[np.float32]) -> None:
    """Each coefficient, in place, to mean 0 and variance 1 over the frames of the training rows; a constant to 0.

    The coefficients go one by one because float64 copies of all would outweigh the features themselves.
    """
    for k in range(COEFFICIENTS):
        mean, scale = float(train[..., k].mean(dtype=np.float64)), float(train[..., k].std(dtype=np.float64))
        if scale <= 1e-12 * abs(mean):  # what rounding leaves of a constant is no scale
            scale = 1.0
        for x in (train, test):
            x[..., k] = (x[..., k] - mean) / scale
