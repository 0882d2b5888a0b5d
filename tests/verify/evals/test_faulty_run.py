"""A whole run against servers that fail in every way: answered or listed, never made up."""

import random
from collections import Counter
from contextlib import ExitStack

from tests.verify.evals.sums import kept, result
from tests.verify.fault_server import FaultServer
from tests.verify.server_faults import FAULTS
from verify.store import Store

TOML = """
[arms.base]
base_url = "BASE"
stream = STREAM
limits = { attempts = 3, request_s = 1, gap_s = 0.5, first_wait_s = 0.001, largest_body = 1000000 }
[arms.pr]
base_url = "PR"
stream = STREAM
limits = { attempts = 3, request_s = 1, gap_s = 0.5, first_wait_s = 0.001, largest_body = 1000000 }
"""


def test_failures_are_listed_and_mended_by_going_on(evals, suite, here):
    dice, well = random.Random(9), []
    # those that say of themselves that nobody will be answered are no accident of one question
    names = [n for n in FAULTS if not n.startswith(("status_401", "status_403", "status_404"))]

    def choose(*_):
        return dice.choice(names) if not well and dice.random() < 0.2 else None

    with ExitStack() as stack:
        servers = [stack.enter_context(FaultServer(choose).running()) for _ in range(2)]
        toml = TOML.replace("BASE", servers[0].url).replace("PR", servers[1].url)
        (here / "verify.toml").write_text(toml.replace("STREAM", "true"))
        words = ["--suite", suite, "--concurrency", "32", "--out", "run"]
        code, _, err = evals(*words)
        records = kept(here / "run")
        failed = [record for record in records if record.error is not None]
        assert Counter((r.arm, r.item) for r in records).most_common(1)[0][1] == 1
        assert len(records) == 236
        assert all(record.correct for record in records if record.error is None)
        assert code == 4
        assert f"{len(failed)} questions have no answer; go on with: " in err
        assert {r.error.partition(":")[0] for r in failed} <= {f.kind for f in FAULTS.values()}
        well.append(True)
        assert evals(*words)[0] == 0
    assert len(kept(here / "run")) == 236
    assert all(record.correct for record in kept(here / "run"))
    assert result(here / "run")["suites"][0]["both"] == 118
    with Store.open(here / "run" / "records.sqlite") as store:
        answered = Counter((r.arm, r.item) for r in store.attempts() if r.error is None)
    assert set(answered.values()) == {1}
