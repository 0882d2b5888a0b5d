"""Names held as pieces of one buffer are what a list and a dictionary make of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verify.logs import names
from verify.logs.names import Names

# Few letters, so that names are often the same; of one byte to four, half a surrogate, a zero.
TEXTS = st.lists(st.text("ab\0é語\U0001f600\ud83d\ude00", max_size=4), max_size=12)
# What Python's hash gives, and hashes that many different names, or all, have in common.
HASHES = {
    "own": names.hashes,
    "length": lambda texts: np.array([len(text) for text in texts], np.int64),
    "none": lambda texts: np.zeros(len(texts), np.int64),
}


@pytest.fixture(params=HASHES, autouse=True)
def _hashed(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names, "hashes", HASHES[request.param])
        yield


@given(parts=st.lists(TEXTS, min_size=1, max_size=4), data=st.data())
def test_names_come_back_as_they_were_given(parts, data):
    texts = [text for part in parts for text in part]
    held = Names.joined([Names.of(part) for part in parts])
    assert list(held) == texts
    assert len(held) == len(texts)
    taken = data.draw(st.lists(st.sampled_from(range(len(texts))))) if texts else []
    some = held.taken(np.array(taken, np.intp))
    assert list(some) == [texts[place] for place in taken]
    assert [some[place] for place in range(len(some))] == list(some)


@given(texts=TEXTS)
def test_distinct_names_are_in_order_of_first_appearance(texts):
    distinct, codes = Names.of(texts).distinct()
    assert list(distinct) == list(dict.fromkeys(texts))
    assert [distinct[code] for code in codes] == texts


@given(texts=TEXTS, among=TEXTS, at_once=st.integers(1, 9))
def test_a_name_is_found_where_it_stands_and_no_other_is(texts, among, at_once):
    among = list(dict.fromkeys(among))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names, "_AT_ONCE", at_once)
        found = Names.of(texts).places(Names.of(among))
    assert found.tolist() == [among.index(t) if t in among else -1 for t in texts]
