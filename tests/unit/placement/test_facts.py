"""What single messages say, where it is easily misread."""

from kvberth.placement import facts
from kvberth.placement.states import Cause
from kvberth_schemas.wants import DirWantV1, Why
from support.placement_world import START


def test_a_directory_whose_cache_is_no_longer_wanted_still_says_why_it_went():
    """A placement may be killed when it has removed one of the two wants that are done."""
    drop = DirWantV1(term=1, state="drop", why=Why.MOVED, namespace="default", kvcache="kv")
    wanted = facts.wanted(None, drop, Cause("e1", None, 1, START), None)
    assert (wanted.run, wanted.why) == (False, Why.MOVED)
