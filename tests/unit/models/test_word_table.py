"""Word tables with given vectors: which rows training moves, against one table whose given rows are put back."""

import copy

import numpy as np
import pytest
import torch

from tests.gpu import a_gpu
from tests.synthetic import FIRST, make_family, make_objective, synthetic, with_word_vectors
from vse import registry
from vse.models.encoders import WordTable
from vse.models.family import Context, Family
from vse.training.config import OptimConfig
from vse.training.step import Stepper

DATA = synthetic(seed=8, images=9)
TOKENS = torch.tensor([[1, 4, 5, 2, 0], [1, 7, 3, 8, 2]])
READ = torch.unique(TOKENS)


def _given(num: int = 10, dim: int = 3, known: tuple[int, ...] = (4, 6, 7)) -> Context:
    vectors = torch.zeros(num, dim)
    vectors[list(known)] = torch.randn(len(known), dim)
    return Context(num, {}, vectors)


def _step(table: WordTable, optimizer: torch.optim.Optimizer, target: torch.Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    (table(TOKENS) * (TOKENS != 0)[..., None] - target).square().sum().backward()
    optimizer.step()


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_given_rows_stay_and_others_learn_as_in_a_table_whose_given_rows_are_put_back(decay, fused):
    torch.manual_seed(0)
    context = _given()
    assert context.word_vectors is not None
    table, plain = WordTable(context, 99, fixed=True), WordTable(context, 99, fixed=False)
    plain.load_state_dict(table.state_dict())
    before, target = table.state_dict()["embedding.weight"], torch.randn(2, 5, 3)
    known = context.word_vectors.abs().sum(1) > 0
    optimizers = [
        torch.optim.AdamW([p for p in each.parameters() if p.requires_grad], lr=0.05, weight_decay=decay, fused=fused)
        for each in (table, plain)
    ]
    for _ in range(7):
        _step(table, optimizers[0], target)
        _step(plain, optimizers[1], target)
        with torch.no_grad():
            plain.embedding.weight[known] = context.word_vectors[known]
    after = table.state_dict()["embedding.weight"]
    assert torch.equal(after[known], context.word_vectors[known])
    torch.testing.assert_close(after[1:], plain.embedding.weight.detach()[1:])
    moved = (after != before).any(1)
    assert moved[READ][1:].tolist() == [number not in (4, 7) for number in READ[1:].tolist()]
    assert not moved[0]
    assert moved[9] == bool(decay)  # what is never read only decays
    assert torch.equal(table(TOKENS), after[TOKENS])


def test_only_fixed_tables_with_words_to_learn_have_a_second_one():
    learned = WordTable(_given(), 9, fixed=True).learned
    assert learned is not None
    assert learned.shape == (6, 3)  # ten words, less three given and padding
    for context, fixed in ((_given(), False), (Context(10, {}), True), (_given(known=tuple(range(1, 10))), True)):
        assert WordTable(context, 9, fixed=fixed).learned is None
    table = WordTable(_given(), 9, fixed=True, learn_missing=False)
    assert table.learned is None
    assert not any(parameter.requires_grad for parameter in table.parameters())


@pytest.mark.parametrize(("given", "dim"), [(True, 3), (False, 9)])
@pytest.mark.parametrize("fixed", [True, False])
def test_the_table_says_how_long_its_vectors_are(given, dim, fixed):
    table = WordTable(_given() if given else Context(10, {}), 9, fixed=fixed)
    assert table.dim == dim
    assert table(TOKENS).shape == (2, 5, dim)


def test_the_state_is_one_table_that_loads_with_and_without_the_given_vectors():
    """As a trained run is opened: of the given vectors only their size is known. So do tables written before."""
    table = WordTable(_given(), 9, fixed=True).double()
    with torch.no_grad():
        assert table.learned is not None
        table.learned.normal_()
    state = table.state_dict()
    assert list(state) == ["embedding.weight"]
    assert torch.equal(state["embedding.weight"][TOKENS], table(TOKENS))
    kept = {name: value.clone() for name, value in state.items()}
    for context in (_given(), Context(10, {}, torch.zeros(10, 3)), Context(10, {})):
        other = WordTable(context, 3, fixed=True).double()
        other.load_state_dict(kept)
        assert torch.equal(other(TOKENS), table(TOKENS))
        assert torch.equal(other.state_dict()["embedding.weight"], kept["embedding.weight"])
    assert list(kept) == ["embedding.weight"]  # loading leaves what it was given alone
    twin = copy.deepcopy(table)
    with torch.no_grad():
        assert twin.learned is not None
        twin.learned.zero_()
    assert torch.equal(table.state_dict()["embedding.weight"], kept["embedding.weight"])
    assert not twin.state_dict()["embedding.weight"][3].any()
    with pytest.raises(RuntimeError, match="size mismatch"):
        table.load_state_dict({"embedding.weight": torch.zeros(4, 3)})
    with pytest.raises(RuntimeError, match="Missing key"):
        table.load_state_dict({})


def _reads_words(family: Family) -> bool:
    return any(isinstance(module, WordTable) for module in family.modules())


WITH_WORDS = [name for name in registry.names("family") if _reads_words(make_family(name, DATA.context))]


@pytest.mark.parametrize("name", WITH_WORDS)
def test_every_family_keeps_given_vectors_and_learns_the_others(name):
    """VSE-C learns nothing there: a word's grounded part is learned beside its distributional one."""
    family, objective = make_family(name, DATA.context, vectors=True, fixed_words=True), make_objective(name)
    (table,) = (module for module in family.modules() if isinstance(module, WordTable))
    given = with_word_vectors(DATA.context).word_vectors
    assert given is not None
    known = given.abs().sum(1) > 0
    before = table.state_dict()["embedding.weight"].clone()
    stepper = Stepper(family, family, objective, OptimConfig(lr=0.01, weight_decay=0.1), "float64")
    collate = DATA.collator(family, objective)
    for number in range(3):
        stepper.step(collate(np.arange(len(DATA)), 2), 2, number)
    moved = (table.state_dict()["embedding.weight"] != before).any(1)
    assert not moved[known].any()
    assert not moved[0]
    missing = (~known).nonzero()[:, 0]
    assert moved[missing[missing >= FIRST]].all() == (name != "vsec")
    assert (table.learned is None) == (name == "vsec")


def test_words_without_a_vector_are_still_no_nodes_of_the_relational_family():
    """Thesis, section 3.3: dropped; what a caption of such words alone keeps is learned."""
    context = with_word_vectors(DATA.context)
    family = make_family("relational", context, fixed_words=True, padded_length=0).eval()
    dropped, kept = FIRST + 1, FIRST + 2
    tokens = {name: torch.tensor([[1, *words, 2]]) for name, words in (("with", (kept, dropped)), ("without", (kept,)))}
    codes = [
        family.encode_captions({"tokens": row, "lengths": torch.tensor([row.shape[1]])})["captions"]
        for row in tokens.values()
    ]
    torch.testing.assert_close(codes[0], codes[1])


def test_on_a_gpu_the_state_is_the_same():
    table = WordTable(_given(), 9, fixed=True)
    expected, words = table.state_dict(), table(TOKENS)
    with a_gpu() as gpu:
        moved = copy.deepcopy(table).to(gpu)
        assert torch.equal(moved(TOKENS.to(gpu)).cpu(), words)
        moved.load_state_dict({name: value.clone() for name, value in expected.items()})
        assert torch.equal(moved.state_dict()["embedding.weight"].cpu(), expected["embedding.weight"])
