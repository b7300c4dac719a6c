"""Keyword spotting: MFCC against sums by hand, wav files good and bad, the published split, the dataset `kws`."""

import cmath
import contextlib
import io
import math
import os
import random
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from silobench.data.readers.speech import KEYWORDS, is_test, keywords, log_mel, mfcc, read_wav, speaker_of
from silobench.errors import DataError

Item = tuple[str, str, bytes]


def wav(samples: NDArray[np.int16], channels: int = 1, width: int = 2, rate: int = 16_000) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(samples.astype("<i2").tobytes())
    return file.getvalue()


def noise(seed: int, length: int = 16_000) -> NDArray[np.int16]:
    return np.random.default_rng(seed).integers(-3000, 3000, length).astype(np.int16)


def tone(hertz: float, level: float = 0.5) -> NDArray[np.float32]:
    return (level * np.sin(2 * np.pi * hertz * np.arange(16_000) / 16_000)).astype(np.float32)


# --- MFCC --------------------------------------------------------------------------------------------


def mel_edges() -> list[float]:
    """The 42 edges in Hz of 40 bands from 20 Hz to 4 kHz, by hand."""
    low, high = (2595 * math.log10(1 + f / 700) for f in (20, 4000))
    return [700 * (10 ** ((low + (high - low) * i / 41) / 2595) - 1) for i in range(42)]


def frame_by_hand(clip: NDArray[np.float32], frame: int) -> list[float]:
    """Ten coefficients of one frame: the sums of their definitions, sample by sample."""
    samples = [float(clip[320 * frame + t]) if 320 * frame + t < 16_000 else 0.0 for t in range(480)]
    windowed = [s * (0.5 - 0.5 * math.cos(2 * math.pi * t / 480)) for t, s in enumerate(samples)]
    turns = [cmath.exp(-2j * math.pi * t / 512) for t in range(512)]
    power = [abs(sum(s * turns[b * t % 512] for t, s in enumerate(windowed))) ** 2 for b in range(257)]
    edges, logs = mel_edges(), []
    for left, peak, right in zip(edges, edges[1:], edges[2:], strict=False):
        energy = 0.0
        for b in range(257):
            f = b * 31.25
            if left < f <= peak:
                energy += power[b] * (f - left) / (peak - left)
            elif peak < f < right:
                energy += power[b] * (right - f) / (right - peak)
        logs.append(math.log(max(energy, 1e-8)))
    sums = [sum(v * math.cos(math.pi * k * (j + 0.5) / 40) for j, v in enumerate(logs)) for k in range(10)]
    return [s * math.sqrt((1 if k == 0 else 2) / 40) for k, s in enumerate(sums)]


def test_mfcc_are_the_sums_of_their_definition() -> None:
    ends_early = noise(1) / 2**15
    ends_early[9_000:] = 0
    clips = np.stack([noise(0) / 2**15, ends_early, tone(440) + 0.1 * tone(2500)]).astype(np.float32)
    found = mfcc(clips)
    assert (found.shape, found.dtype) == ((3, 50, 10), np.float32)
    for row, frame in [(0, 0), (0, 17), (0, 49), (1, 27), (1, 28), (1, 40), (2, 3), (2, 49)]:
        np.testing.assert_allclose(found[row, frame], frame_by_hand(clips[row], frame), atol=1e-4, rtol=0)


@pytest.mark.parametrize("hertz", [100, 440, 1000, 2500, 3700])
def test_a_tone_is_loudest_in_the_band_around_it(hertz: float) -> None:
    peaks = np.array(mel_edges()[1:-1])
    energy = log_mel(tone(hertz))[1:-1]
    assert set(energy.argmax(1).tolist()) == {int(np.abs(peaks - hertz).argmin())}


def test_a_tone_above_4_khz_is_outside_all_bands() -> None:
    assert log_mel(tone(6000))[1:-1].max() < log_mel(tone(3000))[1:-1].max() - 10


def test_silence_is_finite_and_the_same_in_every_frame() -> None:
    silent = mfcc(np.zeros((2, 16_000), dtype=np.float32))
    np.testing.assert_allclose(silent[..., 0], math.sqrt(40) * math.log(1e-8), rtol=1e-6)
    np.testing.assert_allclose(silent[..., 1:], 0, atol=1e-4)


def test_a_shift_by_a_hop_shifts_the_frames() -> None:
    clip = (noise(2) / 2**15).astype(np.float32)
    later = np.concatenate([np.zeros(320, dtype=np.float32), clip[:-320]])
    before, after = mfcc(np.stack([clip, later]))
    np.testing.assert_array_equal(after[1:49], before[:48])  # the last frame reaches into the padding


def test_twice_the_amplitude_adds_a_constant_to_coefficient_0_only() -> None:
    clip = (noise(3) / 2**15).astype(np.float32)
    change = np.subtract(*mfcc(np.stack([2 * clip, clip])))
    np.testing.assert_allclose(change[:, 0], math.sqrt(40) * math.log(4), atol=1e-4)
    np.testing.assert_allclose(change[:, 1:], 0, atol=1e-4)


def test_a_clip_has_the_same_bits_whatever_its_neighbours() -> None:
    clips = np.stack([noise(seed) / 2**15 for seed in range(7)]).astype(np.float32)
    np.testing.assert_array_equal(mfcc(clips), np.concatenate([mfcc(clips[i : i + 1]) for i in range(7)]))
    assert mfcc(clips[:0]).shape == (0, 50, 10)


# --- wav files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 15_999, 16_000, 16_001, 40_000])
def test_a_clip_is_padded_or_cut_to_a_second(length: int) -> None:
    samples = noise(length, length)
    found = read_wav(wav(samples), "yes/a.wav")
    assert (found.shape, found.dtype) == ((16_000,), np.int16)
    np.testing.assert_array_equal(found[:length], samples[:16_000])
    assert not found[length:].any()


def not_pcm() -> bytes:
    """The format code of floating-point samples in an otherwise good file."""
    good = wav(noise(0))
    return good[:20] + (3).to_bytes(2, "little") + good[22:]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (lambda: wav(noise(0), channels=2), r"has 2 channel\(s\) of 16 bits at 16000 Hz: one channel of 16 bits"),
        (lambda: wav(noise(0), rate=8000), r"has 1 channel\(s\) of 16 bits at 8000 Hz"),
        (lambda: wav(noise(0), width=1), r"has 1 channel\(s\) of 8 bits at 16000 Hz"),
        (lambda: wav(noise(0))[:20_001], "has 9978 samples but announces 16000"),
        (lambda: wav(noise(0))[:44], "has 0 samples but announces 16000"),
        (lambda: wav(noise(0, 0)), "has 0 samples but announces 0"),
        (lambda: wav(noise(0))[:30], "cannot be read as wav"),
        (not_pcm, r"cannot be read as wav \(unknown format: 3\)"),
        (lambda: b"<html>not found</html>", "cannot be read as wav"),
        (lambda: b"", r"cannot be read as wav \(it is truncated"),
    ],
)
def test_another_file_than_a_16_khz_mono_16_bit_wav_is_refused(data: Callable[[], bytes], told: str) -> None:
    with pytest.raises(DataError, match=rf"^yes/a\.wav {told}") as caught:
        read_wav(data(), "yes/a.wav")
    assert "\n" not in str(caught.value)
    assert "needed" in str(caught.value)


def test_a_damaged_header_gives_samples_or_the_refusal_never_another_error() -> None:
    good, rng = wav(noise(0, 500)), random.Random(0)
    for _ in range(3000):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            bad[rng.randrange(44)] = rng.choice([0, 1, 255, rng.randrange(256)])
        with contextlib.suppress(DataError):
            assert read_wav(bytes(bad), "yes/a.wav").shape == (16_000,)


# --- the published split -----------------------------------------------------------------------------

# From the testing_list.txt and validation_list.txt that come with Speech Commands v0.02, and from neither of them.
TESTING = ("bb05582b", "97f4c236", "f2e59fea", "3f170018", "893705bb", "0c40e715")
VALIDATION = ("ce0cb033", "61bcb275", "605ed0ff", "099d52ad", "c6389ab0")
TRAINING = ("00176480", "004ae714", "00b01445", "00f0204f")


def test_the_published_lists_are_what_the_rule_gives() -> None:
    assert [name for name in (*TESTING, *VALIDATION, *TRAINING) if is_test(name)] == list(TESTING)


@pytest.mark.parametrize(
    ("speaker", "sha1_ends_in", "percentage"),
    [("bb05582b", 0xD1735B75, 18.13267855), ("099d52ad", 0xA8BE37E9, 9.28800784)],
)
def test_the_rule_by_hand(speaker: str, sha1_ends_in: int, percentage: float) -> None:
    """As `printf bb05582b | sha1sum` ends: the remainder by 2**27 is the last 27 bits."""
    share = (sha1_ends_in & 0x7FFFFFF) / (2**27 - 1)
    assert 100 * share == pytest.approx(percentage)
    assert is_test(speaker) == (10 <= percentage < 20)


def test_about_a_tenth_of_all_names_is_for_testing() -> None:
    assert sum(is_test(f"{i:08x}") for i in range(5000)) == pytest.approx(500, abs=65)  # 3 standard deviations


def test_the_speaker_is_what_comes_before_nohash() -> None:
    assert speaker_of("bb05582b_nohash_3.wav") == speaker_of("bb05582b_nohash_12.wav") == "bb05582b"


# --- the dataset -------------------------------------------------------------------------------------


def clips_of(
    words: tuple[str, ...], speakers: tuple[str, ...] = (*TESTING[:2], *TRAINING, VALIDATION[0])
) -> list[Item]:
    """Two clips of every word by every speaker."""
    return [
        (word, f"{speaker}_nohash_{k}.wav", wav(noise(100 * w + 10 * s + k, 4000)))
        for w, word in enumerate(words)
        for s, speaker in enumerate(speakers)
        for k in range(2)
    ]


def test_kws_has_images_labels_and_disjoint_speakers() -> None:
    dataset = keywords(clips_of(("zero", "bird", "no")), ())
    assert (dataset.name, dataset.shape, dataset.classes) == ("kws", (1, 50, 10), ("bird", "no", "zero"))
    assert (dataset.licence, dict(dataset.defaults)) == ("CC BY 4.0", {"solver": "sgd(lr=0.05, momentum=0, batch=10)"})
    assert (dataset.train.x.dtype, dataset.train.y.dtype) == (np.float32, np.int64)
    assert (np.bincount(dataset.train.y).tolist(), np.bincount(dataset.test.y).tolist()) == ([10] * 3, [4] * 3)
    assert set(dataset.test.groups["speaker"].tolist()) == set(TESTING[:2])
    assert set(dataset.train.groups["speaker"].tolist()) == {*TRAINING, VALIDATION[0]}


def test_rows_are_ordered_by_word_and_file_whatever_the_order_of_the_items() -> None:
    items = clips_of(("yes", "no"))
    dataset = keywords(iter(items), ())
    random.Random(1).shuffle(items)
    again = keywords(iter(items), ())
    assert again.checksum == dataset.checksum
    assert dataset.train.y.tolist() == sorted(dataset.train.y.tolist())
    speakers = dataset.train.groups["speaker"].tolist()
    assert speakers == 2 * sorted([*TRAINING, VALIDATION[0]] * 2)


def test_every_row_keeps_the_features_of_its_clip() -> None:
    items = clips_of(("yes", "no"))
    dataset = keywords(items, ())
    by_name = {(word, file): mfcc(read_wav(data, "")[None].astype(np.float32) / 2**15)[0] for word, file, data in items}
    for split, side in ((dataset.train, False), (dataset.test, True)):
        names = sorted(name for name in by_name if is_test(speaker_of(name[1])) == side)
        raw = np.stack([by_name[name] for name in names])
        for k in range(10):  # standardising keeps the order of the values of one coefficient
            ours, theirs = split.x[:, 0, :, k].ravel(), raw[..., k].ravel()
            assert np.corrcoef(ours, theirs)[0, 1] == pytest.approx(1, abs=1e-6)
        assert [dataset.classes[label] for label in split.y] == [word for word, _ in names]


def test_each_coefficient_is_standardised_by_the_training_rows() -> None:
    dataset = keywords(clips_of(("yes", "no")), ())
    np.testing.assert_allclose(dataset.train.x.mean((0, 1, 2), dtype=np.float64), 0, atol=1e-5)
    np.testing.assert_allclose(dataset.train.x.std((0, 1, 2), dtype=np.float64), 1, atol=1e-5)
    assert np.abs(dataset.test.x.mean((0, 1, 2))).max() > 1e-4
    assert "each coefficient standardised by the pooled training rows" in dataset.notes


def test_a_coefficient_that_never_changes_becomes_0() -> None:
    silent = [(word, file, wav(np.zeros(8, dtype=np.int16))) for word, file, _ in clips_of(("yes", "no"))]
    dataset = keywords(silent, ())
    np.testing.assert_allclose(dataset.train.x, 0, atol=1e-4)


def test_the_ten_keywords_are_used_where_all_are_there() -> None:
    speakers = (TESTING[0], TRAINING[0])
    dataset = keywords(clips_of((*KEYWORDS, "bird", "_background_noise_"), speakers), ())
    assert dataset.classes == tuple(sorted(KEYWORDS))
    assert not [note for note in dataset.notes if "missing" in note]


def test_all_words_are_used_where_a_keyword_is_missing_and_a_note_says_so() -> None:
    speakers = (TESTING[0], TRAINING[0])
    dataset = keywords(clips_of((*KEYWORDS[1:], "bird", "_background_noise_"), speakers), ())
    assert dataset.classes == tuple(sorted((*KEYWORDS[1:], "bird")))
    assert dataset.notes[0] == ("keywords are missing (yes), so all 10 available words are used")


def test_requested_words_are_used_and_no_other_clip_is_read() -> None:
    items = [*clips_of(("yes", "bird", "no")), ("cat", "x_nohash_0.wav", b"not a wav")]
    dataset = keywords(items, ("yes", "bird"))
    assert dataset.classes == ("bird", "yes")
    assert keywords(items, ("bird", "yes")).checksum == dataset.checksum
    assert not [note for note in dataset.notes if "missing" in note]


@pytest.mark.parametrize(
    ("items", "words", "told"),
    [
        (clips_of(("yes", "bird")), ("yes", "birds"), r"no clips of the word\(s\) birds: did you mean bird\?"),
        (
            clips_of(("yes", "no"), TRAINING[:2]),
            (),
            r"8 clips of 2 speaker\(s\) leave no training or no test rows",
        ),
        (clips_of(("yes", "no"), TESTING), (), r"24 clips of 6 speaker\(s\) leave no training or no test rows"),
        (clips_of(("yes",)), (), "at least two classes are needed"),
        (clips_of(("_background_noise_",)), (), "no clips of words"),
        ([], (), "no clips of words"),
        (clips_of(("yes", "no")) + clips_of(("no",)), (), "no/bb05582b_nohash_0.wav occurs twice"),
        ([("yes", "a_nohash_0.wav", b"")], (), "yes/a_nohash_0.wav cannot be read as wav"),
    ],
)
def test_clips_that_make_no_dataset_are_refused(items: list[Item], words: tuple[str, ...], told: str) -> None:
    with pytest.raises(DataError, match=told) as caught:
        keywords(items, words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("speakers", [TRAINING, VALIDATION])
def test_without_a_published_test_speaker_a_fifth_of_the_speakers_is_held_out(speakers: tuple[str, ...]) -> None:
    dataset = keywords(clips_of(("yes", "no"), speakers), ())
    sides = [set(split.groups["speaker"].tolist()) for split in (dataset.train, dataset.test)]
    assert sides[0] | sides[1] == set(speakers)
    assert not sides[0] & sides[1]
    assert len(sides[1]) == 1
    assert "no published test speaker is present" in dataset.notes[-1]


# --- the real clips ----------------------------------------------------------------------------------


def real_clips() -> list[Item]:
    folder = Path(os.environ.get("SILOBENCH_TEST_DATA", "")) / "speech_commands_subset"
    if not os.environ.get("SILOBENCH_TEST_DATA") or not folder.is_dir():
        pytest.skip("SILOBENCH_TEST_DATA does not name a folder with speech_commands_subset")
    return [(file.parent.name, file.name, file.read_bytes()) for file in folder.rglob("*.wav")]


def test_the_real_subset_is_read_and_learnable() -> None:
    dataset = keywords(real_clips(), ())
    assert (len(dataset.train) + len(dataset.test), len(dataset.classes)) == (900, 9)
    assert (np.bincount(dataset.train.y) + np.bincount(dataset.test.y)).tolist() == [100] * 9
    speakers = [set(split.groups["speaker"].tolist()) for split in (dataset.train, dataset.test)]
    assert (len(speakers[0]), len(speakers[1]), len(speakers[0] | speakers[1])) == (71, 18, 89)
    assert "missing (no, off, on, stop, yes)" in dataset.notes[0]
    learner = LogisticRegression(C=1e-3, max_iter=500).fit(dataset.train.x.reshape(-1, 500), dataset.train.y)
    assert learner.score(dataset.test.x.reshape(-1, 500), dataset.test.y) > 0.4  # of new speakers; chance is 0.11
