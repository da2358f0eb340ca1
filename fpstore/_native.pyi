FEATURES: dict[str, tuple[str, ...]]
INSTRUCTION_SETS: tuple[str, ...]
INSTRUCTION_SET: str
