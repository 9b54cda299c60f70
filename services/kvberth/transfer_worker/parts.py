"""Commits of shards: who is to hear what when a block has become visible, or is given up for want of a shard.

The store says when that is. A client that commits a shard which waits already hears of it with the others: that a block
is present is true when it can be found.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kvberth.store.blockstore import BlockStore
from kvberth.store.layout.rings import Commit, Outcome
from kvberth.transfer_worker.answers import Answer
from kvberth.transfer_worker.member import Member


class _Parked(NamedTuple):
    member: Member
    answer: Answer
    owns: bool
    """Whether it is this one's slot that waits; else another one's, with the same shard."""


class Parts:
    """The commits that wait for others. What it returns is settled: its time (`at_ns`) is the caller's to say."""

    def __init__(self, store: BlockStore) -> None:
        self._store = store
        self._joiner = store.joiner
        self._parked: dict[bytes, list[_Parked]] = {}

    def take(self, member: Member, commits: Sequence[Commit]) -> list[Answer]:
        """Settles what can be settled now, also for other clients."""
        settled: list[Answer] = []
        for commit in commits:
            key, outcome = commit.key, self._commit(member, commit)
            stored = Answer(member.client, member.session, commit.grant, commit.generation, key, Outcome.STORED, 0)
            if outcome is None:
                owns = self._joiner.holds(key, commit.slot)
                member.waiting += owns
                self._parked.setdefault(key, []).append(_Parked(member, stored, owns))
                continue
            settled.append(stored._replace(outcome=outcome))
            if not self._joiner.waits(key):
                settled += self._settle(key, outcome)
        return settled

    def late(self) -> list[Answer]:
        """Gives up what has waited too long for its other shards."""
        return self._give_up(self._joiner.late())

    def leave(self, client: bytes) -> list[Answer]:
        """A client begins anew: nothing of it waits any more, and no block that it has a part in."""
        own = [key for key, parked in self._parked.items() if any(_is_of(each, client) for each in parked)]
        held = [key for key in own if any(_is_of(each, client) and each.owns for each in self._parked[key])]
        for key in own:
            self._parked[key] = [each for each in self._parked[key] if each.owns or not _is_of(each, client)]
        return [answer for answer in self._give_up(held) if answer.client != client]

    def _commit(self, member: Member, commit: Commit) -> Outcome | None:
        if member.held.get(commit.grant) != (commit.slot, commit.generation):
            return Outcome.EXPIRED
        del member.held[commit.grant]
        return self._store.commit_part(
            commit.slot, commit.generation, member.client, commit.key, commit.length, member.part
        )

    def _give_up(self, keys: Iterable[bytes]) -> list[Answer]:
        keys = list(keys)
        self._joiner.drop(keys)
        return [answer for key in keys for answer in self._settle(key, Outcome.SHARD)]

    def _settle(self, key: bytes, outcome: Outcome) -> list[Answer]:
        """The last word on a block, for all who wait for it."""
        answers = []
        for member, answer, owns in self._parked.pop(key, ()):
            member.waiting -= owns
            other = Outcome.PRESENT if outcome is Outcome.STORED else outcome
            answers.append(answer._replace(outcome=outcome if owns else other))
        return answers


def _is_of(parked: _Parked, client: bytes) -> bool:
    return parked.answer.client == client
