import pytest

from verify.keys import secrets, unkeepable


@pytest.mark.parametrize(
    ("headers", "kept"),
    [
        ({"Authorization": "Bearer abc-12"}, ["Bearer abc-12", "abc-12"]),
        ({"Authorization": "abc-12"}, ["abc-12"]),
        ({"authorization": "Basic dXNlcjpwYXNz"}, ["Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"]),
        ({"X-Api-Key": "s3cret"}, ["s3cret"]),
        ({"api_key": "s3cret"}, ["s3cret"]),
        ({"X-Auth-Token": "12345678"}, ["12345678"]),
        ({"Cookie": "a=en; b=s3cret; t=1"}, ["a=en; b=s3cret; t=1", "b=s3cret;", "s3cret"]),
        ({"Authorization": "Bearer EMPTY"}, ["Bearer EMPTY"]),
        ({"X-Tenant": "team-one", "X-Try": "1"}, ["team-one"]),
        ({"X-Tenant": "red"}, []),
        ({"X-Monkey": "banana"}, []),
        ({}, []),
    ],
)  # fmt: skip
def test_keys_are_kept_at_any_length_and_short_values_are_no_keys(headers, kept):
    assert list(secrets(headers)) == [part.encode() for part in kept]
    assert list(unkeepable(headers)) == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer abc"},
        {"Authorization": "Bearer 1234567"},
        {"X-Api-Key": "42"},
        {"Proxy-Authorization": "blue"},
    ],
)
def test_a_key_that_answers_may_hold_by_chance_is_refused(headers):
    assert list(unkeepable(headers)) == list(headers)
    assert all(len(part) >= 8 for part in secrets(headers))
