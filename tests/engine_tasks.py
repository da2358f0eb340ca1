"""Tasks that go wrong on the way, for workers of any engine: a module of its own, which these import."""

import os
import signal
import time
from pathlib import Path

from fpstore.cluster.measuring import MeasureTask
from fpstore.cluster.searching import ProbeTask
from fpstore.jobs.shards import ShardTask
from fpstore.store import Store

DEATHS = "deaths"
PROCESSES = "processes"
STRAGGLING_SECONDS = 120.0


class Dying(ProbeTask):
    """A task whose process is killed in the middle, after part of it was written, as often as DEATHS has it."""

    def run(self, store: Store) -> int:
        deaths = self.folder / DEATHS
        count = int(deaths.read_text()) if self.maker.task == 1 else 0
        if count:
            deaths.write_text(str(count - 1))
            (self.folder / f"{self.maker.name}.half.new").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().run(store)


class Twice(ProbeTask):
    """A task that is done twice."""

    def run(self, store: Store) -> int:
        assert super().run(store) == super().run(store)
        return 0


class DyingMeasure(MeasureTask):
    """The same of a job, whose file the environment names."""

    def do(self) -> int:
        deaths = Path(os.environ[DEATHS])
        count = int(deaths.read_text()) if self.maker.task == 1 else 0
        if count:
            deaths.write_text(str(count - 1))
            (self.folder / f"{self.maker.name}.0123456789abcdef.new").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().do()


class SlowMeasure(MeasureTask):
    """A task of a job that takes a while, and says in a folder which process did it."""

    def do(self) -> int:
        (Path(os.environ[PROCESSES]) / str(os.getpid())).touch()
        time.sleep(0.2)
        return super().do()


class Straggling(ProbeTask):
    """A task of whose first attempts the second waits for another one, as long as an engine may take to begin it."""

    def run(self, store: Store) -> int:
        (self.folder / f"{self.maker.name}.by.{os.getpid()}").touch()
        deadline = time.monotonic() + STRAGGLING_SECONDS
        while self.maker.task == 1 and len(attempts_of(self)) < 2:
            if time.monotonic() > deadline:
                raise TimeoutError("found one attempt, expected another one beside it")
            time.sleep(0.05)
        return super().run(store)


def attempts_of(task: ProbeTask) -> list[Path]:
    """A file for each process that a task was begun in."""
    return list(task.folder.glob(f"{task.maker.name}.by.*"))


class DyingShard(ShardTask):
    """A task that writes shards, whose process is killed in the middle, as often as the file of the environment has."""

    def do(self) -> int:
        deaths = Path(os.environ[DEATHS])
        count = int(deaths.read_text()) if self.maker.task == 1 else 0
        if count:
            deaths.write_text(str(count - 1))
            (self.output / f"{self.shards[0].name}.0123456789abcdef.new").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().do()
