"""The layout is a contract between processes of different ages: its offsets stand here in numbers, once more."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvberth.store.errors import LayoutRefused, Malformed
from kvberth.store.layout import entries, extents, leases, rings, slots, superblock
from kvberth.store.layout.geometry import CLIENT_PAGE_BYTES, MAX_SLOTS, MIRROR_BYTES, PAGE, Geometry
from kvberth.store.layout.superblock import Checksum, StoreState, Superblock

MIB = 1 << 20
EPOCH = bytes(range(16))
words = st.integers(0, 2**64 - 1)
keys = st.binary(min_size=32, max_size=32)
pages = st.integers(1, 64).map(lambda count: count * PAGE)


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    least = draw(pages)
    extent = least * draw(st.integers(1, 16))
    arena = extent * draw(st.integers(1, 8)) + draw(pages) + PAGE * 64
    return Geometry(draw(st.integers(1, 4)), arena, extent, least, draw(st.integers(1, 64)))


def usable(geometry: Geometry) -> bool:
    try:
        geometry.check()
    except LayoutRefused:
        return False
    return True


def page_of(block: Superblock, state: int = StoreState.READY) -> bytes:
    page = bytearray(superblock.encode(block))
    struct.pack_into("=Q", page, superblock.STATE_AT, state)
    return bytes(page)


BLOCK = Superblock(EPOCH, (7, 1 << 63), Geometry(2, 256 * MIB), Checksum.XXH3_64, 1)


def test_the_offsets_are_those_of_version_1() -> None:
    page = page_of(BLOCK)
    assert page[0:8] == struct.pack("=Q", 2)
    assert page[8:16] == b"kvbindex"
    assert page[16:24] == struct.pack("=Q", 1)
    assert page[24:40] == EPOCH
    assert struct.unpack_from("=8Q", page, 40)[:7] == (2, 256 * MIB, 64 * MIB, 65536, 64, 1, 1)
    assert struct.unpack_from("=2Q", page, 1024) == (7, 1 << 63)
    assert (slots.GENERATION * 8, slots.STATE * 8, leases.LEASES_AT) == (32, 120, 69632)


def test_a_plain_store_has_its_blocks_where_the_description_says() -> None:
    geometry = Geometry(1, 256 * MIB)
    assert (geometry.extents, geometry.slots_per_extent) == (3, 1024)
    assert geometry.slot_data(1024 + 5, 2 * MIB) == (0, geometry.data_at + 64 * MIB + 10 * MIB)
    assert geometry.data_at % PAGE == 0
    assert len(geometry.slots_of(0, 2 * MIB)) == 32
    assert len(geometry.slots_of(0, 16 * MIB)) == 4


def test_a_clients_page_and_the_workers_mirror_hold_their_rings() -> None:
    assert rings.COMMIT_RING_AT + rings.RECORDS * rings.COMMIT_BYTES == leases.LEASES_AT
    assert leases.LEASES_AT + leases.LEASES * leases.LEASE_BYTES <= CLIENT_PAGE_BYTES
    assert rings.RECEIPT_RING_AT + rings.RECORDS * rings.RECEIPT_BYTES <= MIRROR_BYTES


@given(geometries())
def test_no_two_things_of_a_store_overlap(geometry: Geometry) -> None:
    if not usable(geometry):
        return
    last = geometry.extents_per_arena - 1
    assert geometry.extent_record(last)[1] + 64 <= geometry.headers_at
    assert geometry.header(geometry.slots_per_arena - 1)[1] + 128 <= geometry.data_at
    assert geometry.data_at + geometry.extents_per_arena * geometry.extent_bytes <= geometry.arena_bytes
    cut = geometry.slots_of(last, geometry.least_slot_bytes)
    arena, offset = geometry.slot_data(cut[-1], geometry.least_slot_bytes)
    assert (arena, offset + geometry.least_slot_bytes) == (
        0,
        geometry.data_at + geometry.extents_per_arena * geometry.extent_bytes,
    )
    assert geometry.slots / geometry.buckets <= 0.4


@given(geometries())
def test_a_superblock_comes_back_as_it_was(geometry: Geometry) -> None:
    if not usable(geometry):
        return
    block = Superblock(EPOCH, tuple(range(geometry.arenas)), geometry, Checksum.NONE, 2)
    assert superblock.decode(page_of(block)) == block


@given(st.integers(0, PAGE - 1), st.integers(1, 255))
def test_a_superblock_with_any_changed_byte_is_refused(place: int, change: int) -> None:
    page = bytearray(page_of(BLOCK))
    page[place] ^= change
    if place >= superblock._CHECK_AT + 8:
        assert superblock.decode(bytes(page)) == BLOCK  # nobody reads there
    else:
        with pytest.raises(Malformed):
            superblock.decode(bytes(page))


@given(st.binary(max_size=2 * PAGE))
def test_any_bytes_are_a_superblock_or_refused_with_a_sentence(page: bytes) -> None:
    with pytest.raises(Malformed):
        superblock.decode(page)


def test_a_store_that_is_being_made_is_not_read() -> None:
    with pytest.raises(Malformed, match="not ready"):
        superblock.decode(page_of(BLOCK, StoreState.BUILDING))


def test_an_arena_of_another_epoch_or_place_is_refused() -> None:
    head = superblock.encode_arena(EPOCH, 1)
    superblock.check_arena(head, EPOCH, 1)
    for epoch, number in ((EPOCH, 0), (bytes(16), 1)):
        with pytest.raises(Malformed):
            superblock.check_arena(head, epoch, number)


@pytest.mark.parametrize(
    "geometry",
    [
        Geometry(0, 256 * MIB),
        Geometry(257, 256 * MIB),
        Geometry(1, 64 * MIB),
        Geometry(1, 256 * MIB + 1),
        Geometry(1, 256 * MIB, clients=65),
        Geometry(1, 256 * MIB, extent_bytes=64 * MIB, least_slot_bytes=3 * PAGE),
    ],
)
def test_sizes_that_make_no_store_are_refused(geometry: Geometry) -> None:
    with pytest.raises(LayoutRefused):
        geometry.check()


@given(st.binary(max_size=256), st.integers(-1, 160))
def test_any_bytes_are_a_header_or_refused(data: bytes, offset: int) -> None:
    try:
        header = slots.decode(data, offset)
    except Malformed:
        return
    assert slots.encode(header) == data[offset : offset + 128]


@given(st.binary(min_size=32, max_size=32), geometries())
def test_any_bytes_are_a_possible_extent_or_refused(data: bytes, geometry: Geometry) -> None:
    if not usable(geometry):
        return
    try:
        record = extents.decode(data, 0, geometry)
    except Malformed:
        return
    assert extents.encode(record) == data


@given(geometries(), st.integers(1, 64).map(lambda count: count * PAGE), words, st.integers(1, 2**64 - 1))
def test_an_extent_that_was_cut_is_read_as_it_was(geometry: Geometry, cut: int, sequence: int, layout: int) -> None:
    if not usable(geometry) or cut > geometry.extent_bytes:
        return
    record = extents.ExtentRecord(cut, len(geometry.slots_of(0, cut)), sequence, layout)
    assert extents.decode(extents.encode(record), 0, geometry) == record


@given(keys, words, st.integers(0, 2**40), words)
def test_an_entry_comes_back_as_it_was(key: bytes, generation: int, slot: int, shards: int) -> None:
    entry = entries.Entry(key, generation, slot, shards)
    assert entries.decode(entries.encode(entry)) == entry


def test_an_empty_place_is_no_entry() -> None:
    assert entries.decode(bytes(64)) is None


@given(keys, words, words, st.integers(0, 2**24 - 1), st.integers(0, 2**40 - 1), st.integers(0, 2**64 - 2))
def test_a_commit_is_read_by_its_number_only(
    key: bytes, grant: int, generation: int, slot: int, length: int, sequence: int
) -> None:
    commit = rings.Commit(key, grant, generation, slot, length)
    data = rings.encode_commit(sequence, commit)
    assert rings.decode_commits(data, sequence, 2**24) == [commit]
    with pytest.raises(Malformed):
        rings.decode_commits(data, sequence + 1, 2**24)
    with pytest.raises(Malformed):
        rings.decode_commits(data, sequence, slot)


@given(st.binary(min_size=64, max_size=64), st.integers(0, 2**63))
def test_any_bytes_are_ring_records_or_refused(data: bytes, sequence: int) -> None:
    for read in (
        lambda: rings.decode_commits(data, sequence, 10),
        lambda: rings.decode_grants(data, sequence),
        lambda: rings.decode_receipts(data, sequence),
    ):
        with pytest.raises(Malformed):
            read()


@given(words, words, words, st.integers(0, 2**64 - 2), st.sampled_from(rings.Outcome))
def test_grants_and_receipts_come_back(
    grant: int, slot: int, generation: int, sequence: int, outcome: rings.Outcome
) -> None:
    given_, receipt = rings.Grant(grant, slot, generation), rings.Receipt(grant, outcome, generation)
    assert rings.decode_grants(rings.encode_grant(sequence, given_), sequence) == [given_]
    assert rings.decode_receipts(rings.encode_receipt(sequence, receipt), sequence) == [receipt]


@given(st.integers(0, MAX_SLOTS - 1), st.integers(0, 2**62), st.integers(0, 3_600 * 10**9))
def test_a_lease_ends_at_its_time_and_at_most_two_ticks_later(slot: int, now: int, lasts: int) -> None:
    word = leases.valid_word(slot, now + lasts)
    assert 0 < word < 2**63
    assert leases.slot_of(word) == slot
    if lasts:
        assert not leases.expired(word, now + lasts - 1)
    assert leases.expired(word, now + lasts + 2 * leases.TICK_NS)
    assert leases.expired(word, now + lasts + 3_600 * 10**9)
