"""docs/servers.md shows what verify.toml takes, and the suites as they are."""

import re
from pathlib import Path

from evals.suite import load
from verify.evals.config import ArmSpec, Config, read

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "servers.md").read_text(encoding="utf-8")


def test_the_example_is_read_and_names_every_setting(tmp_path):
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "verify.toml").write_text(example)
    config = read(tmp_path / "verify.toml")
    assert config.arms["pr"].path
    for struct in (ArmSpec, Config):
        for name in set(struct.__struct_fields__) - {"kernel"}:
            assert re.search(rf"\b{name}\b", example), name


def test_the_table_of_suites_is_right():
    rows = re.findall(
        r"^\| `(\w+)` \| (\w+).*? \| [\d,]+ \| (\d+) points? \| (\d+) \|$", PAGE, re.MULTILINE
    )
    assert len(rows) == 4
    for name, style, margin, repeats in rows:
        spec = load(name).spec
        assert (spec.prompt.style, spec.margin_pt, spec.repeats) == (
            style, float(margin), int(repeats)
        )  # fmt: skip
