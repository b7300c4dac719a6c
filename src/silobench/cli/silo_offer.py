"""What the people of a silo read before they accept a consortium."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from silobench.analysis.tables import Entry, Table
from silobench.analysis.units import size
from silobench.data.agreed.rows import read_rows
from silobench.silos import keys
from silobench.silos.agreement import Agreement
from silobench.silos.allowance import spent_before
from silobench.silos.consortium import Consortium
from silobench.silos.flower.certificates import fingerprint
from silobench.silos.flower.folders import authority_of
from silobench.silos.leaving import Departure, leaving
from silobench.silos.silo_file import SiloFile
from silobench.silos.store import Drawer


def fingerprints(consortium: Consortium) -> dict[str, Any]:
    """Return the fingerprints that people compare by phone: of the lead, of its server and of each silo."""
    return {
        "lead_key": keys.fingerprint(consortium.lead),
        "server_certificate": fingerprint(authority_of(consortium)),
        "silo_keys": {silo.name: keys.fingerprint(silo.key) for silo in consortium.silos},
    }


@dataclass(frozen=True)
class Offer:
    """A consortium as one of its silos sees it."""

    silo: SiloFile
    consortium: Consortium
    rows: tuple[int, int]  # for training, and for tests
    departures: tuple[Departure, ...]

    @classmethod
    def read(cls, path: Path) -> "Offer":
        """Read a silo's file, the consortium that it names, and its rows."""
        silo = SiloFile.read(path)
        consortium = Consortium.read_signed(silo.consortium)
        consortium.check_key(silo.name, silo.key)
        rows = read_rows(silo.data, Agreement.of(consortium).columns)
        counts = len(rows.train), len(rows.test)
        return cls(silo, consortium, counts, tuple(leaving(consortium, counts[0])))

    @property
    def facts(self) -> dict[str, Any]:
        """What is agreed, by name."""
        consortium = self.consortium
        return {
            "consortium": consortium.name,
            "digest": consortium.digest,
            "is_accepted": self.silo.accepted == consortium.digest,
            **fingerprints(consortium),
            "this_silo": self.silo.name,
            "quorum": consortium.quorum,
            "training_rows": self.rows[0],
            "test_rows": self.rows[1],
            "spent_before": self._spent_before,
            "experiment": tomllib.loads(consortium.experiment),
        }

    @property
    def _spent_before(self) -> dict[str, Any]:
        """What this silo spent before, over all consortia; nothing without a folder."""
        return spent_before(Drawer(self.silo.state))

    def as_json(self) -> dict[str, Any]:
        return {**self.facts, "leaves": [departure.as_json() for departure in self.departures]}

    @property
    def table(self) -> Table:
        """Everything that leaves the silo."""
        columns = ["when", "times", "bytes each time", "what", "for the server", "privacy"]
        rows = [
            [each.when, str(each.times), size(each.bytes), each.what, each.form, each.privacy or "-"]
            for each in self.departures
        ]
        return Table(f"what leaves {self.silo.name}", columns, [[Entry(text) for text in row] for row in rows])
