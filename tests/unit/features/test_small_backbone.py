"""The small backbone: its shapes, folding, weights of its own, and the control with random ones."""

import pytest
import torch
from safetensors.torch import save_file

from vse import registry
from vse.config import override
from vse.errors import InputError
from vse.features.backbones import SmallBackbone
from vse.features.small_backbone import SHIPPED, convolutions, fold

Config = SmallBackbone.Config
CPU = torch.device("cpu")


def squares(items=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (items, 1, 112, 112, 3), generator=generator, dtype=torch.uint8)


def test_both_backbones_are_registered_with_usable_defaults():
    assert {"small", "torchvision"} <= set(registry.names("backbone"))
    backbone = registry.build("backbone", override(Config(), {"weights": "random", "seed": "3"}))
    assert backbone.shapes() == {"map": (49, 128), "pooled": (128,)}


def test_folding_changes_nothing():
    torch.manual_seed(0)
    trained = convolutions(normalised=True)
    for _ in range(3):
        trained(torch.randn(4, 3, 112, 112))  # moves the running statistics
    for module in trained:
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 2)
            torch.nn.init.uniform_(module.bias, -1, 1)
    plain = convolutions(normalised=False)
    plain.load_state_dict(fold(trained))
    x = torch.randn(2, 3, 112, 112)
    with torch.no_grad():
        torch.testing.assert_close(plain(x), trained.eval()(x), rtol=1e-4, atol=1e-4)


def test_outputs_are_the_map_and_its_mean_and_rows_do_not_depend_on_their_neighbours():
    network = SmallBackbone(Config(weights="random")).load(["map", "pooled"]).prepare(CPU)
    x = squares()
    features = network(x)
    assert features["map"].shape == (3, 49, 128)
    torch.testing.assert_close(features["map"].mean(1), features["pooled"])
    torch.testing.assert_close(network(x[1:2])["map"], features["map"][1:2])
    assert (features["map"] >= 0).all()
    assert features["map"].std() > 0.1


def test_a_cell_sees_its_own_place():
    difference = torch.zeros(49)
    for seed in range(6):
        network = SmallBackbone(Config(weights="random", seed=seed)).load(["map"]).prepare(CPU)
        x = squares(1, seed)
        changed = x.clone()
        changed[0, 0, 3 * 16 : 4 * 16, 5 * 16 : 6 * 16] = 0
        difference += (network(x)["map"] - network(changed)["map"]).abs().sum(2)[0]
    grid = difference.view(7, 7)
    assert int(difference.argmax()) == 3 * 7 + 5
    torch.testing.assert_close(grid[2, 5], grid[4, 5], rtol=0.2, atol=0)  # centred, not leaning to a side
    torch.testing.assert_close(grid[3, 4], grid[3, 6], rtol=0.2, atol=0)


def test_weights_are_part_of_the_identity(tmp_path):
    def state(seed):
        torch.manual_seed(seed)
        return convolutions(normalised=False).state_dict()

    for seed in (1, 2):
        save_file(state(seed), tmp_path / f"{seed}.safetensors")
    backbones = [SmallBackbone(Config(weights=str(tmp_path / f"{seed}.safetensors"))) for seed in (1, 2)]
    backbones += [SmallBackbone(Config(weights="random", seed=seed)) for seed in (1, 2)]
    identities = [str(backbone.identity()) for backbone in backbones]
    assert len(set(identities)) == 4
    maps = [backbone.load(["map"]).prepare(CPU)(squares(1))["map"] for backbone in backbones]
    assert not torch.equal(maps[0], maps[1])
    assert not torch.equal(maps[2], maps[3])


def test_a_wrong_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        SmallBackbone(Config(weights="missing.safetensors"))
    save_file({"conv1.weight": torch.zeros(1)}, tmp_path / "x.safetensors")
    with pytest.raises(InputError, match=r"conv1\.weight has shape"):
        SmallBackbone(Config(weights=str(tmp_path / "x.safetensors"))).load(["map"])


def test_the_shipped_weights_are_small_and_load():
    assert SHIPPED.stat().st_size < 6_000_000
    features = SmallBackbone(Config()).load(["map"]).prepare(CPU)(squares())["map"]
    assert torch.isfinite(features).all()
    assert features.abs().max() < 60_000  # half precision holds it
