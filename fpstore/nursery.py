"""The processes that work for a caller: one that imports what they need, once, and forks them. No caller is forked.

That one, the nursery, is a new process of this interpreter with one thread, and nothing of the caller's program. A
worker is given functions by name, and their arguments, over a pipe, and ends with that; the nursery ends with its
workers and its caller. So none is left behind by a caller that was killed. Neither hears a Ctrl-C of its own.
"""

import gc
import importlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import IO, Any, TypeVar

# How long a worker that was told to end is waited for.
ENDING_SECONDS = 2.0
# The longest message between a nursery and its caller.
_MESSAGE_BYTES = 1 << 15
# What is said in place of a worker's number where the system gives no process.
_REFUSED = b"none"
# What a worker is born with: who asks it, who hears its answers, and who hears of its birth and its end.
_GIFTS = 3

# What a nursery does first: it tells in a line what keeps it from the rest, over the socket that is its standard input.
_BEGIN = """import sys; sys.path[:] = {!r}
try:
    from fpstore.nursery import tend
except BaseException as error:
    said = " ".join(f"{{type(error).__name__}}: {{error}}".split())
    import os; os.write(0, said.encode(errors="replace")[:1000]); raise
tend()"""
_READY = b"ready"

# Whether this process is a worker, in which nothing runs but what it is given: nobody changes what packages hold.
is_alone = False

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
# Brings what work needs before any of it is given: called in the nursery, whose workers have what it has brought.
Ready = Callable[[], object]


def _pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _wire(readers: ExitStack, writers: ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    """Both ends of a pipe, which whoever reads and whoever writes closes."""
    reader, writer = os.pipe()
    return readers.enter_context(os.fdopen(reader, "rb")), writers.enter_context(os.fdopen(writer, "wb"))


def _has_news(who: socket.socket, seconds: float = 0.0) -> bool:
    """Whether there is something to be received within so many seconds, be it an end."""
    changes = select.poll()
    changes.register(who, select.POLLIN)
    return bool(changes.poll(max(seconds, 0.0) * 1000))


class Nursery:
    """One process that workers are forked from."""

    def __init__(self, environment: Mapping[str, str], module: str, ready: Ready | None) -> None:
        """environment: variables of the workers, where the caller's own has no others. module: what they import.

        Raises OSError where the system gives no process.
        """
        code = _BEGIN.format(sys.path)
        self._control, theirs = _pair()
        self._is_stopped, self._told = False, b""
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", code],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,  # what a terminal sends to its processes is for the caller
                    env={**environment, **os.environ, "OPENBLAS_NUM_THREADS": "1"},
                )
            except BaseException:
                self._control.close()
                raise
        brought = pickle.dumps((module, ready), 5)
        with suppress(OSError):  # it has ended: who asks for a worker hears of it
            self._control.send(brought if len(brought) <= _MESSAGE_BYTES else pickle.dumps((module, None), 5))

    @property
    def pid(self) -> int:
        """Of its process."""
        pid: int = self._process.pid
        return pid

    def bear(self) -> "Worker":
        """A worker, which begins when the nursery has what it needs.

        ConnectionError where the nursery has ended, another OSError where the system gives too little.
        """
        with ExitStack() as given, ExitStack() as kept:
            asked, requests = _wire(given, kept)
            answers, told = _wire(kept, given)
            own, theirs = _pair()
            given.enter_context(theirs)
            kept.enter_context(own)
            socket.send_fds(self._control, [b"one"], [asked.fileno(), told.fileno(), theirs.fileno()])
            kept.pop_all()
            return Worker(requests, answers, own, self.end_told)

    def stop(self) -> None:
        """End it at once where it has yet to import what workers need, so that none is born any more."""
        if not _has_news(self._control):
            self._is_stopped = True
            self._process.kill()
            self._process.wait()

    def end_told(self) -> str:
        """How it has ended by itself, for who waits for a worker that never was; "" where it was told to end."""
        try:
            code = self._process.wait(ENDING_SECONDS)  # its end of a socket is closed a moment before that
        except subprocess.TimeoutExpired:
            return ""
        if self._is_stopped:
            return ""
        how = f"by signal {-code}" if code < 0 else f"with status {code}"
        self._listen()
        why = f" ({self._told.decode(errors='replace')})" if self._told not in (b"", _READY) else ""
        return f", as the process that begins workers ended {how}{why}"

    def _listen(self) -> None:
        """Take what it has told, before nobody can any more."""
        for _ in range(2):  # one that ends with something unread is first heard of as an error
            with suppress(OSError, ValueError):
                if not self._told and _has_news(self._control):
                    self._told = self._control.recv(_MESSAGE_BYTES)

    def end(self, deadline: float) -> None:
        """Have it end, which it does when all of its workers have; by force where it has not by then."""
        self._listen()
        self._control.close()
        try:
            self._process.wait(max(deadline - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Worker:
    """One process, and the pipes to it."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes], fate: socket.socket, unborn: Callable[[], str]) -> None:
        """unborn: says why where it was never begun."""
        self._unborn = unborn
        self._requests, self._answers, self._fate = requests, answers, fate
        self._lock = threading.Lock()  # over what is heard of its birth
        self._ending = threading.Lock()  # by who asks it, or by who closes all
        self._pid = 0
        self._handle = -1  # by which no other process is meant, whoever has its number later
        self._heard_all = self._is_refused = False
        self._told = ""  # how it has ended
        self.has_answered = False

    @property
    def pid(self) -> int:
        """Of its process; 0 where its nursery has ended before it was born, or it was refused. Waits for its birth."""
        with self._lock:
            if not self._pid and not self._heard_all:
                message, handles, *_ = socket.recv_fds(self._fate, _MESSAGE_BYTES, 1)
                self._is_refused = message == _REFUSED
                self._heard_all = self._is_refused or not message
                if not self._heard_all:
                    self._pid = int(message)
                for self._handle in handles:  # none where the system has none, or this process too many files open
                    os.set_inheritable(self._handle, False)
            return self._pid

    @property
    def is_refused(self) -> bool:
        """Whether the system had no process to give. Waits for its birth."""
        return not self.pid and self._is_refused

    def ask(self, work: Callable[[_Item], _Result], item: _Item) -> _Result:
        """What work makes of an item there. Whoever stops waiting for an answer has to end the process."""
        request = pickle.dumps((work, item), 5)
        try:
            self._requests.write(request)
            self._requests.flush()
            is_good, answer = pickle.load(self._answers)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            self.let_go()
            told = self.end(time.monotonic() + ENDING_SECONDS)
            raise ChildProcessError(f"worker process {self._pid}: {told}, expected an answer") from None
        self.has_answered = True
        if not is_good:
            raise answer
        result: _Result = answer
        return result

    def let_go(self) -> None:
        """Tell it to end, once it has done what it does."""
        with suppress(OSError):  # it has ended, with something unread
            self._requests.close()

    def kill(self) -> None:
        """End it at once, whatever it does."""
        if self.pid:
            with self._lock, suppress(ProcessLookupError):
                if self._handle >= 0:
                    signal.pidfd_send_signal(self._handle, signal.SIGKILL)
                elif self._fate.fileno() >= 0 and not _has_news(self._fate):  # so its number is its own
                    os.kill(self._pid, signal.SIGKILL)

    def end(self, deadline: float) -> str:
        """Have it end, by force where it has not by then; how it has ended."""
        with self._ending:
            if not self._told:
                if self.pid and not _has_news(self._fate, deadline - time.monotonic()):
                    self.kill()
                if self.is_refused:
                    self._told = "found that the system had no process to give"
                else:
                    self._told = _told_of(b"" if self._heard_all else self._fate.recv(_MESSAGE_BYTES), self._pid)
                    self._told += "" if self._pid else self._unborn()
                self._answers.close()
                with self._lock:
                    self._fate.close()
                    handle, self._handle = self._handle, -1  # as Folder.close
                    if handle >= 0:
                        os.close(handle)
            return self._told


def _told_of(status: bytes, pid: int) -> str:
    """What to say of how a process has ended, by what its nursery said."""
    if not status:
        return "found its end, and that of the process that began it" if pid else "found that it never began"
    code = int(status)
    return f"found its end by signal {-code}" if code < 0 else f"found its end with status {code}"


def tend() -> None:
    """What a nursery does: has what workers need, forks them as they are asked for, and tells how they end."""
    global is_alone
    is_alone = True
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a caller that ignores it would have its workers end unheard
    control = socket.socket(fileno=os.dup(0))
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)  # what a package reads or prints is no request, and no answer
    os.dup2(2, 1)
    with suppress(Exception):  # who does the work tells what is wrong
        module, ready = pickle.loads(control.recv(_MESSAGE_BYTES))
        importlib.import_module(module)
        if ready is not None:
            ready()
    with suppress(OSError):
        control.send(_READY)
    sys.stdout.flush()  # or each worker would print it again
    gc.collect()
    gc.freeze()  # what all share is not copied by looking through it
    born: dict[int, tuple[int, socket.socket]] = {}
    changes = select.poll()
    changes.register(control, select.POLLIN)
    is_asked = True
    while is_asked or born:
        for fd, _ in changes.poll():
            if fd != control.fileno():
                _bury(fd, changes, born)
                continue
            is_asked = _bear(control, changes, born)
            if not is_asked:
                changes.unregister(control)


def _bear(control: socket.socket, changes: select.poll, born: dict[int, tuple[int, socket.socket]]) -> bool:
    """Fork a worker, where one is asked for; whether anybody is there to ask.

    born: who each is, by a pipe whose other end it alone holds, and so lets go of when it ends.
    """
    try:
        message, fds, *_ = socket.recv_fds(control, _MESSAGE_BYTES, _GIFTS)
    except ConnectionError:
        return False
    if not message:
        return False
    for fd in fds:
        os.set_inheritable(fd, False)
    if len(fds) != _GIFTS:  # too many files are open
        for fd in fds:
            os.close(fd)
        return True
    requests, answers, told = fds
    fate = socket.socket(fileno=told)
    ends: tuple[int, ...] = ()
    try:
        ends = os.pipe()
        pid = os.fork()
    except OSError:
        pid = -1
    if pid == 0:
        control.close()
        os.close(ends[0])
        for life, (_, other) in born.items():
            os.close(life)
            other.close()
        _live(requests, answers, fate)
    for fd in (requests, answers, *(ends if pid < 0 else ends[1:])):
        os.close(fd)
    if pid < 0:
        with fate, suppress(OSError):
            fate.send(_REFUSED)
        return True
    born[ends[0]] = pid, fate
    changes.register(ends[0], select.POLLIN)
    return True


def _bury(life: int, changes: select.poll, born: dict[int, tuple[int, socket.socket]]) -> None:
    """Tell how a worker has ended, while its number is still its own."""
    pid, fate = born.pop(life)
    changes.unregister(life)
    os.close(life)
    how = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert how is not None
    with fate, suppress(OSError):
        fate.send(b"%d" % (how.si_status if how.si_code == os.CLD_EXITED else -how.si_status))
    os.waitpid(pid, 0)


def _live(requests: int, answers: int, fate: socket.socket) -> None:
    """The life of a worker, from the fork on."""
    status = 1
    try:
        # It tells of itself: one that works is known, though its nursery may end at any moment.
        socket.send_fds(fate, [b"%d" % os.getpid()], _own_handle())
        serve(requests, answers)
        status = 0
    except BrokenPipeError:
        status = 0  # without a word: whoever asked is gone
    finally:
        if status:
            sys.excepthook(*sys.exc_info())
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(status)


def _own_handle() -> list[int]:
    """One, or none where the kernel, the interpreter or who confines them has none: then a number has to do."""
    try:
        handle = os.pidfd_open(os.getpid())
        signal.pidfd_send_signal(handle, 0)
        return [handle]
    except (AttributeError, OSError):
        return []


def serve(requests_fd: int, answers_fd: int) -> None:
    """What a worker does: answers, until nobody asks any more."""
    with os.fdopen(requests_fd, "rb") as requests, os.fdopen(answers_fd, "wb") as answers:
        while True:
            try:
                work, item = pickle.load(requests)
            except (EOFError, pickle.UnpicklingError):  # also in the middle of a request: whoever asked is gone
                return
            answers.write(_answer(work, item))
            answers.flush()


def _answer(work: Callable[[Any], Any], item: Any) -> bytes:
    try:
        return pickle.dumps((True, work(item)), 5)
    except Exception as error:
        return pickle.dumps((False, error), 5)
