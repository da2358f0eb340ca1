"""Owns where a service listens: a Unix socket of its owner's alone, or a port; wider than this machine with a token."""

import contextlib
import errno
import ipaddress
import os
import resource
import secrets
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from fpstore.serve.limits import BACKLOG

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
MIN_TOKEN_BYTES = 16
MAX_TOKEN_BYTES = 4096  # a header of a request has room for it


def is_local(host: str) -> bool:
    """Whether only this machine can reach an address. ValueError for what is none."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise ValueError(f"host: found {host!r:.60}, expected localhost or an address such as 127.0.0.1") from None


def read_token(path: str | Path) -> bytes:
    """The token in a file, without the spaces around it. ValueError for one that could be guessed, or not be sent."""
    with open(path, "rb") as file:
        token = file.read(2 * MAX_TOKEN_BYTES).strip()
    if not MIN_TOKEN_BYTES <= len(token) <= MAX_TOKEN_BYTES or not all(0x21 <= byte <= 0x7E for byte in token):
        found = f"{len(token)} bytes" if len(token) <= MAX_TOKEN_BYTES else f"more than {MAX_TOKEN_BYTES} bytes"
        expected = f"a token of {MIN_TOKEN_BYTES} to {MAX_TOKEN_BYTES} visible ASCII characters"
        raise ValueError(f"{path}: found {found}, expected {expected}")
    return token


def others_may_read(path: str | Path) -> bool:
    """Whether other users of this machine may read a file, by its mode."""
    return bool(os.stat(path).st_mode & 0o077)


def need_files(count: int) -> None:
    """Let this process open so many files. ValueError where the system has it open fewer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        if hard != resource.RLIM_INFINITY and hard < count:
            raise ValueError(f"connections: found a need of {count} open files, expected at most {hard} (ulimit -n)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


@contextlib.contextmanager
def tcp_socket(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens at a port; 0: at one that is free."""
    address = "127.0.0.1" if host == "localhost" else host
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, port))
        except OSError as error:
            raise OSError(error.errno, os.strerror(error.errno or 0), f"{host}:{port}") from None
        listener.listen(BACKLOG)
        yield listener


@contextlib.contextmanager
def unix_socket(path: str) -> Iterator[socket.socket]:
    """A socket of its owner's alone (0600) that listens at a path, and is gone with the block.

    One that nobody listens to is replaced. OSError where somebody does, or something else lies there.
    """
    own = f"{path}.{secrets.token_hex(4)}"  # bound beside it, so that it is ready when it gets its name
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        before = os.umask(0o177)
        try:
            listener.bind(own)
        except OSError as error:
            told = os.strerror(error.errno) if error.errno else f"{error}: {len(os.fsencode(own))} bytes"
            raise OSError(error.errno or errno.ENAMETOOLONG, told, path) from None
        finally:
            os.umask(before)
        made = os.stat(own)
        try:
            listener.listen(BACKLOG)
            _take_name(own, path)
        finally:
            os.unlink(own)
        try:
            yield listener
        finally:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.lstat(path), made):
                    os.unlink(path)


def _take_name(own: str, path: str) -> None:
    """Give a socket its name, which it takes from one that nobody listens to."""
    for _ in range(100):
        try:
            os.link(own, path)
            return
        except FileExistsError:
            pass
        with contextlib.suppress(FileNotFoundError):
            _expect_nobody(path, path)
            # Aside first: by now it may be that of another who has just taken it, and gets it back.
            aside = f"{path}.{secrets.token_hex(4)}"
            os.rename(path, aside)
            try:
                _expect_nobody(aside, path)
            except OSError:
                os.link(aside, path)
                raise
            finally:
                os.unlink(aside)
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), path)


def _expect_nobody(path: str, told: str) -> None:
    """OSError unless there is a socket that nobody listens to."""
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        raise FileExistsError(errno.EEXIST, "found a file that is no socket, expected nothing or a socket", told)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        asked.settimeout(5)
        try:
            asked.connect(path)
        except ConnectionRefusedError:
            return
        except OSError:  # its queue is full, or it is somebody else's
            pass
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), told)
