"""The guard of the SuperLink: other machines reach nothing but the interface for silos, or nothing is served."""

import json
import os
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

import deployment
from silobench.silos.flower.superlink import guard, guarded

PROBE = """
import asyncio, json, httpx
from flwr.superlink.main import create_app
from silobench.silos.flower.superlink import guarded

def status(app, host, path):
    async def asked():
        transport = httpx.ASGITransport(app=app, client=(host, 4000), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="https://server") as client:
            return (await client.post(path, content=b"")).status_code
    return asyncio.run(asked())

plain, served = create_app(), []
guarded(lambda app, **options: served.append(app))(app=plain, host="0.0.0.0")
paths = ["/v1/control/list-runs", "/v1/control/start-run", "/v1/runtime/pull-messages", "/docs"]
paths += ["/v1/fleet/pull-messages"]
print(json.dumps({
    name: {path: status(app, host, path) for path in paths}
    for name, app, host in (
        ("plain", plain, "192.0.2.7"), ("other", served[0], "192.0.2.7"), ("here", served[0], "127.0.0.1")
    )
}))
"""


def test_flowers_own_app_answers_other_machines_for_silos_only() -> None:
    python = deployment.flower_python()
    if python is None:
        pytest.skip("Flower is not installed: pip install 'silobench[flower]'")
    result = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, env=os.environ, check=False)
    assert result.returncode == 0, result.stderr
    statuses: dict[str, dict[str, int]] = json.loads(result.stdout.splitlines()[-1])
    *others, fleet = statuses["plain"]
    assert all(statuses["plain"][path] != 403 for path in others)  # so Flower itself refuses nothing
    assert all(statuses["other"][path] == 403 for path in others)
    assert statuses["other"][fleet] == statuses["plain"][fleet] != 403
    assert statuses["here"] == statuses["plain"]


def test_a_flower_that_serves_in_another_way_does_not_start() -> None:
    for module in (SimpleNamespace(), SimpleNamespace(uvicorn=SimpleNamespace(Server=print))):
        with pytest.raises(SystemExit, match="no place for the guard"):
            guard(module)


def test_a_module_has_no_other_way_to_serve() -> None:
    apps = list[Any]()
    module = SimpleNamespace(uvicorn=SimpleNamespace(run=lambda app, **options: apps.append(app), Server=print))
    guard(module)
    module.uvicorn.run(app=print, port=9092)
    assert [type(app) for app in apps] != [type(print)]
    assert not hasattr(module.uvicorn, "Server")
    with pytest.raises(TypeError):
        guarded(print)()  # without an app
