"""Files that came from elsewhere are read, and never run."""

import pickle
import shutil

import pytest
import torch

from subtune import cli
from subtune.core.errors import SubtuneError
from subtune.models.encoder import load_encoder
from subtune.models.families import SEQUENCE_CLASSIFICATION
from tests.helpers import examples


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return open, (self.mark, "w")


@pytest.fixture
def mark(tmp_path):
    return tmp_path / "exploded"


@pytest.fixture
def model(tmp_path, tiny_bert):
    """A directory of a model, to which a test adds files."""
    return shutil.copytree(tiny_bert, tmp_path / "model")


def test_the_bomb_goes_off_where_a_pickle_is_read(mark):
    pickle.loads(pickle.dumps(Bomb(mark)))
    assert mark.exists()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "tf_model.h5", "model.ckpt"])
@pytest.mark.parametrize("has_safetensors", [True, False])
@pytest.mark.fault("files", "a pickle as model or table", "never read")
def test_a_pickle_among_a_models_files_is_never_read(mark, model, name, has_safetensors):
    torch.save({"embeddings": Bomb(mark)}, model / name)
    if has_safetensors:
        assert load_encoder(model, SEQUENCE_CLASSIFICATION, 2).parameters
    else:
        (model / "model.safetensors").unlink()
        with pytest.raises(SubtuneError, match=r"has no model\.safetensors"):
            load_encoder(model, SEQUENCE_CLASSIFICATION, 2)
    assert not mark.exists()


def test_a_pickle_under_the_name_of_safetensors_is_refused(mark, model):
    torch.save({"embeddings": Bomb(mark)}, model / "model.safetensors")
    with pytest.raises(SubtuneError):
        load_encoder(model, SEQUENCE_CLASSIFICATION, 2)
    assert not mark.exists()


@pytest.mark.fault("files", "code beside a model or in a package", "never run")
def test_code_beside_a_model_is_never_run(mark, model):
    for name in ("modeling_own.py", "tokenization_own.py", "configuration_own.py", "__init__.py"):
        (model / name).write_text(f"open({str(mark)!r}, 'w')\n")
    assert load_encoder(model, SEQUENCE_CLASSIFICATION, 2).parameters
    assert examples.tokens(examples.run_spec().tokens.data.task, model)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["train.pkl", "train.pt", "train.py", "train.arrow"])
def test_a_table_that_would_have_to_be_run_is_refused(
    tmp_path, mark, monkeypatch, minilm, capsys, name
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(pickle.dumps(Bomb(mark)))
    assert cli.main(["init", "--train", name, "--dev", name, "--model", str(minilm)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not mark.exists()


def test_a_package_is_found_without_being_imported(tmp_path, mark, monkeypatch, capsys):
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").write_text(f"open({str(mark)!r}, 'w')\n")
    (package / "inner").mkdir()
    (package / "inner" / "__init__.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("mine", "mine.inner"):
        (tmp_path / "mine.yaml").write_text(
            f"source: builtin\nmodels: {{m: {{package: {name}}}}}\nexperiments:\n"
            "  e: {models: [m], tasks: [rte], methods: {bitfit: [1.0e-3]}, epochs: 1, "
            "batch_size: 8}\n"
        )
        assert cli.main(["plan", "mine.yaml"]) == 1
        assert "models.m: " in capsys.readouterr().err
        assert not mark.exists()
