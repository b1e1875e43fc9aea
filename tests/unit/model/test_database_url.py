"""A password in a URL is seen by nobody, however the URL is written."""

from __future__ import annotations

import pytest

from kranzq.model.database_url import DatabaseUrl, has_password, shown, stripped, without_passwords
from kranzq.runs.command import mission_environment

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@host/name",
        f"postgresql://:{SECRET}@host/name",
        f"postgresql://me:{SECRET}@host:5432,other:5433/name?sslmode=require",
        f"postgresql://me:a@{SECRET}@host/name",
        f"postgresql://me:a/{SECRET}@host/name",
        f"postgresql://me:a?{SECRET}@host/name",
        f"postgresql://host/name?user=me&password={SECRET}",
        f"postgresql://host/name?PASSWORD={SECRET}",
        f"postgresql://host/name?%70assword={SECRET}",
        f"postgresql://host/name?sslpassword={SECRET}",
        f"mysql://me:{SECRET}@host/name",
    ],
)
def test_a_password_is_found_and_hidden(url: str) -> None:
    """Whatever shows the URL shows no part of the password."""
    assert has_password(url)
    assert SECRET not in shown(url)
    assert SECRET not in repr(DatabaseUrl(url)) + str(DatabaseUrl(url)) + f"{DatabaseUrl(url)}"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://host/name",
        "postgresql://me@host:5432/name",
        "postgresql://host:5432/name?application_name=a@b",
        "postgresql:///name?host=/run/postgresql",
        "sqlite:///home/a:b@c/work.db",
    ],
)
def test_what_bears_no_password_is_shown_as_it_is(url: str) -> None:
    """An address is not cut short because a colon or an @ stands in it."""
    assert not has_password(url)
    assert str(DatabaseUrl.parse(url)) == url


@pytest.mark.parametrize(
    "text", ["", "work.db", "sqlite://", "sqlite://work.db", "sqlite:///folder/", "mysql://host/x", "sqlite:///a\0b"]
)
def test_what_is_no_url_is_refused(text: str) -> None:
    """Nothing is guessed: a path alone may be meant for anything."""
    with pytest.raises(ValueError, match=r"must be|names no"):
        DatabaseUrl.parse(text)


def test_a_refusal_shows_no_password() -> None:
    """Also of a URL that is none."""
    with pytest.raises(ValueError, match="must be") as fault:
        DatabaseUrl.parse(f"mysql://me:{SECRET}@host/name")
    assert SECRET not in str(fault.value)


def test_a_settings_file_is_shown_without_passwords() -> None:
    """Whoever is asked whether a file may count sees all of it but those."""
    line = f'url = "postgresql://me:{SECRET}@host/name"  # ours'
    assert without_passwords(line) == 'url = "postgresql://me:***@host/name"  # ours'


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        (f"postgresql://me:{SECRET}@host:1/name?sslmode=require", "postgresql://me@host:1/name?sslmode=require"),
        (
            f"postgresql://host/name?user=me&password={SECRET}&sslmode=require",
            "postgresql://host/name?user=me&sslmode=require",
        ),
        (f"postgresql://host/name?password={SECRET}", "postgresql://host/name"),
        ("postgresql://me@host/name", "postgresql://me@host/name"),
        ("sqlite:///a/b", "sqlite:///a/b"),
        (f"postgresql://me:a?{SECRET}@host/name", None),
    ],
)
def test_a_url_without_its_password_names_the_same_database(url: str, plain: str | None) -> None:
    """Whoever gets it reaches the same one, with a password of his own; what is unclear is not passed on at all."""
    assert stripped(url) == plain


def test_no_mission_gets_the_password() -> None:
    """The database is passed on without it, so that what a mission enqueues goes to the same one or fails."""
    given = {"KRANZQ_WORK_URL": f"postgresql://me:{SECRET}@host/name", "PATH": "/bin"}
    assert mission_environment(given) == {"PATH": "/bin", "KRANZQ_WORK_URL": "postgresql://me@host/name"}
    assert mission_environment({"KRANZQ_WORK_URL": f"postgresql://me:a?{SECRET}@host/name"}) == {}
    assert mission_environment({"KRANZQ_OTHER": f"postgresql://me:{SECRET}@host/name"}) == {}
    plain = {"KRANZQ_WORK_URL": "postgresql://me@host/name"}
    assert mission_environment(plain) == plain
    assert mission_environment({}) == {}
