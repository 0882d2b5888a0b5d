"""docs/comparing.md shows what the program really prints."""

import re
import shutil
from pathlib import Path

import pytest

from verify.evals import command

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "comparing.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```\n\$ python -m verify\.evals (.*)\n([\s\S]*?)```", PAGE)
FILES = {
    "example_model_solutions.jsonl": "openai_gsm8k_model_solutions/example_model_solutions.jsonl",
    "first.jsonl": "reflexion/simple_mbpp_py__mbpp-py._simple_1_gpt-4_pass_at_k_1_py.jsonl",
    "second.jsonl": "reflexion/simple_mbpp_py2__mbpp-py._simple_1_gpt-4_pass_at_k_1_py.jsonl",
}


@pytest.mark.parametrize(("words", "printed"), EXAMPLES, ids=lambda text: text.split()[0])
def test_examples_print_what_the_page_shows(evals, here, shared_data, words, printed):
    for name, source in FILES.items():
        shutil.copy(shared_data / "paired" / source, here / name)
    _, out, err = evals(*words.split())
    assert err == ""
    assert [line.rstrip() for line in out.splitlines()] == printed.splitlines()


def test_every_option_of_compare_is_on_the_page():
    compare = command.commands["compare"]
    for parameter in compare.params:
        for option in parameter.opts:
            assert not option.startswith("--") or option in PAGE


def test_every_subcommand_has_an_example_and_help():
    shown = [words.split()[0] for words, _ in EXAMPLES]
    assert shown == ["compare", "aa", "power"]
    for name in shown:
        assert "Exit codes" in command.commands[name].help
