"""Embeddings of items: in order, gathered, and asked of the encoder only when unknown."""

from types import SimpleNamespace

import pytest
import torch

from agentserve.core.config import FeatureCacheConfig
from agentserve.engine.boot import Boot
from agentserve.engine.feature_cache import FeatureCache
from agentserve.engine.items import features
from agentserve.engine.items.carried import Carried, carried_of, source_of
from agentserve.engine.items.features import embed_items, encode, item_features

WIDTH = 3


class Model:
    """Counts the pictures it sees: each token of a picture's embedding is (mark, its index, 0)."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.visual = torch.nn.Linear(1, 1)
        self.table = torch.nn.Embedding(10, WIDTH)

    def get_input_embeddings(self) -> torch.nn.Embedding:
        return self.table

    def get_image_feature(self, items: list) -> torch.Tensor:
        self.seen += [item.mark for item in items]
        return torch.cat(
            [
                torch.tensor(
                    [[item.mark, i, 0.0] for i in range(int(item.image_grid_thw.prod()) // 4)]
                )
                for item in items
            ]
        )


def picture(mark: int, rows: int, columns: int, **carried) -> SimpleNamespace:
    data = Carried(content=f"sha256:{mark:064x}", **carried).pack() if carried else {}
    grid = torch.tensor([[1, 2 * rows, 2 * columns]])
    return SimpleNamespace(mark=mark, image_grid_thw=grid, model_specific_data=data)


def token(of: int) -> SimpleNamespace:
    return SimpleNamespace(model_specific_data=Carried(token=of).pack())


@pytest.fixture
def known() -> FeatureCache:
    return FeatureCache(1 << 20, None, 1, "0" * 64)


def ask(model: Model, known: FeatureCache, *items) -> list[torch.Tensor]:
    return item_features(model.get_image_feature, model, known, list(items))


def test_each_item_gets_its_own_in_order(known: FeatureCache):
    model = Model()
    items = [picture(1, 2, 2, kept=(0, 3)), token(7), picture(2, 1, 2), picture(3, 1, 1, base=4)]
    first, text, second, third = ask(model, known, *items)
    assert first.tolist() == [[1, 0, 0], [1, 3, 0]]
    assert torch.equal(text, model.table.weight[7:8])
    assert second.tolist() == [[2, 0, 0], [2, 1, 0]]
    assert third.tolist() == [[3, 0, 0]]
    assert model.seen == [1, 2, 3]


def test_text_alone_asks_no_encoder(known: FeatureCache):
    model = Model()
    assert [f.shape for f in ask(model, known, token(1), token(2))] == [(1, WIDTH)] * 2
    assert model.seen == []


def test_text_has_nothing_for_deeper_layers(known: FeatureCache):
    model = Model()
    model.deepstack_visual_indexes = [5, 11]
    (text,) = ask(model, known, token(4))
    assert torch.equal(text[0, :WIDTH], model.table.weight[4])
    assert text[0, WIDTH:].tolist() == [0] * 2 * WIDTH


def test_a_known_region_is_not_encoded_again_whatever_is_kept(known: FeatureCache):
    model = Model()
    ask(model, known, picture(1, 2, 2, kept=(0,)))
    again, new = ask(model, known, picture(1, 2, 2, kept=(1, 2)), picture(2, 1, 1, base=0))
    assert again.tolist() == [[1, 1, 0], [1, 2, 0]]
    assert new.tolist() == [[2, 0, 0]]
    assert model.seen == [1, 2]


def test_ordinary_images_are_not_remembered(known: FeatureCache):
    model = Model()
    for _ in range(2):
        encode(model.get_image_feature, [(picture(1, 1, 1), None)], known, torch.device("cpu"))
    assert model.seen == [1, 1]


class TestInABatch:
    """The hook itself: ``stock`` stands for SGLang's function."""

    @pytest.fixture
    def stock(self, known: FeatureCache, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(features, "worker_cache", lambda facts: known)
        monkeypatch.setattr(features.compat, "model_facts", lambda model: None)
        return lambda data_embedding_func, embedding_items, rest: (data_embedding_func, rest)

    def test_ordinary_images_alone_go_the_stock_way(self, stock):
        encoder = Model().get_image_feature
        items = [picture(1, 1, 2), picture(2, 2, 2)]
        function, rest = embed_items(stock, encoder, embedding_items=items, rest=3)
        assert rest == 3 and torch.equal(function(items), encoder(items))
        assert function.__self__ is encoder.__self__
        assert [source_of(item) for item in items] == ["encoder"] * 2

    def test_with_an_item_the_encoder_is_replaced_by_its_like(self, stock):
        model = Model()
        items = [picture(1, 1, 1), token(2)]
        function, _ = embed_items(stock, model.get_image_feature, embedding_items=items, rest=3)
        assert function.__self__ is model
        assert function.__name__ == "get_image_feature"
        assert [f.shape for f in function(items)] == [(1, WIDTH)] * 2


def test_the_cache_is_the_boot_s(monkeypatch: pytest.MonkeyPatch, tmp_path):
    config = FeatureCacheConfig(memory_mb=1, folder=str(tmp_path / "features"))
    monkeypatch.setattr(features, "boot_of", lambda: Boot(feature_cache=config))
    (tmp_path / "config.json").write_text("{}")
    local = features.compat.ModelFacts(str(tmp_path), None, "float32", "cpu", "None")
    for facts, writes in (
        (local, True),
        (features.compat.ModelFacts("a/b", None, "", "", ""), False),
    ):
        cache = features.worker_cache(facts)
        assert cache.stats().writing is writes
        assert cache.close()


def test_what_an_item_carries_survives_the_transport():
    """SGLang's transport turns tuples into lists."""
    carried = Carried("sha256:0", (4, 6), (0, 1, 2, 3), 5, 6, (1, 4), "a" * 64, 2)
    packed = carried.pack()["agentserve"]
    lists = {k: list(v) if isinstance(v, tuple) else v for k, v in packed.items()}
    item = SimpleNamespace(model_specific_data={"agentserve": lists})
    assert carried_of(item) == carried
    assert carried_of(SimpleNamespace(model_specific_data={})) is None
