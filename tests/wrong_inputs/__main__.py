"""Run all cases and write docs/errors.md."""

import tempfile
from pathlib import Path

from wrong_inputs import TABLE, answer, make_results, normalised
from wrong_inputs.page import PAGE, page, row
from wrong_inputs.plugins import plugin_rows


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        results, rows = make_results(root / "results"), {}
        for heading, cases in TABLE.items():
            lines = []
            for case in cases:
                folder = Path(tempfile.mkdtemp(dir=root))
                reply = answer(case, folder, results)
                lines.append(row(case, reply.code, normalised(reply.message, folder)))
            rows[heading] = lines
        rows["Plugins"] = plugin_rows(Path(tempfile.mkdtemp(dir=root)))
        PAGE.write_text(page(rows), encoding="utf-8")


main()
