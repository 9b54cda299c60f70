"""A command that follows a stack ends with it, and says once that the bus is away."""

import asyncio

import pytest

from kvberth.bare.stack.layout import Address, Layout
from kvberth.cli.errors import CommandError
from kvberth.cli.following import AWAY_AFTER_LOOKS, Watch, while_it_runs

ADDRESS = Address("nats://127.0.0.1:1", 1, 1, ("a",))


async def for_ever():
    await asyncio.Event().wait()


def test_a_bus_that_is_away_is_told_once_and_so_is_its_return(tmp_path):
    watch = Watch(Layout.of(tmp_path), None)
    looks = [True, *[False] * (AWAY_AFTER_LOOKS + 3), True, True]
    told = [sentence for connected in looks if (sentence := watch.look(connected))]
    assert told == ["the bus is away; what it says is shown when it is back", "the bus is back"]


def test_a_bus_that_is_back_at_once_is_not_worth_a_word(tmp_path):
    watch = Watch(Layout.of(tmp_path), None)
    assert [watch.look(connected) for connected in (True, False, True)] == [None] * 3


@pytest.mark.parametrize("other", [None, Address("nats://127.0.0.1:2", 2, 2, ("a",))])
async def test_what_follows_a_stack_ends_when_that_is_gone_or_another_runs_in_its_place(tmp_path, other):
    layout, told = Layout.of(tmp_path), []
    ADDRESS.write(layout)
    watch = Watch(layout, ADDRESS)
    assert not watch.ended
    layout.address_file.unlink()
    if other:
        other.write(layout)
    async with asyncio.timeout(5):
        await while_it_runs(watch, lambda: True, told.append, for_ever())
    assert told == [f"the kvberth with the state directory {tmp_path} has ended"]


async def test_what_follows_a_bus_that_is_named_by_its_url_ends_only_by_itself(tmp_path):
    async def broken():
        raise CommandError("no")

    assert not Watch(Layout.of(tmp_path), None).ended
    with pytest.raises(CommandError, match="no"):
        await while_it_runs(Watch(Layout.of(tmp_path), None), lambda: True, print, broken())
