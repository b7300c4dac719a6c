"""Command lines of the live view that are wrong; a correct one would not end."""

from wrong_inputs.case import Case, command, damaged
from wrong_inputs.results import intact

PORT = "--port must be a whole number of at least 0 and at most 65535"
CASES: list[Case] = [
    command("watch", "directory of runs; it may have none yet, or not exist yet; write `silobench watch DIRECTORY`."),
    command("watch file.txt", "file.txt is a file: give the directory of runs", files={"file.txt": ""}),
    damaged("results", intact, PORT, "watch runs --port 70000"),
    damaged("results", intact, PORT, "watch runs --port http"),
    damaged("results", intact, "--every must be a number of at least 0.1 and at most 3600", "watch runs --every 0"),
    damaged(
        "results", intact, "--host 203.0.113.1 is no address of this machine", "watch runs --host 203.0.113.1 --port 0"
    ),
]
