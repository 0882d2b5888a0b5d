from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.verify import pool_jobs
from verify.pool import Lost, Pool, WorkerError


def test_lost_jobs_are_told_and_all_others_answered():
    jobs = [0, "exit", 1, "abort", 2, "hang", 3, 4]
    with Pool(pool_jobs.start, 2, lambda job: 2.0 if job == "hang" else 60.0) as pool:
        answers = dict(pool.answers(jobs))
        assert {job for job, answer in answers.items() if not isinstance(answer, Lost)} == set(
            range(5)
        )
        assert all(answers[job][0] == job for job in range(5))
        assert {answers[job][1] for job in range(5)} <= {0, 1}
        assert "exit code 7" in answers["exit"].reason
        assert "SIGABRT" in answers["abort"].reason
        assert "after 2 s" in answers["hang"].reason
        assert [answers[job].hung for job in ("exit", "abort", "hang")] == [False, False, True]
        assert dict(pool.answers([5])) == {5: (5, 0)}, "usable again, the first free worker answers"
        processes = [worker.process for worker in pool.workers]
    assert not any(process.is_alive() for process in processes)


@pytest.mark.parametrize("how", ["the parent is killed", "the worker is killed"])
def test_a_job_that_hangs_ends_with_all_it_started(how):
    program = (
        "import sys\n"
        "from tests.verify import pool_jobs\n"
        "from verify.pool import Pool\n"
        "if __name__ == '__main__':\n"
        "    with Pool(pool_jobs.start, 1, lambda _: 600) as pool:\n"
        "        pool.workers[0].give('start another, say both and hang', 600)\n"
        "        sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        pids = parent.stdout.readline().split()
        if how == "the parent is killed":
            parent.kill()
        else:
            parent.stdin.close()  # it leaves the pool
        # all of them hold the other end of this pipe: it ends with the last
        assert parent.stdout.read() == ""
    assert len(pids) == 2
    for pid in pids:
        assert not Path(f"/proc/{pid}").exists() or "zombie" in status(pid)


def status(pid):
    return Path(f"/proc/{pid}/status").read_text()


def test_a_defect_of_the_worker_itself_is_raised_here():
    with (
        Pool(pool_jobs.start, 1, lambda _: 60) as pool,
        pytest.raises(WorkerError, match="ZeroDiv"),
    ):
        list(pool.answers(["raise"]))
