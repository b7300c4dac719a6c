"""What `silobench doctor` says about devices, with and without GPUs."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from commands import call


def devices_of(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    devices: dict[str, Any] = json.loads(call(capsys, "doctor", "--json").out)["devices"]
    return devices


def test_a_machine_without_a_gpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.version.cuda", None)
    devices = devices_of(capsys)
    assert devices["cpu"] == "always; two runs have the same bits"
    assert devices["cuda"] == f"none: PyTorch {torch.__version__} was built without CUDA"
    monkeypatch.setattr("torch.version.cuda", "13.0")
    text = f"none: PyTorch {torch.__version__} for CUDA 13.0 finds no GPU or no driver"
    assert devices_of(capsys)["cuda"] == text
    assert "finds no GPU or no driver" in call(capsys, "doctor").out


@pytest.mark.parametrize(("script", "driver"), [("echo 580.65.06", "580.65.06"), ("exit 9", "unknown: nvidia-smi")])
def test_gpus_are_listed_with_their_memory_and_driver(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, driver: str
) -> None:
    gpu = SimpleNamespace(name="NVIDIA T4", total_memory=16_000_000_000, major=7, minor=5)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda number: gpu)
    monkeypatch.setattr("torch.version.cuda", "13.0")
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    cuda = devices_of(capsys)["cuda"]
    assert cuda["gpu 1"] == "NVIDIA T4, 16.0 GB, compute capability 7.5"
    assert cuda["driver"].startswith(driver)
    assert cuda["workers"] == "2: one process per GPU"
    assert "NVIDIA T4" in call(capsys, "doctor").out
