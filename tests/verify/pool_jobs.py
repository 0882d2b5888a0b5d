"""Jobs for test_pool.py; a worker process imports them by name."""

import os
import signal
import subprocess
import time


def start(number):
    def answer(job):
        match job:
            case "exit":
                os._exit(7)
            case "abort":
                os.kill(os.getpid(), signal.SIGABRT)
            case "start another, say both and hang":
                child = subprocess.Popen(["sleep", "600"])
                print(os.getpid(), child.pid, flush=True)  # noqa: T201 - for the test that reads it
                time.sleep(600)
            case "hang":
                time.sleep(600)
            case "raise":
                raise ZeroDivisionError
        return (job, number)

    return answer
