from tests.support.distribution import place, scope
from tests.support.durations import short_name, updated

FILES = ("test_a.py", "test_b.py", "test_c.py")


def test_the_longest_comes_first_and_what_is_not_known_breaks_nothing() -> None:
    known = {"test_a.py": 30, "test_b.py::test_x[1]": 60, "test_gone.py::test_y": 90}
    tests = [
        "tests/unit/test_new.py::test_z",
        "tests/integration/test_new.py::test_z",
        "tests/unit/room/test_a.py::test_x",
        "tests/integration/room/test_b.py::test_x[1]",
    ]
    assert sorted(tests, key=lambda test: place(test, known)) == tests[::-1]


def test_what_is_dealt_out_at_once() -> None:
    test = "tests/integration/room/test_a.py::test_x[a::b/c]"
    assert (scope(test), short_name(test)) == (test, "test_a.py::test_x[a::b/c]")
    together = "tests/integration/room/test_wire_security.py"
    assert scope(f"{together}::test_x") == together
    assert scope("tests/unit/test_a.py::test_x[a::b/c]") == "tests/unit/test_a.py"


def test_rows_of_what_was_run_are_new_and_those_of_files_that_have_gone_are_dropped() -> None:
    known = {"test_a.py::test_x": 5, "test_b.py": 7, "test_gone.py": 9}
    measured = [("tests/a/test_a.py::test_y", 1.5), ("tests/a/test_a.py::test_y", 1.2), ("tests/c/test_c.py", 0.4)]
    assert updated(known, measured, FILES) == {"test_a.py::test_y": 3, "test_b.py": 7}


def test_of_two_files_of_one_name_the_longer_counts() -> None:
    assert updated({}, [("tests/a/test_a.py", 4.0), ("tests/b/test_a.py", 9.0)], FILES) == {"test_a.py": 9}
