"""Mistakes in what other programs ask: the coprocess, and the service over HTTP."""

from mutants.record import Mutant

LINES = "fpstore/serve/lines.py"
WRITING = "fpstore/serve/writing.py"
APP = "fpstore/serve/app.py"
SOCKETS = "fpstore/serve/sockets.py"

MUTANTS = (
    # --- lines ---
    Mutant(
        "lines that were refused together are not asked one by one",
        LINES,
        "if len(rows.numbers) == 1:",
        "if rows.numbers:",
        "a line with too many matches takes the answers of those that came with it",
        ("tests/test_serve_lines.py::test_a_line_with_too_many_matches_is_an_error_and_never_a_shorter_answer",),
    ),
    Mutant(
        "the answer to a line is not bounded",
        LINES,
        "store.max_matches, store.max_name_bytes = MAX_MATCHES, MAX_ANSWER_BYTES",
        "pass",
        "one line of a hostile client takes the memory",
        ("tests/test_serve_lines.py::test_a_line_with_too_many_matches_is_an_error_and_never_a_shorter_answer",),
    ),
    Mutant(
        "the end of a line over the limit is a line of its own",
        LINES,
        "too_long = True",
        "too_long = False",
        "one line gets two answers, and all that follow are those of others",
        ("tests/test_serve_lines.py::test_a_line_over_the_limit_is_one_error_and_is_not_held",),
    ),
    Mutant(
        "numbers are ids whatever their size",
        "fpstore/serve/forms.py",
        "if type(value) is int and abs(value) > MAX_EXACT:",
        "if False:",
        "an id that jq has rounded is stored as another one",
        (
            "tests/test_serve_lines.py::test_a_bad_id_costs_its_line_alone",
            "tests/test_serve_app.py::test_what_is_wrong_with_a_request_is_said",
        ),
    ),
    Mutant(
        "an answer is as long as it gets",
        "fpstore/serve/forms.py",
        "if left < 0:",
        "if False:",
        "a few names that JSON writes with six bytes for one take the memory",
        ("tests/test_serve_bounds.py::test_what_names_become_as_they_are_written_counts",),
    ),
    Mutant(
        "of names that are told to an addition those of its own rows do not count",
        "fpstore/living/named.py",
        "left = most - int(names.sizes()[first[at[own]]].sum())",
        "left = most",
        "a row with one long name, and many that are near it, take gigabytes",
        ("tests/test_serve_bounds.py::test_the_bytes_of_names_are_counted_exactly",),
    ),
    Mutant(
        "a name that an answer has often counts once",
        "fpstore/living/named.py",
        "total += int(counts[own] @ parts[-1].sizes())",
        "total += int(parts[-1].sizes().sum())",
        "a body of 5 kB is answered by gigabytes",
        ("tests/test_serve_bounds.py::test_the_bytes_of_names_are_counted_exactly",),
    ),
    # --- writing ---
    Mutant(
        "additions of several distances go together",
        WRITING,
        "(self.kind, self.max_distance) == (other.kind, other.max_distance)",
        "self.kind == other.kind",
        "a row is tested by the distance of another request",
        ("tests/test_serve_writing.py::test_changes_that_wait_go_together_and_in_order",),
    ),
    Mutant(
        "a group has any number of rows",
        WRITING,
        "rows + change.rows <= GROUP_ROWS",
        "True",
        "what waits is more than one addition may have, and all of it is refused",
        ("tests/test_serve_writing.py::test_a_group_has_so_many_rows_and_one_alone_may_have_more",),
    ),
    Mutant(
        "what one did wrong is told to all",
        WRITING,
        "if len(group) > 1 and isinstance(error, Exception) and is_of_the_request(error):",
        "if False:",
        "a request is refused for what another one asked",
        ("tests/test_serve_writing.py::test_what_one_did_wrong_is_told_to_that_one",),
    ),
    # --- app, service ---
    Mutant(
        "any scheme goes with the token",
        APP,
        'scheme.lower() == b"bearer"',
        "scheme",
        "who sends the token as a password is let in, by other rules than those that are told",
        ("tests/test_serve_app.py::test_only_who_shows_the_token_is_answered",),
    ),
    Mutant(
        "statistics need no token",
        APP,
        'if path != "/healthz":',
        'if path not in ("/healthz", "/stats"):',
        "anybody reads what the store holds",
        ("tests/test_serve_app.py::test_only_who_shows_the_token_is_answered",),
    ),
    Mutant(
        "a port takes requests for any host",
        APP,
        "elif self._only_local:",
        "elif False:",
        "a page in a browser asks the service on the same machine",
        ("tests/test_serve_app.py::test_without_a_token_a_port_is_for_requests_that_name_this_machine",),
    ),
    Mutant(
        "a length that is announced is not looked at",
        APP,
        "if length > most:",
        "if False:",
        "a body is read up to the limit before it is refused",
        ("tests/test_serve_app.py::test_a_body_that_is_refused_is_not_held",),
    ),
    Mutant(
        "a body in chunks has no limit",
        APP,
        "if size > most:",
        "if False:",
        "a client takes all of the memory",
        ("tests/test_serve_app.py::test_limits_are_kept",),
    ),
    Mutant(
        "what a refused client sends is thrown away without a limit",
        APP,
        'left - len(message["body"])',
        "left",
        "a client is listened to for longer than it is worth",
        ("tests/test_serve_app.py::test_of_a_body_that_is_refused_no_more_than_so_much_is_thrown_away",),
    ),
    Mutant(
        "an answer over HTTP is not bounded",
        "fpstore/serve/service.py",
        "reader.max_matches = limits.matches",
        "pass",
        "one request of a hostile client takes the memory",
        ("tests/test_serve_app.py::test_limits_are_kept",),
    ),
    Mutant(
        "compressed buffers of Arrow are taken",
        "fpstore/serve/arrow.py",
        "if compressed:",
        "if False:",
        "a small body grows to any size",
        ("tests/test_serve_app.py::test_a_stream_that_cannot_be_taken_is_refused",),
    ),
    # --- sockets ---
    Mutant(
        "a socket is open to all",
        SOCKETS,
        "os.umask(0o177)",
        "os.umask(0)",
        "every user of the machine writes to the store",
        ("tests/test_serve_server.py::test_a_unix_socket_is_its_owners_alone_and_goes_with_its_block",),
    ),
    Mutant(
        "a socket that was put aside is not looked at again",
        SOCKETS,
        "_expect_nobody(aside, path)",
        "pass",
        "two services that start at once: one of them listens where nobody comes",
        ("tests/test_serve_server.py::test_a_socket_that_another_took_just_then_is_given_back",),
    ),
    Mutant(
        "the end of a service takes any socket of its name",
        SOCKETS,
        "if os.path.samestat(os.lstat(path), made):",
        "if True:",
        "a service that ends late takes the socket of the next one",
        ("tests/test_serve_server.py::test_a_socket_that_has_another_ones_name_by_now_is_left",),
    ),
)
