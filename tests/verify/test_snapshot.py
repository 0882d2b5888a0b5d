import subprocess

import pytest

from verify.command import UserError
from verify.snapshot import commit_of, snapshot


def git(folder, *words):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True)


@pytest.fixture
def folder(tmp_path):
    """A folder with two files."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "sub" / "b.py").write_text("2")
    return tmp_path


@pytest.fixture
def checkout(folder):
    """The same as a checkout that ignores *.o."""
    git(folder, "init", "-q")
    (folder / ".gitignore").write_text("*.o\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


CHANGES = {
    "changed": lambda folder: (folder / "a.py").write_text("3"),
    "added": lambda folder: (folder / "c \u00e9\n.py").write_text(""),
    "removed": lambda folder: (folder / "a.py").unlink(),
    "renamed": lambda folder: (folder / "a.py").rename(folder / "z.py"),
    "moved": lambda folder: (folder / "a.py").rename(folder / "sub" / "a.py"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("kind", ["folder", "checkout"])
def test_any_change_shows(request, kind, change):
    place = request.getfixturevalue(kind)
    before = snapshot(place)
    assert snapshot(place) == before
    change(place)
    assert snapshot(place) != before


def test_what_git_ignores_is_no_source(checkout):
    before = snapshot(checkout)
    (checkout / "a.o").write_text("built")
    assert snapshot(checkout) == before


def test_a_commit_is_known_of_a_checkout(checkout, tmp_path_factory):
    assert len(commit_of(checkout)) == 40
    assert commit_of(tmp_path_factory.mktemp("plain")) is None
    assert commit_of(checkout / "absent") is None


def test_a_folder_that_is_none_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"absent cannot be read .*correct verify\.toml"):
        snapshot(tmp_path / "absent")
