"""Command lines of the live view that are wrong; a correct one would not end."""

from wrong_inputs.case import Case, command, damaged
from wrong_inputs.results import intact

PORT = "--port must be a whole number of at least 0 and at most 65535"
CASES: list[Case] = [
    command("watch", "directory of runs; it may have none yet; write `silobench watch DIRECTORY`."),
    command("watch nowhere", "there is no directory nowhere: start the experiment first, or create the directory"),
    command("watch file.txt", "there is no directory file.txt", files={"file.txt": ""}),
    damaged("results", intact, PORT, "watch runs --port 70000"),
    damaged("results", intact, PORT, "watch runs --port http"),
    damaged("results", intact, "--every must be a number of at least 0.1 and at most 3600", "watch runs --every 0"),
    damaged("results", intact, "203.0.113.1 port 0 cannot be used", "watch runs --host 203.0.113.1 --port 0"),
]
