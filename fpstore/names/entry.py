"""What the catalog says of a file of names, and what the file is called: as its segment, with another ending."""

ENDING = ".fpnames"
SEGMENT_ENDING = ".fpseg"


def names_name(segment_name: str) -> str:
    """The name of the file of names beside a segment, whether that is published or not."""
    return segment_name.replace(SEGMENT_ENDING, ENDING, 1)


def segment_of(name: str) -> str:
    """The name of the segment beside which a file of names lies; names_name the other way."""
    return name.replace(ENDING, SEGMENT_ENDING, 1)
