"""A task that an engine sends to a worker of its own: done there, and what it raised comes back as a value.

So the driver raises what the task raised, and no engine does again what would fail again: an engine's own errors are
left for what it alone knows of, such as a worker that was killed.
"""

import fpstore
from fpstore.cluster.tasks import Task, run_held
from fpstore.errors import JobError, StoreChanged

# How often a task is begun, where the engine does not say otherwise.
TRIES = 3


def attempt(task: Task) -> Exception | None:
    """Do the task; what it raised. The store stays open for the next task of the process."""
    try:
        try:
            run_held(task)
        except StoreChanged:
            run_held(task)  # opened anew: what was open may be of another job
    except FileNotFoundError as error:
        told = f"{task}: found no {error.filename} where a worker looked, expected what the driver sees there"
        return JobError(f"{told}: store and folder have to be on storage that all workers share")
    except Exception as error:
        return error
    return None


def failed(what: object, error: Exception) -> JobError:
    """The error about an engine that could not do its work. what: a task, or all of them."""
    if "No module named 'fpstore" in str(error):
        told = f"found no fpstore, expected {fpstore.__version__}, as at the driver: install it where the workers run"
        return JobError(f"{what}: a worker: {told}")
    return JobError(f"{what}: {type(error).__name__}: {_told(str(error)) or type(error).__name__}")


def _told(text: str) -> str:
    """The line of an engine's words that says what is wrong: behind the frames of a worker, if they tell any."""
    lines = [line for line in text.splitlines() if line.strip()]
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    behind = [line for line in lines[frames[-1] :] if not line[0].isspace()] if frames else []
    return next(iter(behind or lines), "")
