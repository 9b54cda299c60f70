"""The worker reads leases that clients write, who may write anything."""

import random

from kvberth.store.layout import leases
from kvberth.store.leased import MAX_LEASE_NS, leased_slots
from support.store_memory import SMALL, small_memory

NOW = 10**15


def test_leases_of_all_clients_are_found_until_they_end() -> None:
    memory = small_memory()
    for client, (slot, generation) in enumerate([(0, 3), (5, 9)]):
        words = memory.lease_words(client)
        words[2 * 4000], words[2 * 4000 + 1] = generation, leases.valid_word(slot, NOW + 10**9)
    assert leased_slots(memory, NOW, range(2)) == {0: {3}, 5: {9}}
    assert leased_slots(memory, NOW, [1]) == {5: {9}}
    assert leased_slots(memory, NOW + 2 * 10**9, range(2)) == {}


def test_a_lease_for_ever_or_on_no_slot_is_nonsense() -> None:
    memory = small_memory()
    words = memory.lease_words(0)
    words[0], words[1] = 3, leases.valid_word(1, NOW + 2 * MAX_LEASE_NS)
    words[2], words[3] = 3, leases.valid_word(SMALL.slots, NOW + 10**9)
    assert leased_slots(memory, NOW, range(2)) == {}


def test_random_words_of_a_client_hold_real_slots_only() -> None:
    memory = small_memory()
    memory.client_page(0)[:] = random.Random(1).randbytes(len(memory.client_page(0)))
    assert all(0 <= slot < SMALL.slots for slot in leased_slots(memory, NOW, range(2)))
