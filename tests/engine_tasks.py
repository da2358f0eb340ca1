"""Tasks that go wrong on the way, for workers of any engine: a module of its own, which these import."""

import os
import signal

from fpstore.cluster.tasks import ProbeTask
from fpstore.store import Store

DEATHS = "deaths"


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
