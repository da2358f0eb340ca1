from typing import NoReturn

FEATURES: dict[str, tuple[str, ...]]
INSTRUCTION_SETS: tuple[str, ...]
INSTRUCTION_SET: str

def refuse(part: str) -> NoReturn: ...
