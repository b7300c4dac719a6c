"""Google Speech Commands as `kws`, the keyword-spotting data of Zhao et al. (2018): one-second clips as 50 x 10 MFCC.

Clips are streamed as (word, file name, bytes) from folders or an archive. Each clip is converted to its 500 features at
once, because the waveforms of the whole dataset would need 2 GB.
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
from silobench.data.store.directory import Files
from silobench.data.table.scaling import nonzero_scale
from silobench.errors import DataError, suggest

KEYWORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")

RATE = 16_000  # samples per second, and per clip
FRAME, HOP, FRAMES = 480, 320, 50  # 30 ms every 20 ms
FFT = 512
BANDS, LOWEST, HIGHEST = 40, 20.0, 4000.0  # of the mel filters, in Hz
COEFFICIENTS = 10
FLOOR = 1e-8  # about the energy of the rounding to 16 bits in a band

_LARGEST = 16 * 2**20  # bytes per clip; clips of background noise last minutes
_Features: TypeAlias = dict[tuple[str, str], NDArray[np.float32]]  # [50, 10] by word and file name


# --- features ----------------------------------------------------------------------------------------


def mfcc(clips: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute mel-frequency cepstral coefficients ``[n, 50, 10]`` of one-second clips ``[n, 16000]`` in [-1, 1].

    Zhao et al. specify the frames and the ten coefficients; the rest are common choices: frames of 480 samples every
    320, zero-padded so that a second has 50 frames; a periodic Hann window without pre-emphasis; the power spectrum of
    a 512-point FFT; 40 triangular filters from 20 Hz to 4 kHz (edges equally spaced in HTK mel, linear in Hz, peaks of
    1); the natural logarithm, floored at 1e-8; coefficients 0 to 9 of an orthonormal DCT-II.
    """
    coefficients = np.empty((len(clips), FRAMES, COEFFICIENTS), dtype=np.float32)
    for row, clip in enumerate(clips):  # one by one, because rounding in BLAS and FFT may depend on the batch
        coefficients[row] = fft.dct(log_mel(clip), type=2, norm="ortho")[:, :COEFFICIENTS]
    return coefficients


def log_mel(clip: NDArray[np.float32]) -> NDArray[np.float64]:
    """Compute the log energy of a clip in each frame and mel band, ``[50, 40]``; see `mfcc`."""
    padded = np.zeros((FRAMES - 1) * HOP + FRAME)
    padded[:RATE] = clip
    frames = np.lib.stride_tricks.sliding_window_view(padded, FRAME)[::HOP]
    spectrum = fft.rfft(frames * _hann(), n=FFT)
    power = spectrum.real**2 + spectrum.imag**2
    energy: NDArray[np.float64] = power @ _mel_filters().T
    return np.log(np.maximum(energy, FLOOR))


@cache
def _hann() -> NDArray[np.float64]:
    """Return the periodic Hann window: the symmetric window with one more sample, without the last."""
    return np.hanning(FRAME + 1)[:-1]


@cache
def _mel_filters() -> NDArray[np.float64]:
    """Return the weight of each FFT bin in each band, ``[40, 257]``; a band extends to the peaks of its neighbours."""
    mel = np.linspace(_mel(LOWEST), _mel(HIGHEST), BANDS + 2)
    edges = 700 * (10 ** (mel / 2595) - 1)
    left, peak, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    bins = np.arange(FFT // 2 + 1) * RATE / FFT
    return np.maximum(np.minimum((bins - left) / (peak - left), (right - bins) / (right - peak)), 0)


def _mel(hertz: float) -> float:
    return float(2595 * np.log10(1 + hertz / 700))


# --- clips -------------------------------------------------------------------------------------------


def read_wav(data: bytes, where: str) -> NDArray[np.int16]:
    """Return the first 16,000 samples of a wav file, padded with zeros if it is shorter; `where` names it in errors."""
    advice = "use the published clips of Speech Commands, or convert yours to that format."
    try:
        with wave.open(io.BytesIO(data)) as clip:
            channels, width, rate, length = clip.getparams()[:4]
            raw = clip.readframes(RATE)
    except (wave.Error, EOFError, RuntimeError) as error:  # RuntimeError: a chunk extends beyond the end of the file
        reason = str(error) or "it is truncated or damaged"
        raise DataError(f"{where} cannot be read as wav ({reason}): 16-bit PCM is needed; {advice}") from None
    if (channels, width, rate) != (1, 2, RATE):
        raise DataError(
            f"{where} has {channels} channel(s) of {8 * width} bits at {rate} Hz: "
            f"one channel of 16 bits at {RATE} Hz is needed; {advice}"
        )
    needed = min(length, RATE)
    if needed == 0 or len(raw) < 2 * needed:
        raise DataError(
            f"{where} has {len(raw) // 2} samples but announces {length}: all of them, and at least one, are needed; "
            "copy or download it again."
        )
    samples = np.zeros(RATE, dtype=np.int16)
    samples[:needed] = np.frombuffer(raw[: 2 * needed], dtype="<i2")  # an odd byte may follow
    return samples


def speaker_of(file: str) -> str:
    """Return the speaker: the file name before ``_nohash_``, which a clip counter follows."""
    return file.partition("_nohash_")[0]


def is_test(speaker: str) -> bool:
    """Return whether a speaker is in the published test set (`which_set` in the README of Speech Commands).

    The SHA-1 of the name gives a percentage: below 10 is validation, 10 to below 20 is testing.
    """
    return 10 <= _percentage(speaker) < 20


def _percentage(speaker: str) -> float:
    most = 2**27 - 1  # clips per class, as in the published rule
    digest = int(hashlib.sha1(speaker.encode(), usedforsecurity=False).hexdigest(), 16)
    return (digest % (most + 1)) * (100.0 / most)


# --- the dataset -------------------------------------------------------------------------------------


def kws(words: tuple[str, ...] = ()) -> Dataset:
    """Ten spoken keywords (Speech Commands) as 50 x 10 MFCC, as used by Zhao et al.; the speaker is the group.

    `words` selects other words, as in kws(words=[cat, dog]). The published split by speaker is used.
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
            yield word, file, archives.read_limited(member.stream, _LARGEST, member.name)


def keywords(clips: Iterable[tuple[str, str, bytes]], words: tuple[str, ...]) -> Dataset:
    """Build the dataset from clips (word, file name, wav bytes) in any order; rows are images of 50 frames x 10 MFCC.

    `words` are the classes; () means the ten keywords, or all words if some keyword is missing. Test rows are those of
    the published test speakers, training rows all others. If no published test speaker is present, as in a small
    subset, a fifth of the speakers is held out.
    """
    features, available = _features(clips, words)
    chosen, notes = _choose_words(words, available)
    rows = sorted(row for row in features if row[0] in chosen)
    y, classes = encode_labels("kws", np.array([word for word, _ in rows]))
    speakers = np.array([speaker_of(file) for _, file in rows])
    held, split_note = _hold_out_speakers(speakers)
    train, test = (
        Split(np.stack([features[rows[i]] for i in side])[:, None], y[side], {"speaker": speakers[side]})
        for side in (np.flatnonzero(~held), np.flatnonzero(held))
    )
    _standardise(train.x, test.x)
    notes += (
        "10 MFCC of 30 ms frames every 20 ms; clips cut, or padded with zeros, to one second",
        "each coefficient standardised by the pooled training rows",
        split_note,
    )
    solver = "sgd(lr=0.05, momentum=0, batch=10)"  # of Zhao et al.; the default momentum of 0.9 would diverge
    return Dataset("kws", train, test, classes, "CC BY 4.0", notes, {"solver": solver})


def _features(clips: Iterable[tuple[str, str, bytes]], words: tuple[str, ...]) -> tuple[_Features, set[str]]:
    """Compute the MFCC of every clip that may be needed; also return all words that occur."""
    features: _Features = {}
    available = set()
    for word, file, data in clips:
        if word.startswith("_"):  # _background_noise_ is not a word
            continue
        available.add(word)
        if words and word not in words:
            continue
        where = f"{word}/{file}"
        if (word, file) in features:
            raise DataError(f"the clip {where} occurs twice: give every folder only once.")
        samples = read_wav(data, where)[None]
        features[word, file] = mfcc(samples.astype(np.float32) / np.float32(2**15))[0]
    return features, available


def _choose_words(words: tuple[str, ...], available: set[str]) -> tuple[set[str], tuple[str, ...]]:
    """Return the words to use, and a note if one of the ten keywords is missing."""
    if not available:
        raise DataError("there are no clips of words: kws needs the folders of Speech Commands, so import them.")
    wanted = set(words or KEYWORDS)
    missing = sorted(wanted - available)
    if not missing:
        return wanted, ()
    if words:
        raise DataError(f"there are no clips of the word(s) {', '.join(missing)}: {suggest(missing[0], available)}")
    return available, (
        f"keywords are missing ({', '.join(missing)}), so all {len(available)} available words are used",
    )


def _hold_out_speakers(speakers: NDArray[np.str_]) -> tuple[NDArray[np.bool_], str]:
    """Return which rows are for testing, and a note how they were chosen; no speaker is on both sides."""
    names = np.unique(speakers).tolist()
    held = {name for name in names if is_test(name)}
    note = "test rows are the published test speakers; the published validation speakers are training rows"
    if not held:
        held = set(sorted(names, key=_percentage)[: round(len(names) / 5)])
        note = "no published test speaker is present: test rows are a fifth of the speakers, chosen by their hashes"
    if not held or len(held) == len(names):
        raise DataError(
            f"the {len(speakers)} clips of {len(names)} speaker(s) leave no training or no test rows: give clips of "
            "more speakers."
        )
    return np.isin(speakers, sorted(held)), note


def _standardise(train: NDArray[np.float32], test: NDArray[np.float32]) -> None:
    """Scale each coefficient, in place, to mean 0 and variance 1 over all frames of the training rows.

    Coefficients are scaled one by one, because a float64 copy of all would need twice the memory of the features.
    """
    for k in range(COEFFICIENTS):
        mean, deviation = train[..., k].mean(dtype=np.float64), train[..., k].std(dtype=np.float64)
        shift, scale = float(mean), float(nonzero_scale(mean, deviation))
        for x in (train, test):
            x[..., k] = (x[..., k] - shift) / scale
