"""Mistakes in the adapters to packages for images and to FAISS."""

from mutants.record import Mutant

FAISS = "tests/test_adapters_faiss.py"
IMAGES = "tests/test_adapters_imagehash.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "the bytes of a code are read from the last on",
        "fpstore/adapters/faiss.py",
        'found = padded.view(">u8").astype(np.uint64)',
        'found = padded.view("<u8").astype(np.uint64)',
        "a fingerprint is not the code that FAISS has",
        (f"{FAISS}::test_the_codes_of_a_file_are_those_of_the_store",),
    ),
    Mutant(
        "a vector may be longer than the file",
        "fpstore/adapters/faiss.py",
        "count <= left, ",
        "True, ",
        "a file of a stranger says how much memory is taken",
        (f"{FAISS}::test_what_is_no_index_of_codes_says_where_and_what",),
    ),
    Mutant(
        "as many ids as the file says",
        "fpstore/adapters/faiss.py",
        "expected in (None, count), expected",
        "True, expected",
        "codes get ids that are not there",
        (f"{FAISS}::test_what_is_no_index_of_codes_says_where_and_what",),
    ),
    Mutant(
        "what lies behind an index is not looked at",
        "fpstore/adapters/faiss.py",
        "walk.at == walk.size, ",
        "True, ",
        "a file of another kind passes for an index",
        (f"{FAISS}::test_every_truncation_is_refused_and_every_byte_more",),
    ),
    Mutant(
        "the second piece begins where the first did",
        "fpstore/adapters/faiss.py",
        "self.codes_offset + first * width",
        "self.codes_offset",
        "an index of more codes than are read at once is not read",
        (f"{FAISS}::test_codes_are_read_some_at_a_time",),
    ),
    Mutant(
        "a hash whose bits are no multiple of 8 is moved up",
        "fpstore/adapters/imagehash.py",
        ">> (-bits % 8)",
        ">> 0",
        "its digits and its bits are two hashes",
        (f"{IMAGES}::test_every_answer_is_that_of_brute_force",),
    ),
    Mutant(
        "groups are joined at one end only",
        "fpstore/adapters/imagehash.py",
        "first, second = sorted((_root(roots, one), _root(roots, other)))",
        "first, second = sorted((one, other))",
        "images that hang together are in two groups",
        (f"{IMAGES}::test_images_that_are_near_the_same_one_are_in_one_group",),
    ),
    Mutant(
        "an image alone is a group",
        "fpstore/adapters/imagehash.py",
        "if len(own) > 1",
        "if len(own) > 0",
        "an image that nothing is near is told as a duplicate",
        (f"{IMAGES}::test_every_answer_is_that_of_brute_force",),
    ),
    Mutant(
        "a hash of more bits than the index has is taken",
        "fpstore/adapters/imagehash.py",
        "or int(hash, 16) >> bits:",
        "or False:",
        "a hash of another kind is stored",
        (f"{IMAGES}::test_a_hash_of_fewer_bits_than_its_digits_hold_has_no_more",),
    ),
    Mutant(
        "a fork removes the store of its parent",
        "fpstore/adapters/scratch.py",
        "if folder is not None and os.getpid() == process:",
        "if folder is not None:",
        "an index without a path is gone when a worker ends",
        (f"{IMAGES}::test_an_index_without_a_path_is_gone_with_its_object",),
    ),
)
