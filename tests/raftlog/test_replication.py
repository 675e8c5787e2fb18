from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from raftlog.replication import Answer, Answers, Ballots, Follower, is_reset_to_act_upon


def accepted(seq: int, next_index: int, term: int = 1) -> Answer:
    return Answer(term=term, seq=seq, next_index=next_index, reset=False, success=True)


def rejected(seq: int, next_index: int = 2, term: int = 1) -> Answer:
    return Answer(term=term, seq=seq, next_index=next_index, reset=True, success=False)


def merged(*given_answers: Answer) -> list[tuple[int, int, bool, bool]]:
    answers = Answers()
    for answer in given_answers:
        answers.add("n1", answer)
    messages = [message for peer, message in answers.take() if peer == "n1"]
    assert answers.take() == []
    return [(m["seq"], m["next_node_idx"], m["reset"], m["success"]) for m in messages]


def test_acknowledgements_of_a_tick_are_one() -> None:
    assert merged(accepted(1, 5), accepted(2, 7), accepted(3, 7)) == [(3, 7, False, True)]


def test_a_later_acknowledgement_of_less_does_not_take_back_the_further_one() -> None:
    assert merged(accepted(1, 9), accepted(2, 4)) == [(2, 9, False, True)]


def test_an_acknowledgement_settles_a_rejection_before_it() -> None:
    assert merged(rejected(1), accepted(2, 7)) == [(2, 7, False, True)]


def test_a_rejection_after_an_acknowledgement_is_said_too() -> None:
    assert merged(accepted(1, 7), rejected(2), rejected(3)) == [(1, 7, False, True), (3, 2, True, False)]


def test_a_new_term_replaces_what_was_said_in_the_old_one() -> None:
    assert merged(accepted(1, 7), rejected(1, term=2)) == [(1, 2, True, False)]


def test_each_leader_gets_its_own_answer() -> None:
    answers = Answers()
    answers.add("n1", accepted(1, 5))
    answers.add("n2", accepted(1, 6, term=2))
    assert [(peer, message["term"], message["next_node_idx"]) for peer, message in answers.take()] == [
        ("n1", 1, 5),
        ("n2", 2, 6),
    ]


ANSWERS = st.lists(
    st.one_of(
        st.builds(accepted, st.integers(1, 50), st.integers(2, 20)),
        st.builds(rejected, st.integers(1, 50), st.integers(2, 20)),
    ),
    min_size=1,
    max_size=10,
)


@given(ANSWERS)
def test_the_merged_answers_say_as_much_as_all_of_them(answers: list[Answer]) -> None:
    said = merged(*answers)
    assert len(said) <= 2
    furthest = max((answer.next_index for answer in answers if answer.success), default=None)
    assert furthest == max((next_index for _, next_index, _, success in said if success), default=None)
    assert said[-1][2] == answers[-1].reset, "whether the last word was a rejection"
    assert said[-1][0] == answers[-1].seq


def test_a_window_empties_with_the_echo() -> None:
    follower = Follower()
    for seq, size in ((1, 100), (2, 0), (3, 50)):
        follower.sent(seq, size, commit_index=1)
    assert follower.in_flight_bytes == 150
    follower.echoed(3, joined=False)
    assert follower.in_flight_bytes == 0 and follower.echoed_seq == 0, "an empty store confirms nothing"
    follower.sent(3, 50, commit_index=1)
    follower.echoed(2, joined=True)
    assert (follower.in_flight_bytes, follower.echoed_seq) == (50, 2)
    follower.echoed(1, joined=True)
    assert follower.echoed_seq == 2, "an echo never falls"
    follower.forget_in_flight()
    assert follower.in_flight_bytes == 0


def test_only_a_rejection_of_something_newer_is_acted_upon() -> None:
    follower = Follower(reset_floor=5)
    for seq, act in ((5, False), (6, True)):
        assert is_reset_to_act_upon(follower, rejected(seq).message()) is act
    assert not is_reset_to_act_upon(follower, accepted(6, 3).message())


def test_a_vote_counts_once_a_term() -> None:
    ballots = Ballots()
    assert ballots.is_first(1, "n2")
    assert not ballots.is_first(1, "n2")
    assert ballots.is_first(1, "n3")
    assert ballots.is_first(2, "n2")
