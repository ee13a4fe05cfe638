from hypothesis import given
from hypothesis import strategies as st

from vse.evaluation.file_names import LONGEST, stem, stems

NAMES = st.lists(st.text("abc-_.1é ", min_size=1, max_size=90), min_size=1, max_size=30)


def test_the_stem_of_a_file_and_of_an_address() -> None:
    assert stem("/data/add att.json") == "add_att"
    assert stem("s3://bucket/pairs/swap.obj.json?endpoint_url=http://a") == "swap.obj"


def test_few_names_are_joined_and_many_are_counted() -> None:
    assert stems(["a/add_att.json", "swap_obj.json"]) == "add_att-swap_obj"
    many = [f"category_{k}.json" for k in range(18)]
    assert stems(many).startswith("category_0-and-17-more-")
    assert stems(many) != stems([*many[:-1], "another.json"])


@given(NAMES)
def test_a_file_can_have_the_name(files: list[str]) -> None:
    name = stems(files)
    assert len(name) <= LONGEST
    assert "/" not in name
