"""Workers of Celery under `turnmill run`: they end behind their task, without the functions of atexit.

Part of `make test-sdks`; no broker of ours is needed, since what can't be sent is in the spool.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

from tests.sdks.python_sdks import HERE, environment
from tests.sdks.recordings import by_run
from tests.support.places import ROOT
from tests.support.scripted_upstream import upstream
from tests.support.spools import away
from tests.support.workers import environment as variables

WITHIN = 60.0  # seconds


def test_what_the_last_task_said_is_published(tmp_path: Path) -> None:
    settings = away(tmp_path / "home", capture_hosts="127.0.0.1=test")
    (tmp_path / "queue").mkdir()
    python = environment("celery")
    with upstream() as address:
        told = {
            **os.environ,
            **variables(settings),
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(HERE))),
            "QUEUE": str(tmp_path / "queue"),
            "ADDRESS": address,
        }
        asking = [python, "-c", "import celery_app; celery_app.ask.delay('task')"]
        subprocess.run(asking, env=told, check=True, cwd=tmp_path)  # the queue's `control` is made where it runs
        celery = [python.with_name("celery"), "-A", "celery_app", "worker", "-l", "INFO"]
        command = [python.with_name("turnmill"), "run", "--", *celery, "-c", "1", "--max-tasks-per-child", "1"]
        with subprocess.Popen(command, env=told, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as worker:
            assert worker.stderr is not None
            assert any("succeeded" in line for line in worker.stderr)
            worker.send_signal(signal.SIGTERM)
            worker.stderr.read()
    assert worker.returncode == 0
    deadline = time.monotonic() + WITHIN
    while not (found := by_run(settings)):  # a child that has the spool may outlive the worker for a moment
        assert time.monotonic() < deadline, "the worker's child has published nothing"
        time.sleep(0.2)
    [records] = found.values()
    assert records[0]["events"][0]["request"]["user"] == "task"
    assert records[-1]["end"] == "complete"
