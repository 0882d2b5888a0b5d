import pytest
from hypothesis import given
from hypothesis import strategies as st

from verify.differences import differences, unequal

SETTINGS = {
    "commit": "a1",
    "model": "m",
    "launch": ["serve", "--port", "{port}"],
    "says": {
        "server_info": {"backend": "x", "version": "1"},
        "models": {"data": [{"id": "m", "max_model_len": 5}]},
    },
}


def found(pr, *declared):
    lines = list(differences({"base": SETTINGS, "pr": pr}, declared))
    return [line.partition(" differ in ")[2].partition(":")[0] for line in lines]


def changed(**settings):
    return {**SETTINGS, **settings}


SAYS = {**SETTINGS["says"], "server_info": {"backend": "y", "version": "2"}}


@pytest.mark.parametrize(
    ("pr", "declared", "names"),
    [
        (SETTINGS, (), []),
        (changed(commit="b2"), (), []),
        (changed(model="n"), (), ["model"]),
        (changed(model="n"), ("model",), []),
        (changed(launch=["serve"]), (), ["launch"]),
        (changed(launch=["serve"]), ("launch",), []),
        (changed(says=SAYS), (), ["says.server_info.backend", "says.server_info.version"]),
        (changed(says=SAYS, commit="b2"), (), ["says.server_info.backend"]),
        (changed(says=SAYS), ("backend", "version"), []),
        (changed(says=SAYS), ("server_info",), []),
        (changed(says=SAYS), ("says",), []),
        (
            changed(says=SAYS),
            ("info", "end", "says.server"),
            ["says.server_info.backend", "says.server_info.version"],
        ),
        (changed(says={}), ("says.server_info", "says.models.data"), []),
        (
            changed(says={**SETTINGS["says"], "models": {"data": [{"id": "n"}]}}),
            (),
            ["says.models.data.0.id", "says.models.data.0.max_model_len"],
        ),
        (changed(says={**SETTINGS["says"], "models": {"data": [{"id": "n"}]}}), ("model",), []),
        (changed(new=1), (), ["new"]),
    ],
)
def test_only_what_was_declared_may_differ(pr, declared, names):
    assert found(pr, *declared) == names


def test_a_difference_is_one_safe_line_with_the_remedy():
    (line,) = differences({"a": SETTINGS, "b": changed(model="\x1b[31m\n" + "x" * 500)}, ())
    assert line.startswith("a and b differ in model: 'm' against '")
    assert line.endswith("declare it with --differ model")
    assert line.isprintable()
    assert len(line) < 300


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", min_size=1), inner, max_size=3)
    ),
)


@given(st.dictionaries(st.text("abc", min_size=1), VALUES))
def test_nothing_differs_from_itself_and_everything_from_nothing(settings):
    assert not list(unequal(settings, settings))
    for name, one, other in unequal(settings, {}):
        assert one is not None
        assert other is None
        assert name
