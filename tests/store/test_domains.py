"""A domain's id tells nothing without the key, and no two domains share one."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tachograph.store.domains import ID_SIZE, Domain, tag

KEY, OTHER = b"k" * 32, b"o" * 32
_names = st.text(st.sampled_from("ab\x00\ud800"), max_size=3)
domains = st.builds(
    Domain, _names, st.sampled_from(["session", "run", "shared"]), subject=_names, session=_names, run=_names
)


@given(domains, domains)
@example(Domain("a", "session", subject="b"), Domain("a", "session", session="b"))
@example(Domain("a", "session", subject="b"), Domain("as", "session", subject="b"))
def test_two_domains_have_one_id_only_if_they_are_one(one: Domain, other: Domain) -> None:
    assert (one.id(KEY) == other.id(KEY)) == (one == other)


def test_the_id_depends_on_the_key_and_shows_no_name() -> None:
    domain = Domain.of_session("default", subject="ada@example.com", session="s1", run="run_1")
    assert len(domain.id(KEY)) == ID_SIZE
    assert domain.id(KEY) != domain.id(OTHER)
    assert b"ada" not in domain.id(KEY)


def test_a_decision_that_names_nobody_is_erased_with_its_run_and_apart_from_the_runs_own_domain() -> None:
    unnamed = Domain.of_session("default", subject="", session="", run="run_1")
    assert unnamed != Domain.of_session("default", subject="", session="", run="run_2")
    assert unnamed.id(KEY) != Domain.of_run("default", run="run_1").id(KEY)


def test_sessions_of_one_subject_are_one_domain_each_whatever_the_run() -> None:
    first = Domain.of_session("default", subject="ada", session="s1", run="run_1")
    assert first == Domain.of_session("default", subject="ada", session="s1", run="run_2")
    assert first != Domain.of_session("default", subject="ada", session="s2", run="run_1")


def test_tags_tell_users_from_sessions_and_tenants_apart() -> None:
    tags = {
        tag(KEY, "user", "a", "x"),
        tag(KEY, "session", "a", "x"),
        tag(KEY, "user", "b", "x"),
        tag(OTHER, "user", "a", "x"),
    }
    assert len(tags) == 4
    assert all(len(one) == 32 for one in tags)
