"""What others build on stays: names, arguments, specs, keys, commands and files, as `public.txt` stores them."""

import silobench as sb
from api import STORED, interface
from api.page import PAGE, renewed

_RENEW = (
    "If users must know of it, write it into CHANGELOG.md, whose version policy says what may change. Then renew the "
    "stored interface with `make api`, and commit it."
)


def test_the_public_interface_is_the_stored_one() -> None:
    now, before = interface(), STORED.read_text(encoding="utf-8").splitlines()
    gone = [f"  - {line}" for line in before if line not in set(now)]
    new = [f"  + {line}" for line in now if line not in set(before)]
    lines = "\n".join([*gone, *new])
    assert not gone, f"The public interface lost or changed something, which breaks users:\n{lines}\n{_RENEW}"
    assert not new, f"The public interface has something new:\n{lines}\n{_RENEW}"
    assert now == before, f"The public interface has another order. {_RENEW}"


def test_out_and_output_are_one_option_of_every_command() -> None:
    options = [set(line.split()) & {"--out", "--output"} for line in interface() if line.startswith("silobench ")]
    assert sum(bool(names) for names in options) >= 17
    assert all(len(names) != 1 for names in options)


def test_the_stored_interface_has_everything() -> None:
    lines = interface()
    text = "\n".join(lines)
    for name in set(sb.__all__) - {"__version__"}:
        assert f"\n{name}" in text
    expected = (
        "fedprox(mu=0.01)",
        "Adaptation(epochs=1, lr=None)",
        "ConfigError[SilobenchError]",
        "Dataset.checksum",
        "an experiment: rounds = 50",
        "silo.toml: limits.max_runs = 1",
        "columns.toml: column.categories",
        "silobench run --scale",
        "silobench leaderboard check DIRECTORY (required)",
        "run.json: made_by (dict)",
        "rounds.jsonl: bytes_up",
    )
    for line in expected:
        assert any(each.startswith(line) for each in lines), line
    assert "0x" not in text
    assert "typing" not in text


def test_the_page_lists_every_name() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == renewed(page), "docs/api.md does not list the public names as they are: renew it with `make api`."
    for name in sb.__all__:
        assert f"| `{name}` |" in page
