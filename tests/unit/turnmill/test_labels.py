"""Whose a run is, by what its publisher says, what a model's call says, and where a coding agent works."""

from typing import Any

import pytest

from turnmill.labels import CHARACTERS, TAGS, labels_of, of_headers, pairs, parsed

SESSION = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("request_body", "user"),
    [
        ({"metadata": {"user_id": "ada"}}, "ada"),
        ({"user": "ada"}, "ada"),
        ({"safety_identifier": "ada", "user": "older"}, "ada"),
        ({"requestMetadata": {"user_id": "ada"}}, "ada"),
        ({"metadata": {"user_id": f"user_12_account_34_session_{SESSION}"}}, "user_12_account_34"),
        ({"metadata": {"user_id": f'{{"device_id":"d","account_uuid":"ada","session_id":"{SESSION}"}}'}}, "ada"),
        ({"metadata": {"user_id": f'{{"device_id":"d","account_uuid":"","session_id":"{SESSION}"}}'}}, "d"),
        ({"metadata": {"user_id": {"no": "text"}}, "user": 7}, None),
        ({"metadata": ["ada"]}, None),
        ("ada", None),
    ],
)
def test_the_user_of_a_call_is_where_its_api_names_it(request_body: Any, user: str | None) -> None:
    assert labels_of({}, request_body).get("user") == user


def test_what_the_publisher_says_precedes_the_call_and_the_folder() -> None:
    body = {"metadata": {"user_id": "ada", "environment": "test", "tags": "a, b,a"}}
    session = {"cwd": "/home/ann/shop", "git_branch": "main"}
    labels = labels_of({"user": "bob", "project": "till"}, body, session)
    assert labels == {"user": "bob", "environment": "test", "tags": ["a", "b"], "project": "till", "branch": "main"}


@pytest.mark.parametrize(
    ("folder", "project"),
    [("/srv/shop/", "shop"), ("C:\\work\\shop", "shop"), ("shop", "shop"), ("/", None), (7, None)],
)
def test_a_project_is_called_as_its_folder(folder: Any, project: str | None) -> None:
    assert labels_of({}, None, {"cwd": folder}).get("project") == project


def test_labels_are_bounded_and_any_json_is_taken() -> None:
    tags = ["a", "", " ", 7, None, *map(str, range(100))]
    labels = labels_of({"user": "u" * 1_000, "environment": 3, "branch": "  ", "tags": tags})
    assert labels == {"user": "u" * CHARACTERS, "tags": ["a", *map(str, range(TAGS - 1))]}


def test_pairs_are_of_the_kinds_that_filters_name() -> None:
    assert pairs({"tags": ["x", "y"], "user": "ada", "other": "z"}) == [("user", "ada"), ("tag", "x"), ("tag", "y")]
    assert pairs("no object") == []


def test_headers_and_the_setting_say_the_same() -> None:
    headers = {"turnmill-user": "ada", "turnmill-tags": "a,b", "turnmill-thread": "chat", "user": "nobody"}
    assert of_headers(headers) == parsed("user=ada, tag=a,tag=b") == {"user": "ada", "tags": ["a", "b"]}


@pytest.mark.parametrize("setting", ["user", "person=ada", "user=", "=ada"])
def test_a_setting_that_says_nothing_is_refused(setting: str) -> None:
    with pytest.raises(ValueError, match=r"kind=label,… is expected"):
        parsed(setting)
